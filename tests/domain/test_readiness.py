"""Each rule of restart readiness against a manifest that breaks it and one that only just does not."""

from pathlib import Path

import pytest
import yaml

from fleet.domain import readiness
from fleet.domain.readiness import Load, Rule, Severity
from tests.domain.readiness_cases import good, manifests, patched, report

DATA = Path("tests/data/readiness")
E, W, I = Severity.ERROR, Severity.WARNING, Severity.INFO  # noqa: E741
NOT_HEALED = {Rule.BUDGET_SELECTS, Rule.BARE_POD, Rule.SHARED_VOLUME}  # whose remedy is another object, or goes away


def server(change: str) -> str:
    """A change of the server's container."""
    return f"Deployment: {{spec: {{template: {{spec: {{containers: [{{name: server, {change}}}]}}}}}}}}"


def pod(change: str) -> str:
    return f"Deployment: {{spec: {{template: {{spec: {{{change}}}}}}}}}"


def told(change: str, notes: str) -> str:
    """A change of the container of pods that are annotated."""
    return (
        f"Deployment: {{spec: {{template: {{metadata: {{annotations: {{{notes}}}}}, "
        f"spec: {{containers: [{{name: server, {change}}}]}}}}}}}}"
    )


def loads(time: str, change: str = "image: 'a:1'") -> str:
    return told(change, f"vigie.dev/load-time: {time}")


def volume(source: str, mount: str = "/ckpt", args: str = "--output_dir=/ckpt/run1") -> str:
    return pod(
        f"containers: [{{name: server, args: ['{args}'], volumeMounts: [{{name: v, mountPath: {mount}}}]}}], "
        f"volumes: [{{name: v, {source}}}]"
    )


def claimed(mode: str, deployment: str, also: str = "") -> str:
    claim = (
        "Claim: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: chat}, "
        f"spec: {{accessModes: [{mode}]}}}}"
    )
    source = "template: {spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}}"
    return f"Deployment: {{spec: {{{deployment}, {source}}}}}\n{claim}\n{also}"


def job(policy: str) -> str:
    return (
        "Job: {apiVersion: batch/v1, kind: Job, metadata: {name: fit, namespace: chat}, "
        f"spec: {{{policy} template: {{spec: {{restartPolicy: Never}}}}}}}}"
    )


def budget(change: str) -> str:
    return f"PodDisruptionBudget: {{spec: {{{change}}}}}"


def second(namespace: str) -> str:
    return (
        "Second: {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, namespace: "
        f"{namespace}}}, spec: {{maxUnavailable: 1, selector: {{}}}}}}"
    )


def bare(metadata: str) -> str:
    head = f"{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: lab{metadata}}}"
    return f"Pod: {head}, spec: {{containers: [{{name: c, image: 'a:1'}}]}}}}"


def hook(command: str, image: str = "a:1") -> str:
    return server(f"image: '{image}', lifecycle: {{preStop: {{sleep: null, exec: {{command: {command}}}}}}}")


def own_names(change: str, address: str) -> str:
    """The change of a StatefulSet whose Service has the address: with none its pods find only each other by it."""
    stateful = change.replace("Deployment: {spec: {", "Deployment: {kind: StatefulSet, spec: {serviceName: llm, ")
    return f"Service: {{spec: {{clusterIP: {address}}}}}\n{stateful}"


CLAIM = "persistentVolumeClaim: {claimName: c}"
IGNORED = "podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]},"
KEPT = "template: {metadata: {annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: 'false'}}, "
GREEN = "Service: {spec: {selector: {app: llm, version: green}}}\n"
SCALER = (
    "Autoscaler: {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: llm, namespace: chat}, "
    "spec: {minReplicas: %s, maxReplicas: %s, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llm}}}\n"
)
RECREATE = "Deployment: {spec: {strategy: {type: Recreate}}}"
ONE = "strategy: {type: Recreate}, replicas: 1"
ZONES = (
    "Deployment: {spec: {replicas: 2, template: {spec: {topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, "
    "labelSelector: null}, {topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: llm}}}]}}}}"
)
SPOT_NODES = pod(
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
    "[{matchExpressions: [{key: cloud.google.com/gke-spot, operator: In, values: ['true']}]}]}}}"
)

