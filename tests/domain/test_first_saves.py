"""Which workloads are asked to save before their pods go, and what is lost by jobs of several pods."""

from typing import Any

import pytest
from msgspec.structs import replace

from fleet.domain import actions
from fleet.domain.facts import Facts, Owner, Saved, Unsaved
from fleet.domain.first_saves import Cannot, obstacle
from fleet.domain.grants import CheckpointRules
from fleet.domain.plans import Outcome, StepKind
from fleet.domain.policies import Policy
from fleet.domain.save_sites import Durability
from fleet.domain.training import HOOK, Training, hook_of
from tests.domain.drains import NODE, NOW, pod, safe, without

LLM = Owner("StatefulSet/lab/llm", "StatefulSet", "llm", replicas=11, ready=11)
OLD = Saved(NOW - 7200, 4_000, durable=True, step_s=2.0)


def rank(n: int, on: str = NODE, hook: str = "http:8080/save") -> Any:
    return pod(f"llm-{n}", on, 1, "StatefulSet", annotations={HOOK: hook} if hook else {})


def facts(*ranks: Any, save_first: bool = True, saved: Any = OLD, reported: tuple[str, ...] = (), **more: Any) -> Facts:
    """The servers of a safe drain, and a job of several ranks."""
    here = [one for one in ranks if one.spec.node_name == NODE]
    trainings = {
        one.metadata.uid: Training(LLM.key, "lab", durability=Durability.DURABLE, hook=hook_of(one)) for one in here
    }
    known = "saved" if isinstance(saved, Saved) else "unsaved"
    return safe(
        **{
            "pods": (*without("trainer-0"), *ranks),
            "owners": {**safe().owners, **{one.metadata.uid: LLM for one in ranks}},
            "saved": {},
            known: {one.metadata.uid: saved for one in here},
            "trainings": trainings,
            "save_first": save_first,
            "policy": Policy(checkpoints=CheckpointRules(reported=reported)),
            **more,
        }
    )


def about(found: Facts) -> set[tuple[Outcome, str, str]]:
    return {(c.outcome, c.reason, c.remedy) for c in actions.plan(found, "").checks if c.guard == "checkpoint"}


def test_a_job_is_asked_once_at_its_first_rank_wherever_that_runs() -> None:
    plan = actions.plan(facts(rank(10), rank(2), rank(1, "node-2"), rank(3, "node-3")), "")
    (save,) = plan.saves
    assert (save.workload, save.pod) == (LLM.key, "llm-1")
    assert set(save.pods) == {"llm-10", "llm-2"}
    assert [step.kind for step in plan.steps] == [
        StepKind.CORDON, StepKind.SAVE, StepKind.DRAIN, StepKind.RELEASE, StepKind.PROVE,
    ]  # fmt: skip


def test_a_rank_that_is_asked_in_another_way_is_not_asked() -> None:
    (save,) = actions.plan(facts(rank(2), rank(1, "node-2", hook="signal:USR1:main")), "").saves
    assert save.pod == "llm-2"


def test_a_job_loses_its_time_once_and_the_hours_of_all_its_gpus() -> None:
    loss = actions.plan(facts(rank(1), rank(2), rank(3, "node-2"), save_first=False), "").loss
    assert loss.work_s == 7200
    assert loss.gpu_hours == pytest.approx(3 * 2)
    assert {(one.work_s, one.steps) for one in loss.pods if one.training} == {(7200, 3600)}


def test_without_a_pace_steps_are_unknown() -> None:
    loss = actions.plan(facts(rank(1), saved=Saved(NOW - 7200, 4_000, durable=True)), "").loss
    assert {(one.work_s, one.steps) for one in loss.pods if one.training} == {(7200, None)}


@pytest.mark.parametrize(
    ("saved", "save_first", "found"),
    [
        (OLD, False, (Outcome.BLOCK, "age", "save-first")),
        (OLD, True, (Outcome.PASS, "saved-first", "")),
        (Unsaved("none", durable=True), True, (Outcome.PASS, "saved-first", "")),
        (Unsaved("none", durable=False), True, (Outcome.BLOCK, "dies-with-pod", "copy-checkpoint")),
        (Unsaved("none", durable=None), True, (Outcome.BLOCK, "durability-unknown", "copy-checkpoint")),
        (Unsaved("late", durable=True), True, (Outcome.BLOCK, "late", "grant-store")),
        (Unsaved("not-granted", durable=True), True, (Outcome.BLOCK, "not-granted", "grant-store")),
        (Saved(NOW - 7200, 4_000, durable=False), True, (Outcome.BLOCK, "dies-with-pod", "copy-checkpoint")),
        (Saved(NOW - 60, 4_000, durable=True, reported=True), True, (Outcome.BLOCK, "reported", "grant-store")),
    ],
)
def test_what_the_guard_says(saved: Any, save_first: bool, found: Any) -> None:
    assert about(facts(rank(1), saved=saved, save_first=save_first)) == {found}


