"""Why a rollout is held up: every reason with its evidence, read off a small cluster through the inventory."""

from typing import Any

import pytest

from fleet.domain.holdups import startup_budget_s
from fleet.domain.objects import Probe
from fleet.domain.picture import Snapshot
from fleet.domain.rollout_picture import HoldupRow, RolloutRow
from tests.domain.cluster import (
    EPOCH,
    EPOCH_AT,
    GPU,
    budget,
    changed,
    controller,
    deleted,
    inventory,
    node,
    occurrence,
    owned_by,
    pod,
    snapshot,
)

KEY = "Deployment/lab/llm"
REVISION = "deployment.kubernetes.io/revision"
NO_HOLE = f"0/3 nodes are available: 3 Insufficient {GPU}."


def version(number: int, replicas: int) -> dict[str, Any]:
    made = controller("ReplicaSet", f"llm-{number}", replicas, ownerReferences=owned_by("Deployment", "llm"))
    made["metadata"] |= {"labels": {"pod-template-hash": str(number)}, "annotations": {REVISION: str(number)}}
    return made


def member(name: str, number: int = 2, on: str = "n1", gpus: int = 2, **more: Any) -> dict[str, Any]:
    labels = {"pod-template-hash": str(number), "app": "llm"}
    return pod(name, on, gpus, labels=labels, ownerReferences=owned_by("ReplicaSet", f"llm-{number}"), **more)


def waiting_for_gpus(name: str = "new-1", message: str = NO_HOLE) -> dict[str, Any]:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return member(name, on="", status={"conditions": [unschedulable]})


def deployment(*conditions: dict[str, Any], wanted: int = 2, available: int = 2, **spec: Any) -> dict[str, Any]:
    status = {
        "observedGeneration": 3,
        "replicas": 3,
        "updatedReplicas": 1,
        "readyReplicas": available,
        "availableReplicas": available,
        "conditions": list(conditions),
    }
    return controller(
        "Deployment", "llm", wanted, 2, status=status, spec=spec, generation=3, annotations={REVISION: "2"}
    )


OLD = (member("old-1", 1), member("old-2", 1, "n2"))
SETS = (version(1, 2), version(2, 1))


def row(*objects: dict[str, Any], main: dict[str, Any] | None = None) -> RolloutRow:
    return shown(*objects, main=main).rollouts[KEY]


def shown(*objects: dict[str, Any], main: dict[str, Any] | None = None) -> Snapshot:
    return snapshot(node("n1"), node("n2"), *SETS, main or deployment(), *objects)


def held(*objects: dict[str, Any], main: dict[str, Any] | None = None) -> HoldupRow:
    (found,) = row(*objects, main=main).holdups
    return found


def container(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"conditions": [], "containerStatuses": [{"name": "main", "state": state, **more}]}


def waits(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


RUNS: dict[str, Any] = {"running": {"startedAt": EPOCH}}
CRASHED = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "CUDA error: out of memory"}}
STARTUP = {"startupProbe": {"periodSeconds": 10, "failureThreshold": 30}, "name": "main"}


def warned(about: dict[str, Any], reason: str, message: str, **more: Any) -> dict[str, Any]:
    return occurrence(about, host="n1", type="Warning", reason=reason, message=message, **more)


def refusal(message: str) -> dict[str, Any]:
    return {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": message,
        "lastTransitionTime": EPOCH,
    }