# rule, severity, what breaks it, what only just does not
CASES = [
    ("R01", E, server("readinessProbe: null"), "Service: null\n" + server("readinessProbe: null")),
    ("R01", E, server("readinessProbe: null, ports: []"), pod("containers: [{name: sidecar, image: 'a:1', ports: []}]")),
    (
        "R01", E,
        pod("containers: [{name: server, readinessProbe: null}, "
            "{name: proxy, image: 'a:1', readinessProbe: {tcpSocket: {port: 1}}}]"),
        pod("containers: [{name: proxy, image: 'a:1'}]"),
    ),
    (
        "R01", E,
        own_names(server("readinessProbe: null"), "10.0.0.1"), own_names(server("readinessProbe: null"), "None"),
    ),
    ("R02", W, "Service: {spec: {publishNotReadyAddresses: true}}", "Service: {spec: {publishNotReadyAddresses: false}}"),
    (
        "R03", E,
        loads("91s", "startupProbe: null, livenessProbe: {initialDelaySeconds: 60, failureThreshold: 3}"),
        loads("90s", "startupProbe: null, livenessProbe: {initialDelaySeconds: 60, failureThreshold: 3}"),
    ),
    (
        "R03", E,
        loads("91s", "startupProbe: null, livenessProbe: {initialDelaySeconds: 60, failureThreshold: 3}"),
        loads("91s", "resources: null, startupProbe: null, livenessProbe: {initialDelaySeconds: 60, failureThreshold: 3}"),
    ),
    ("R04", W, loads("291s"), loads("290s")),
    ("R04", W, loads("5m"), loads("5m", "startupProbe: {failureThreshold: 31}")),
    ("R04", E, loads("301s"), loads("301s", "startupProbe: {initialDelaySeconds: 11}")),
    ("R05", W, "Deployment: {spec: {progressDeadlineSeconds: 310}}", "Deployment: {spec: {progressDeadlineSeconds: 311}}"),
    (
        "R05", W,
        told("startupProbe: {failureThreshold: 50}", "vigie.dev/pull-time: 90s"),
        told("startupProbe: {failureThreshold: 50}", "vigie.dev/pull-time: 89s"),
    ),
    (
        "R06", W,
        server("livenessProbe: {httpGet: {path: /ready}, periodSeconds: 5, failureThreshold: 5}"),
        server("livenessProbe: {httpGet: {path: /ready}, periodSeconds: 5, failureThreshold: 6}"),
    ),
    (
        "R06", W,
        server("livenessProbe: {httpGet: {path: /ready}, periodSeconds: 5, failureThreshold: 3}"),
        server("livenessProbe: {httpGet: {path: /alive}, periodSeconds: 5, failureThreshold: 3}"),
    ),
    ("R07", E, server("lifecycle: {preStop: {sleep: {seconds: 60}}}"), server("lifecycle: {preStop: {sleep: {seconds: 59}}}")),
    (
        "R07", E,
        hook("[sh, -c, 'sleep 30; sleep 30']"),
        hook("[sh, -c, 'sleep 30; echo sleepy']"),
    ),
    ("R08", E, told("image: 'a:1'", "vigie.dev/drain-time: 56s"), told("image: 'a:1'", "vigie.dev/drain-time: 55s")),
    (
        "R08", E,
        told("image: 'a:1'", "vigie.dev/save-time: 3m"),
        told("image: 'a:1'", "vigie.dev/save-time: 50s, vigie.dev/drain-time: 55s"),
    ),
    (
        "R08", E,
        told("image: 'a:1'", "vigie.dev/save-time: 50s, vigie.dev/drain-time: 56s"),
        told("image: 'a:1'", "vigie.dev/save-time: 55s, vigie.dev/drain-time: 50s"),
    ),
    (
        "R08", E,
        told("lifecycle: {preStop: {sleep: {seconds: 90}}}", "vigie.dev/drain-time: 10s"),
        server("lifecycle: {preStop: {sleep: {seconds: 90}}}"),
    ),
    (
        "R09", W,
        pod("terminationGracePeriodSeconds: 30, containers: [{name: server, lifecycle: null}]"),
        "Service: null\n" + pod("terminationGracePeriodSeconds: 30, containers: [{name: server, lifecycle: null}]"),
    ),
    (
        "R09", W,
        pod("terminationGracePeriodSeconds: null, containers: [{name: server, lifecycle: null}]"),
        pod("terminationGracePeriodSeconds: 31, containers: [{name: server, lifecycle: null}]"),
    ),
    (
        "R10", I,
        hook("[/bin/sleep, '5']", "gcr.io/distroless/python3:1"),
        hook("[/bin/sleep, '5']", "gcr.io/distroless/python3:debug"),
    ),
    ("R11", W, server("command: [sh, -c, 'cd /a && run it']"), server("command: [sh, -c, 'cd /a && exec run it']")),
    ("R11", W, server("command: [/bin/bash, -lc], args: ['run it']"), server("command: [tini, --, sh, -c, 'run it']")),
    (
        "R11", W,
        server("command: [sh, -c, 'run it']"),
        server("command: [sh, -c, 'trap \"kill 7\" TERM; run it & wait']"),
    ),
    ("R12", E, server("args: [--output_dir, /ckpt/run1]"), server("args: [--output_dir, 's3://bucket/run1']")),
    ("R12", E, server("env: [{name: CKPT_DIR, value: /ckpt}]"), volume(CLAIM)),
    ("R12", E, volume(CLAIM, "/ckpt-old"), volume(CLAIM, "/")),
    ("R13", E, volume("emptyDir: {}"), volume("emptyDir: {}", "/ckpt", "--port=8000")),
    ("R13", E, volume("emptyDir: {medium: Memory}"), volume(CLAIM)),
    ("R13", E, volume("ephemeral: {volumeClaimTemplate: {spec: {}}}"), volume(CLAIM)),
    ("R13", W, volume("hostPath: {path: /srv}"), volume("nfs: {server: s}")),
    ("R14", E, claimed("ReadWriteOnce", "replicas: 1"), claimed("ReadWriteOnce", ONE)),
    ("R14", W, claimed("ReadWriteOnce", "replicas: 4"), claimed("ReadWriteMany", "replicas: 4")),
    (
        "R14", E,
        claimed("ReadWriteOncePod", "replicas: 4"),
        claimed("ReadWriteOncePod", "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}"),
    ),
    ("R15", E, claimed("ReadWriteOnce", "replicas: 2"), claimed("ReadWriteOnce", "replicas: 1")),
    (
        "R15", E,
        claimed("ReadWriteOnce", "replicas: 2"),
        claimed("ReadWriteOnce", "replicas: 2").replace("Deployment: {", "Deployment: {kind: StatefulSet, "),
    ),
    (
        "R17", E,
        "Deployment: {spec: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: '0%'}}}}",
        "Deployment: {spec: {replicas: 3, strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: '25%'}}}}",
    ),
    ("R18", W, RECREATE, f"Service: null\n{RECREATE}"),
    ("R18", W, RECREATE, f"Deployment: {{spec: {{{ONE}}}}}"),
    ("R18", W, RECREATE, claimed("ReadWriteOnce", "strategy: {type: Recreate}, replicas: 2")),
    ("R19", E, budget("maxUnavailable: 0"), budget("maxUnavailable: '1%'")),
    ("R19", E, budget("maxUnavailable: null, minAvailable: 4"), budget("maxUnavailable: null, minAvailable: 3")),
    ("R19", E, budget("maxUnavailable: null, minAvailable: 80%"), budget("maxUnavailable: null, minAvailable: 75%")),
    (
        "R19", E,
        SCALER % (2, 4) + budget("maxUnavailable: null, minAvailable: 4"),
        SCALER % (2, 5) + budget("maxUnavailable: null, minAvailable: 4"),
    ),
    ("R20", W, "PodDisruptionBudget: null", "PodDisruptionBudget: null\nDeployment: {spec: {replicas: 1}}"),
    (
        "R20", W,
        SCALER % (1, 4) + "PodDisruptionBudget: null\nDeployment: {spec: {replicas: 1}}",
        SCALER % (1, 1) + "PodDisruptionBudget: null\nDeployment: {spec: {replicas: 1}}",
    ),
    ("R21", E, "PodDisruptionBudget: {spec: {selector: {matchLabels: {app: llm2}}}}", "Deployment: null"),
    (
        "R21", E,
        second("chat"), second("other"),
    ),
    ("R22", I, "PodDisruptionBudget: {spec: {unhealthyPodEvictionPolicy: IfHealthyBudget}}", "Deployment: {spec: {replicas: 5}}"),
    ("R23", W, GREEN, GREEN + "PodDisruptionBudget: {spec: {selector: {matchLabels: {app: llm, version: blue}}}}"),
    ("R24", W, "Deployment: {spec: {replicas: 1}}", "Service: null\nDeployment: {spec: {replicas: 1}}"),
    (
        "R25", W,
        pod("topologySpreadConstraints: null"),
        pod("topologySpreadConstraints: null, affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "
            "[{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: llm}}}}]}}"),
    ),
    ("R25", W, pod("topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, labelSelector: null}]"), ""),
    (
        "R25", W,
        ZONES,
        pod("topologySpreadConstraints: null, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "[{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: llm}}}]}}"),
    ),
    ("R27", E, server("resources: {requests: {nvidia.com/gpu: 2}}"), server("resources: {requests: {nvidia.com/gpu: 1}}")),
    ("R27", E, server("resources: {limits: {nvidia.com/gpu: '0.5'}}"), server("resources: {limits: {cpu: '0.5'}}")),
    ("R27", E, server("resources: {requests: {nvidia.com/gpu: 1}, limits: null}"), server("resources: {requests: {cpu: 1}}")),
    ("R28", W, server("image: 'registry.example:5000/llm'"), server("image: 'registry.example:5000/llm:1'")),
    ("R28", W, server("image: 'llm:latest'"), server(f"image: 'llm@sha256:{'a' * 64}'")),
    (
        "R29", W,
        bare(""), bare(", annotations: {kubernetes.io/config.mirror: x}"),
    ),
    ("R30", E, GREEN, GREEN + "Deployment: {spec: {template: {metadata: {labels: {version: blue}}}}}"),
    ("R31", W, pod("nodeSelector: {kubernetes.io/hostname: gpu-1}"), pod("nodeSelector: {pool: a100}")),
    ("R31", W, pod("nodeName: gpu-1"), pod("nodeName: ''")),
    ("R31", W, pod("nodeName: gpu-1"), bare("").replace("spec: {", "spec: {nodeName: gpu-1, ")),
    (
        "R31", W,
        pod("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
            "[{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [gpu-1]}]}]}}}"),
        pod("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
            "[{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [gpu-1, gpu-2]}]}]}}}"),
    ),
    *(
        ("R32", W, job(f"podFailurePolicy: {{rules: [{{{rule}}}]}},"), job(IGNORED))
        for rule in ("action: FailJob, onPodConditions: [{type: DisruptionTarget}]",
                     "action: Ignore, onPodConditions: [{type: ConfigIssue}]")
    ),
    ("R32", W, job(""), job(IGNORED)),
    (
        "R33", I,
        "Deployment: {spec: {minReadySeconds: 0}}",
        "Deployment: {spec: {minReadySeconds: 0, template: {spec: {containers: [{name: server, resources: null}]}}}}",
    ),
    ("R33", I, "Deployment: {spec: {minReadySeconds: 0}}", "Service: null\nDeployment: {spec: {minReadySeconds: 0}}"),
    (
        "R34", W,
        pod("nodeSelector: {cloud.google.com/gke-spot: 'true'}"),
        pod("terminationGracePeriodSeconds: 30, nodeSelector: {cloud.google.com/gke-spot: 'true'}"),
    ),
    (
        "R34", W,
        pod("tolerations: [{key: kubernetes.azure.com/scalesetpriority, value: spot}]"),
        pod("nodeSelector: {eks.amazonaws.com/capacityType: SPOT}"),
    ),
    ("R34", W, SPOT_NODES, pod("terminationGracePeriodSeconds: 30")),
    ("R34", W, pod("terminationGracePeriodSeconds: 601"), pod("terminationGracePeriodSeconds: 600")),
    (
        "R34", W,
        pod("terminationGracePeriodSeconds: 601"),
        pod("terminationGracePeriodSeconds: 601").replace("template: {", KEPT),
    ),
]  # fmt: skip
BY_ROOM = {"R16", "R26"}  # tests/domain/test_readiness_room.py


