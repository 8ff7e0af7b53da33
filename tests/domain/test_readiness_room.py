"""Rules that ask what the cluster has room for (case T9), the rounding of budgets (T8), and the lines of a stop and a start."""

import pytest

from fleet.domain import budgets, readiness
from fleet.domain.capacity import taint_text
from fleet.domain.lifelines import lifelines
from fleet.domain.objects import Condition, Node, NodeMetadata, NodeSpec, NodeStatus, Taint
from fleet.domain.picture import LabelsRow, NodeRow, Resource
from fleet.domain.readiness import Load
from fleet.domain.readiness_room import Rooms, free_nodes
from tests.domain import readiness_cases
from tests.domain.readiness_cases import good

HOST = "kubernetes.io/hostname"


def node(name: str, free: int, *, cordoned: bool = False, taints: tuple[Taint, ...] = ()) -> Node:
    status = NodeStatus(allocatable={"nvidia.com/gpu": str(free)}, conditions=(Condition("Ready", "True"),))
    return Node(NodeMetadata(name=name, labels={HOST: name}), NodeSpec(cordoned, taints), status)


def deployment(replicas: int, gpus: int = 1, strategy: str = "", pods: str = "") -> str:
    return (
        f"Deployment: {{spec: {{replicas: {replicas}, strategy: {{{strategy}}}, template: {{spec: {{{pods}"
        f"containers: [{{name: server, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]}}}}}}}}"
    )


def found(changes: str, *nodes: Node) -> list[tuple[str, str, str]]:
    told = readiness.live(readiness_cases.manifests(good(changes)), {}, Rooms(nodes)).findings
    return [(one.severity.value, one.case, one.object) for one in told if one.rule in {"R16", "R26"}]


GENTLE = "rollingUpdate: {maxSurge: 0, maxUnavailable: 1}"
LLM = "Deployment/chat/llm"


@pytest.mark.parametrize(
    ("changes", "nodes", "told"),
    [
        (deployment(3), [node("a", 0)], [("error", "stall", LLM)]),
        (deployment(4), [node("a", 0)], [("warning", "below", LLM)]),
        (deployment(2, gpus=2), [node("a", 1), node("b", 1)], [("error", "stall", LLM)]),
        (deployment(2, gpus=2), [node("a", 2), node("b", 1)], []),
        (deployment(3), [node("a", 1, cordoned=True)], [("error", "stall", LLM)]),
        (deployment(3), [node("a", 1, taints=(Taint("team", "NoSchedule", "other"),))], [("error", "stall", LLM)]),
        (deployment(3), [node("a", 1)], []),
        (deployment(8), [node("a", 1), node("b", 1)], []),
        (deployment(9), [node("a", 1), node("b", 1)], [("warning", "below", LLM)]),
        (deployment(3, pods="nodeSelector: {pool: x}, "), [node("a", 1)], [("error", "stall", LLM)]),
        *((deployment(n, strategy=GENTLE), [node("a", 0)], []) for n in (1, 2, 3, 4, 50)),
        (deployment(6, strategy="rollingUpdate: {maxSurge: 2, maxUnavailable: 0}"), [node("a", 1)], [("warning", "slow", LLM)]),
    ],
)  # fmt: skip
def test_a_surge_needs_free_gpus_on_one_node_that_takes_it(changes, nodes, told):
    assert found(changes, *nodes) == told


def test_with_four_replicas_the_floor_of_a_rollout_without_free_gpus_is_three():
    told = readiness.live(readiness_cases.manifests(good(deployment(4))), {}, Rooms([node("a", 0)])).findings
    assert [(one.facts["floor"], one.facts["surge"]) for one in told if one.rule == "R16"] == [(3, 1)]


@pytest.mark.parametrize(
    ("least", "pods", "desired"),
    [("80%", 4, 4), ("75%", 4, 3), ("51%", 1, 1), ("50%", 7, 4), ("25%", 1, 1), ("10%", 3, 1)],
)
def test_percentages_of_budgets_round_up(least, pods, desired):
    assert budgets.of(least, pods) == desired


def test_a_strict_spread_wants_a_node_for_each_pod_and_the_surge():
    strict = "topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}], "
    roomy = [node(name, 8) for name in "abcde"]
    assert found(deployment(4, pods=strict), *roomy) == []
    assert found(deployment(4, pods=strict), *roomy[:4]) == [("warning", "", LLM)]