@pytest.mark.parametrize(
    ("objects", "main", "cause", "level", "evidence"),
    [
        pytest.param(
            (), refusal('pods "x" is forbidden: exceeded quota: gpus'), "quota", "bad", "exceeded quota", id="quota"
        ),
        pytest.param(
            (), refusal('admission webhook "policy" denied the request'), "admission", "bad", "webhook", id="webhook"
        ),
        pytest.param(
            (member("new-1", status=container(waits("ErrImagePull", "manifest unknown"))),),
            None,
            "image",
            "bad",
            "manifest",
            id="image",
        ),
        pytest.param(
            (member("new-1", status=container(waits("CrashLoopBackOff"), restartCount=4, lastState=CRASHED)),),
            None,
            "crash",
            "bad",
            "CUDA error: out of memory",
            id="crash loop, with the last words",
        ),
        pytest.param(
            (member("new-1", status=container(RUNS, restartCount=4, lastState=CRASHED)),),
            None,
            "crash",
            "bad",
            "CUDA error",
            id="crash loop while it runs",
        ),
        pytest.param(
            (member("new-1", status=container(waits("CreateContainerConfigError", 'secret "hf" not found'))),),
            None,
            "config",
            "bad",
            'secret "hf"',
            id="secret",
        ),
        pytest.param(
            (waiting_for_gpus(message="0/3 nodes: volume node affinity conflict"),),
            None,
            "unplaceable",
            "bad",
            "volume",
            id="u",
        ),
        pytest.param(
            (
                new := member("new-1", status=container(waits("ContainerCreating"))),
                warned(new, "FailedAttachVolume", "Multi-Attach error"),
            ),
            None,
            "volume",
            "warn",
            "Multi-Attach",
            id="volume",
        ),
        pytest.param(
            (
                new := member("new-1", status=container(RUNS)),
                warned(new, "Unhealthy", "Readiness probe failed: 503", count=7),
            ),
            None,
            "probe",
            "warn",
            "503",
            id="probe",
        ),
    ],
)
def test_reasons_with_their_evidence(
    objects: tuple[dict[str, Any], ...], main: dict[str, Any] | None, cause: str, level: str, evidence: str
) -> None:
    found = held(*OLD, *objects, main=deployment(*([main] if main else [])))
    assert (found.cause, found.level, found.since_at) == (cause, level, EPOCH_AT)
    assert evidence in found.evidence
    assert row(*OLD, *objects, main=deployment(*([main] if main else []))).eta_at is None


def test_nothing_holds_up_what_goes_its_way() -> None:
    for state in (container(waits("ContainerCreating")), container(RUNS)):
        assert row(*OLD, member("new-1", status=state)).holdups == ()


def test_a_warning_about_a_namesake_or_another_pod_counts_for_nobody() -> None:
    new = member("new-1", status=container(RUNS))
    before = {**new, "metadata": {**new["metadata"], "uid": "uid-of-the-one-before"}}
    for other in (before, OLD[0]):
        assert row(*OLD, new, warned(other, "Unhealthy", "Readiness probe failed")).holdups == ()


@pytest.mark.parametrize(
    ("state", "reason"), [(RUNS, "FailedMount"), (waits("PodInitializing"), "Unhealthy")], ids=["mounted", "not up yet"]
)
def test_a_warning_about_a_stage_that_is_over_or_still_to_come_holds_nothing_up(
    state: dict[str, Any], reason: str
) -> None:
    new = member("new-1", status=container(state) | {"initContainerStatuses": [{"name": "fetch", "state": RUNS}]})
    assert row(*OLD, new, warned(new, reason, "as it was then")).holdups == ()


def test_a_startup_probe_that_gives_up_too_early() -> None:
    main = deployment()
    main["spec"]["template"]["spec"]["containers"] = [STARTUP]
    took = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-12-01T19:06:00Z"}]
    new = member("new-1", status=container(RUNS, restartCount=1, lastState={"terminated": {"exitCode": 137}}))
    said = warned(new, "Unhealthy", "Startup probe failed: connection refused")
    found = held(member("old-1", 1, status={"conditions": took}), new, said, main=main)
    assert found.cause == "startup-budget"
    assert (
        dict(found.facts).items()
        >= {"budget_s": 290, "old_ready_after_s": 360, "restarts": 1, "exit_code": 137}.items()
    )


def test_the_startup_budget_that_is_guaranteed() -> None:
    assert startup_budget_s(Probe(failure_threshold=30)) == 290
    assert startup_budget_s(Probe(20, 5, 3)) == 30


SURGE_ONE: dict[str, Any] = {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}
ONE_MISSING: dict[str, Any] = {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}


def test_a_deadlock_is_no_hole_and_nobody_who_may_go() -> None:
    found = held(*OLD, waiting_for_gpus(), main=deployment(**SURGE_ONE))
    assert (found.cause, found.level, found.pods, found.pod) == ("deadlock", "bad", 1, "lab/new-1")
    assert dict(found.facts) == {"gpus": 2, "may_go": 0, "coming": 0, "leaving": 0}
    assert found.evidence == NO_HOLE


@pytest.mark.parametrize(
    ("more", "main", "level", "fact"),
    [
        pytest.param((), deployment(**ONE_MISSING), "warn", ("may_go", 1), id="an old pod may go"),
        pytest.param(
            (member("n-2", status=container(RUNS)),), deployment(**SURGE_ONE), "warn", ("coming", 1), id="coming"
        ),
        pytest.param(
            (member("o", 1, deletionTimestamp=EPOCH),), deployment(**SURGE_ONE), "warn", ("leaving", 1), id="leaving"
        ),
    ],
)
def test_no_hole_yet_while_something_moves(
    more: tuple[dict[str, Any], ...], main: dict[str, Any], level: str, fact: tuple[str, int]
) -> None:
    found = held(*OLD, waiting_for_gpus(), *more, main=main)
    assert (found.cause, found.level) == ("no-hole", level)
    assert fact in found.facts