def test_nothing_is_wrong_with_the_good_manifests():
    assert report(good()).findings == ()


def test_each_rule_has_a_case():
    assert {case[0] for case in CASES} | BY_ROOM == {rule.value for rule in Rule}


@pytest.mark.parametrize(("rule", "severity", "breaks", "keeps"), CASES)
def test_rule(rule, severity, breaks, keeps):
    found = [one for one in report(good(breaks)).findings if one.rule == rule]
    assert [one.severity for one in found] == [severity]
    assert rule not in {one.rule.value for one in report(good(keeps)).findings}


@pytest.mark.parametrize(("rule", "breaks"), [(case[0], case[2]) for case in CASES if case[0] not in NOT_HEALED])
def test_a_remedy_is_a_patch_that_heals(rule, breaks):
    objects = good(breaks)
    finding = next(one for one in report(objects).findings if one.rule == rule)
    remedy, kind = yaml.safe_load(finding.remedy), finding.object.partition("/")[0]
    name = next(key for key, found in objects.items() if found["kind"] == kind)
    healed = {"Added": remedy} if "kind" in remedy else {name: patched(objects[name], remedy)}
    assert rule not in {one.rule.value for one in report({**objects, **healed}).findings}


@pytest.mark.parametrize(("source", "case"), [("emptyDir: {}", "empty"), ("emptyDir: {medium: Memory}", "memory")])
def test_memory_is_told_from_a_disk_that_goes(source, case):
    assert [one.case for one in report(good(volume(source))).findings if one.rule == "R13"] == [case]