def test_a_report_counts_where_policy_names_the_workload() -> None:
    said = Saved(NOW - 60, 4_000, durable=None, reported=True)
    trusted = facts(rank(1), saved=said, reported=(LLM.key,), save_first=False)
    assert about(trusted) == {(Outcome.WARN, "age", "")}
    assert obstacle(trusted, rank(1)) is None
    assert obstacle(facts(rank(1), saved=said), rank(1)) is Cannot.UNPROVED


def test_a_job_without_a_hook_blocks_beside_one_that_saves_first() -> None:
    """Each job answers for itself."""
    base = facts(rank(1))
    gnn = Owner("StatefulSet/lab/gnn", "StatefulSet", "gnn", replicas=1, ready=1)
    found = replace(
        base,
        pods=(*base.pods, pod("gnn-0", NODE, 1, "StatefulSet")),
        owners={**base.owners, "gnn-0": gnn},
        unsaved={"gnn-0": Unsaved("undeclared")},
    )
    assert about(found) == {(Outcome.PASS, "saved-first", ""), (Outcome.BLOCK, "undeclared", "let-save")}


def test_what_is_asked_is_part_of_what_somebody_confirms() -> None:
    one, other = (actions.plan(facts(rank(1, hook=f"http:{port}/save")), "") for port in (8080, 8081))
    assert one.digest != other.digest
    assert one.kubectl[1] == "kubectl create --raw /api/v1/namespaces/lab/pods/llm-1:8080/proxy/save -f /dev/null"


def test_a_rank_that_saves_elsewhere_is_not_saved_with_the_first() -> None:
    """Each pod of a StatefulSet may have a claim of its own, and a run of its own on it."""
    base = facts(rank(1), rank(2))
    places = {uid: replace(one, uri=f"pvc://lab/ckpt-{uid}") for uid, one in base.trainings.items()}
    found = replace(base, trainings=places)
    (save,) = actions.plan(found, "").saves
    assert len(save.pods) == 1
    assert about(found) == {(Outcome.PASS, "saved-first", ""), (Outcome.BLOCK, "age", "save-first")}


def test_the_guard_counts_what_would_be_done_again() -> None:
    """A long save holds the state of its beginning."""
    slow = Saved(NOW - 3000, 4_000, durable=True, state_at=NOW - 4000)
    assert about(facts(rank(1), saved=slow, save_first=False)) == {(Outcome.BLOCK, "age", "save-first")}


@pytest.mark.parametrize("kind", ["Job", "StatefulSet", "PyTorchJob"])
def test_all_pods_of_a_job_stop_with_one_of_them(kind: str) -> None:
    """No label says so for the pods of an Indexed Job: whether each is a run of its own nothing tells, so all count."""
    owner = Owner(f"{kind}/lab/llm", kind, "llm")
    ranks = [rank(1), rank(2, "node-2"), rank(3, "node-3")]
    base = facts(*ranks, save_first=False)
    plan = actions.plan(replace(base, owners={**base.owners, **{one.metadata.uid: owner for one in ranks}}), "")
    (mine,) = [one for one in plan.loss.pods if one.training]
    assert (mine.gang_gpus, plan.loss.work_s) == (2, 7200)
    assert plan.loss.gpu_hours == pytest.approx(3 * 2)


def test_a_job_of_several_jobs_is_one() -> None:
    """As a JobSet makes them: each has an owner of its own, and the label of all."""
    label = {"jobset.sigs.k8s.io/jobset-name": "llm"}
    ranks = [pod(f"llm-{n}", f"node-{n + 1}" if n else NODE, 1, "Job", labels=label) for n in range(4)]
    halves = [Owner(f"Job/lab/llm-{n // 2}", "Job", f"llm-{n // 2}") for n in range(4)]
    base = facts(*ranks, save_first=False)
    owners = {**base.owners, **{one.metadata.uid: half for one, half in zip(ranks, halves, strict=True)}}
    plan = actions.plan(replace(base, owners=owners), "")
    assert [one.gang_gpus for one in plan.loss.pods if one.training] == [3]


@pytest.mark.parametrize(("notes", "others"), [({}, 0), ({HOOK: "http:8080/save"}, 2)])
def test_replicas_that_nobody_says_train_do_not_stop_together(notes: dict[str, str], others: int) -> None:
    """What takes its work from a queue goes on; a pod that says where or how it saves is a rank of a run."""
    owner = Owner("Deployment/lab/llm", "Deployment", "llm")
    ranks = [pod(f"llm-{n}", f"node-{n + 1}" if n else NODE, 1, annotations=notes) for n in range(3)]
    base = facts(*ranks, save_first=False)
    plan = actions.plan(replace(base, owners={**base.owners, **{one.metadata.uid: owner for one in ranks}}), "")
    assert [one.gang_gpus for one in plan.loss.pods if one.training] == [others]