@pytest.mark.parametrize(("rule", "told"), [("required", [("warning", "", LLM)]), ("preferred", [])])
def test_only_an_anti_affinity_that_is_required_wants_a_node_for_each_pod(rule, told):
    term = "{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: llm}}}"
    terms = term if rule == "required" else f"{{weight: 1, podAffinityTerm: {term}}}"
    apart = (
        "topologySpreadConstraints: null, "
        f"affinity: {{podAntiAffinity: {{{rule}DuringSchedulingIgnoredDuringExecution: [{terms}]}}}}, "
    )
    assert found(deployment(4, pods=apart), *(node(name, 8) for name in "abcd")) == told


@pytest.mark.parametrize(("free", "told"), [(0, []), (1, ["R18"])])
def test_a_lone_gpu_justifies_recreate_only_while_no_other_is_free(free, told):
    changes = deployment(1, strategy="type: Recreate")
    seen = readiness.live(readiness_cases.manifests(good(changes)), {}, Rooms([node("a", free)])).findings
    assert [one.rule.value for one in seen if one.rule == "R18"] == told


def test_the_picture_tells_what_is_free():
    taint = Taint("team", "NoSchedule", "ml")
    row = NodeRow(
        name="a",
        ready="True",
        taints=(taint_text(taint),),
        resources=(Resource("nvidia.com/gpu", capacity=8, allocatable=8, allocated=4, free=3, overcommit=0, failed=1),),
    )
    (made,) = free_nodes([row], {"a": LabelsRow(labels=((HOST, "a"),))})
    assert made == node("a", 3, taints=(taint,))


# The lines of a stop and a start


def lines(changes: str = "", load: Load | None = None):
    told = readiness.live(
        readiness_cases.manifests(good(changes)), {LLM: load} if load else {}, lambda _: None
    ).subjects
    return lifelines(next(one for one in told if one.manifest.key == LLM))


def server(change: str, notes: str = "") -> str:
    return (
        f"Deployment: {{spec: {{template: {{metadata: {{annotations: {{{notes}}}}}, "
        f"spec: {{containers: [{{name: server, {change}}}]}}}}}}}}"
    )


def test_sigterm_follows_the_hook_within_the_same_grace_period():
    (stop,) = lines().stops
    assert (stop.term_s, stop.kill_s, stop.left_s, stop.lacks_s) == (5, 60, 55, 0)


def test_a_save_that_does_not_fit_lacks_what_sigkill_cuts_off():
    (stop,) = lines(server("image: 'a:1'", "vigie.dev/save-time: 3m")).stops
    assert (stop.need, stop.need_s, stop.lacks_s) == ("save", 180, 125)


@pytest.mark.parametrize(("save", "drain", "need"), [("50s", "20s", ("save", 50)), ("20s", "50s", ("drain", 50))])
def test_the_longer_need_counts(save, drain, need):
    (stop,) = lines(server("image: 'a:1'", f"vigie.dev/save-time: {save}, vigie.dev/drain-time: {drain}")).stops
    assert (stop.need, stop.need_s) == need


def test_a_hook_that_eats_the_grace_period_leaves_two_seconds():
    (stop,) = lines(server("lifecycle: {preStop: {sleep: {seconds: 90}}}")).stops
    assert (stop.cut_off, stop.term_s, stop.kill_s, stop.left_s) == (True, 60, 62, 2)


def test_a_hook_that_does_not_tell_its_time_leaves_it_unknown():
    (stop,) = lines(server("lifecycle: {preStop: {sleep: null, httpGet: {path: /bye, port: 1}}}")).stops
    assert (stop.has_hook, stop.hook_s, stop.cut_off) == (True, None, False)


def test_a_start_is_guaranteed_a_period_less_than_its_budget():
    (start,) = lines(load=Load(240.0, 4)).starts
    assert (start.guarded_by, start.guaranteed_s, start.nominal_s) == ("startup", 290, 300)
    assert start.load == Load(240.0, 4)
    assert start.liveness is not None
    assert (start.liveness.least_s, start.liveness.most_s) == (20, 31)


def test_without_a_startup_probe_liveness_ends_the_start_and_without_both_nothing_does():
    (start,) = lines(server("startupProbe: null")).starts
    assert (start.guarded_by, start.guaranteed_s, start.nominal_s) == ("liveness", 20, 30)
    (start,) = lines(server("startupProbe: null, livenessProbe: null")).starts
    assert (start.guarded_by, start.guaranteed_s) == ("", None)