def test_the_remedies_of_what_has_to_be_chosen():
    two = report(good(next(case[2] for case in CASES if case[0] == "R21" and "Second" in case[2])))
    assert yaml.safe_load(next(one.remedy for one in two.findings if one.case == "two"))["$patch"] == "delete"
    bare = report(good(next(case[2] for case in CASES if case[0] == "R29")))
    made = yaml.safe_load(next(one.remedy for one in bare.findings if one.rule == "R29"))
    assert (made["kind"], made["spec"]["selector"]) == ("Deployment", {"matchLabels": {"app": "p"}})


# What the reference lists for the lesson's own manifest and text, and what follows from the exact conditions besides: R20 as long
# as its budget is not in the file, R22 and R33 once budget and Service are. Its startup budget is guaranteed 290 s, which R04
# tells whoever declares a load time of 5 min.


def lesson(*, around: bool = False, load: str = "") -> list[tuple[str, str, int]]:
    text = (DATA / "lesson.yaml").read_text()
    if load:
        text = text.replace("      labels:", f"      annotations: {{vigie.dev/load-time: {load}}}\n      labels:", 1)
    found = manifests(text, "lesson.yaml")
    if around:
        found += manifests((DATA / "lesson-around.yaml").read_text(), "around.yaml")
    return [(one.rule.value, one.severity.value, one.line) for one in readiness.report(found).findings]