def test_no_hole_for_the_first_version_is_no_deadlock() -> None:
    assert (held(waiting_for_gpus()).cause, held(waiting_for_gpus()).level) == ("no-hole", "bad")


def test_paused_and_not_observed_are_notes() -> None:
    paused = {"type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused", "lastUpdateTime": EPOCH}
    found = held(*OLD, main=deployment(paused, paused=True))
    assert (found.cause, found.level, found.since_at) == ("paused", "note", EPOCH_AT)
    behind = deployment()
    behind["metadata"]["generation"] = 4
    assert dict(held(*OLD, main=behind).facts) == {"wanted": 4, "observed": 3}


@pytest.mark.parametrize(("allowed", "causes"), [(0, ["budget"]), (1, [])])
def test_a_budget_holds_up_only_who_waits_to_be_evicted(allowed: int, causes: list[str]) -> None:
    status = {
        "observedGeneration": 1,
        "replicas": 1,
        "readyReplicas": 1,
        "updateRevision": "db-2",
        "currentRevision": "db-1",
    }
    by_hand = controller(
        "StatefulSet", "db", 1, status=status, generation=1, spec={"updateStrategy": {"type": "OnDelete"}}
    )
    one = pod(
        "db-0", labels={"app": "db", "controller-revision-hash": "db-1"}, ownerReferences=owned_by("StatefulSet", "db")
    )
    rule = budget("db", {"matchLabels": {"app": "db"}}, status={"disruptionsAllowed": allowed})
    found = snapshot(node("n1"), by_hand, one, rule).rollouts["StatefulSet/lab/db"]
    assert [h.cause for h in found.holdups] == causes
    rolled = budget("llm", {"matchLabels": {"app": "llm"}}, status={"disruptionsAllowed": 0})
    assert row(*OLD, member("new-1", status=container(RUNS)), rolled).holdups == (), "a rollout asks no budget"


QUOTA = 'create Pod db-1 in StatefulSet db failed error: pods "db-1" is forbidden: exceeded quota: gpus'
WEBHOOK = 'Error creating: admission webhook "policy" denied the request'


@pytest.mark.parametrize(
    ("kind", "message", "cause"),
    [
        pytest.param("StatefulSet", QUOTA, "quota", id="quota"),
        pytest.param("DaemonSet", WEBHOOK, "admission", id="webhook"),
    ],
)
def test_pods_that_a_controller_may_not_make_as_long_as_none_is_made(kind: str, message: str, cause: str) -> None:
    status = {"observedGeneration": 1, "readyReplicas": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 1}
    main = controller(kind, "db", 2, status=status, generation=1)
    one = pod("db-0", ownerReferences=owned_by(kind, "db"))
    live = inventory(node("n1"), main, one, occurrence(main, type="Warning", reason="FailedCreate", message=message))

    def found() -> list[tuple[str, str]]:
        return [(h.cause, h.level) for h in live.snapshot().rollouts[f"{kind}/lab/db"].holdups]

    assert found() == [(cause, "bad")]
    assert message in live.snapshot().rollouts[f"{kind}/lab/db"].holdups[0].evidence
    later = pod("db-1", ownerReferences=owned_by(kind, "db"), creationTimestamp="2026-12-01T19:01:00Z")
    live.apply(changed(later))
    assert found() == []
    live.apply(deleted(later))
    assert found() == [(cause, "bad")]
    live.apply(deleted(occurrence(main)))
    assert found() == []
    before = {**main, "metadata": {**main["metadata"], "uid": "uid-of-the-one-before"}}
    live.apply(changed(occurrence(before, type="Warning", reason="FailedCreate", message=message)))
    assert found() == []


def test_the_most_serious_reason_comes_first() -> None:
    pods = (
        waiting_for_gpus(),
        member("new-2", status=container(waits("ErrImagePull"))),
        member("new-3", status=container(waits("ErrImagePull"))),
    )
    found = row(*OLD, *pods, main=deployment(refusal("exceeded quota"), **SURGE_ONE)).holdups
    assert [(h.cause, h.pods) for h in found] == [("quota", 0), ("image", 2), ("no-hole", 1)]