def test_the_lessons_manifest_alone():
    assert lesson() == [("R20", "warning", 1), ("R25", "warning", 19)]


def test_the_lessons_manifest_with_the_service_and_the_budget_of_its_text():
    assert lesson(around=True) == [
        ("R33", "info", 5), ("R30", "error", 17), ("R25", "warning", 19), ("R22", "info", 15), ("R23", "warning", 17),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("load", "told"), [("290s", []), ("5m", [("R04", "warning", 28)]), ("301s", [("R04", "error", 28)])]
)
def test_the_lessons_startup_budget(load, told):
    assert [one for one in lesson(load=load) if one[0] == "R04"] == told


def test_what_is_measured_counts_before_what_is_declared():
    found = manifests(good(told("image: 'a:1'", "vigie.dev/load-time: 10m")))
    measured = readiness.live(found, {"Deployment/chat/llm": Load(120.0, 4)}, lambda _: None)
    assert measured.findings == ()


def test_an_annotation_that_is_no_duration_is_a_doubt_with_its_line():
    found = report(good(told("image: 'a:1'", "vigie.dev/load-time: soon")))
    assert [(one.object, one.annotation, one.line > 0) for one in found.doubts] == [
        ("Deployment/chat/llm", "vigie.dev/load-time", True)
    ]
