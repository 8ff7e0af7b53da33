"""Saving first: what a plan promises from real files, and that nobody has to go without the checkpoint that was asked for."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fleet import act
from fleet.act import Actor, Refused, audit, running
from fleet.domain.actions import SAVE_FIRST
from fleet.domain.freshness import Report
from fleet.domain.grants import CheckpointRules
from fleet.domain.plans import ActionState, LaneState, Outcome, StepKind, StepState
from fleet.domain.policies import Deadlines, Limits, Policy
from fleet.models import Action, AuditEntry
from fleet.ports import OWN, PortError
from tests.domain import checkpoint_makers
from tests.fleet import pictures
from tests.fleet.shelves import OneStore
from tests.fleet.small_cluster import Killed, SmallCluster
from tests.fleet.test_running import LEASE_S, START, TARGET, Once, one_pass

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.db]

OLGA, ADA = Actor("olga", "operator"), Actor("ada", "approver")
WORKLOAD = "Deployment/lab/llm"


class Site(OneStore):
    name, actions = "lab", True

    def __init__(self, shelf: Path, **more: Any) -> None:
        super().__init__(shelf)
        self.changer: Any = SmallCluster.made(START, ["web"], nodes=4, trainers=["llm"], shelf=shelf, **more)
        self.policy = Policy(
            limits=Limits(nodes=9, nodes_per_pool=9, nodes_per_zone=9, nodes_per_rack=9, unusable_share=0.9),
            deadlines=Deadlines(drain_s=120, reboot_s=300, verify_s=60, prove_s=120, save_s=60),
        )

    def snapshot(self) -> Any:
        return pictures.read(self.changer.nodes, self.changer.now)

    def now(self) -> float:
        return float(self.changer.now)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Two checkpoints, the last one two hours old: more work than anybody may lose without asking."""
    made = Site(tmp_path)
    for _ in range(2):
        made.changer.save("llm")
        made.changer.pass_time(1000)
    made.changer.pass_time(6200)
    return made


def planned(site: Site, *, save_first: bool = True, actor: Actor = OLGA) -> Action:
    return act.propose(site, "drain", TARGET, "because", actor, site.now, dict([SAVE_FIRST]) if save_first else None)


def confirmed(site: Site) -> Action:
    action = planned(site)
    return act.confirm(site, action, action.digest, TARGET, {}, OLGA, site.now)


def ended(site: Site, action: Action) -> Action:
    for _ in range(300):
        one_pass(site, action)
        if action.state in act.plans.ENDED:
            return action
        site.changer.pass_time(1.0)
    pytest.fail(f"{[(s.kind, s.state, s.evidence) for s in action.steps.all()]}")


def about(action: Action, guard: str = "checkpoint") -> list[tuple[Outcome, str, str]]:
    return [(c.outcome, c.reason, c.remedy) for c in act.plan_of(action).checks if c.guard == guard]


def step(action: Action, kind: StepKind = StepKind.SAVE) -> Any:
    return action.steps.get(kind=kind)


def open_again(site: Site) -> bool:
    node = site.changer.nodes[TARGET]
    return not node.spec.unschedulable and not any(
        name.startswith("vigie.dev/cordon") for name in node.metadata.annotations
    )


# --- The loss -------------------------------------------------------------------------------------------------------------------
def test_what_is_lost_is_read_from_the_store_at_the_moment_of_the_plan(site):
    plan = act.plan_of(planned(site, save_first=False))
    (pod,) = [pod for pod in plan.loss.pods if pod.training]
    assert (pod.work_s, pod.steps) == (7200, 720)
    assert (pod.saved_step, pod.reported, pod.hook) == (site.changer.step() - 720, False, "http:8080/save")
    assert plan.loss.work_s == 7200
    site.changer.save("llm")
    plan = act.plan_of(planned(site, save_first=False))
    assert plan.loss.work_s == 0


def test_what_is_lost_is_unknown_without_a_grant(site):
    site.stores = site.granting(None)
    action = planned(site)
    plan = act.plan_of(action)
    assert plan.loss.work_s is None
    assert about(action) == [(Outcome.BLOCK, "not-granted", "grant-store")]
    assert StepKind.SAVE not in [one.kind for one in plan.steps], "nobody could tell whether it has saved"


def test_a_report_lowers_no_loss_that_a_store_contradicts(site):
    site.reports[WORKLOAD] = Report(at=site.now() - 5, step=10**6, received_at=site.now() - 5)
    (pod,) = [pod for pod in act.plan_of(planned(site)).loss.pods if pod.training]
    assert (pod.work_s, pod.reported) == (7200, False)


def test_a_report_alone_is_shown_as_one_and_blocks(site):
    site.stores = site.granting(None)
    said = site.reports[WORKLOAD] = Report(at=site.now() - 5, step=10**6, duration_s=3.0, received_at=site.now() - 5)
    action = planned(site, save_first=False)
    (pod,) = [pod for pod in act.plan_of(action).loss.pods if pod.training]
    assert (pod.work_s, pod.reported) == (8, True)
    assert [(outcome, reason) for outcome, reason, _ in about(action)] == [(Outcome.BLOCK, "reported")]
    site.reports[WORKLOAD] = replace(said, duration_s=None)
    action = planned(site, save_first=False)
    assert act.plan_of(action).loss.work_s is None, "how long it took to save that, nobody says"
    assert [(outcome, reason) for outcome, reason, _ in about(action)] == [(Outcome.BLOCK, "untimed")]


# --- The plan -------------------------------------------------------------------------------------------------------------------
def test_a_plan_says_how_to_make_it_safe_and_then_is(site):
    assert about(planned(site, save_first=False)) == [(Outcome.BLOCK, "age", "save-first")]
    action = planned(site)
    plan = act.plan_of(action)
    assert about(action) == [(Outcome.PASS, "saved-first", "")]
    assert [one.kind for one in plan.steps][:3] == [StepKind.CORDON, StepKind.SAVE, StepKind.DRAIN]
    assert [(save.workload, save.hook) for save in plan.saves] == [(WORKLOAD, "http:8080/save")]
    assert plan.kubectl[1].startswith("kubectl create --raw /api/v1/namespaces/lab/pods/llm-")


def test_only_what_has_to_go_can_be_saved_first(site):
    with pytest.raises(Refused) as refused:
        act.propose(site, "cordon", TARGET, "because", OLGA, site.now, dict([SAVE_FIRST]))
    assert refused.value.why == "no-option"


@pytest.mark.parametrize(
    ("hook", "exec_in", "remedy"),
    [
        ("signal:USR1:main", (), "allow-exec"),
        ("signal:USR1:main", ("lab",), ""),
        ("signal:KILL:main", ("lab",), "mend-hook"),
        ("http:8080", (), "mend-hook"),
        ("", (), "let-save"),
    ],
)
def test_a_hook_that_cannot_be_used_leaves_the_block(tmp_path, hook, exec_in, remedy):
    site = Site(tmp_path, hook=hook)
    site.policy = replace(site.policy, checkpoints=CheckpointRules(exec=exec_in))
    site.changer.save("llm")
    site.changer.pass_time(7200)
    expected = (Outcome.BLOCK, "age", remedy) if remedy else (Outcome.PASS, "saved-first", "")
    assert about(planned(site)) == [expected]


def test_whoever_is_asked_has_to_be_the_one_that_was_shown(site):
    action = planned(site)
    first = act.plan_of(action).saves[0].pod
    pod = site.changer.pods[first]
    notes = {**pod.metadata.annotations, "vigie.dev/checkpoint-hook": "http:8080/other"}
    site.changer.pods[first] = replace(pod, metadata=replace(pod.metadata, annotations=notes))
    with pytest.raises(Refused) as refused:
        act.confirm(site, action, action.digest, TARGET, {}, OLGA, site.now)
    assert refused.value.why == "changed"


# --- The step -------------------------------------------------------------------------------------------------------------------
def test_it_saves_and_only_then_pods_go(site):
    action = ended(site, confirmed(site))
    assert action.state == ActionState.SUCCEEDED
    ((_, how),) = site.changer.asked
    assert how == "http:8080/save"
    saved = step(action).evidence["workloads"][WORKLOAD]
    assert saved["state"] == "saved"
    assert saved["saved_step"] > saved["before_step"]
    assert min(lane.accepted_at for lane in action.lanes.all()) >= saved["saved_at"]
    (entry,) = AuditEntry.objects.filter(what="asked-to-save")
    assert (entry.facts["workload"], entry.facts["hook"]) == (WORKLOAD, "http:8080/save")
    assert audit.verify().broken is None


def test_a_signal_is_one_of_four_to_process_1(tmp_path):
    site = Site(tmp_path, hook="signal:USR2:main")
    site.policy = replace(site.policy, checkpoints=CheckpointRules(exec=("lab",)))
    action = ended(site, confirmed(site))
    assert action.state == ActionState.SUCCEEDED
    assert [how for _, how in site.changer.asked] == ["signal:USR2:main"]


def failed(site: Site, action: Action, why: str) -> None:
    """It has ended so, nobody was asked to go, and the node is open again."""
    assert (ended(site, action).state, action.outcome["why"]) == (ActionState.FAILED, why)
    assert site.changer.accepted == []
    assert (open_again(site), action.outcome.get("reopened")) == (True, True)


def test_without_the_checkpoint_nobody_goes_and_the_node_is_open_again(site):
    site.changer.save_s = -1.0
    action = confirmed(site)
    failed(site, action, "not-saved")
    assert action.outcome["awaited"] == [WORKLOAD]
    assert len(site.changer.asked) == 1


def test_what_is_not_complete_is_not_saved(site):
    site.changer.save_s = -1.0
    action = confirmed(site)
    one_pass(site, action)
    (site.changer.shelf / "llm" / "step_999999.pt").write_bytes(bytes(5000))
    failed(site, action, "not-saved")


@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_a_workload_that_says_no_ends_it(site, status):
    site.changer.refuses = PortError("no", retryable=status >= 500, status=status, reason=OWN)
    action = confirmed(site)
    failed(site, action, "save-refused")
    assert action.outcome["workload"] == WORKLOAD


def test_a_cluster_that_is_away_is_waited_for_before_the_node_is_opened(site):
    site.changer.refuses = PortError("no", retryable=False, status=404)
    action = confirmed(site)
    changed = site.changer.change_node

    def closed(node, *, unschedulable, annotations):
        if unschedulable is False and site.now() < START + 9000:
            raise PortError("away", retryable=True)
        return changed(node, unschedulable=unschedulable, annotations=annotations)

    site.changer.change_node = closed
    for _ in range(20):
        one_pass(site, action)
        site.changer.pass_time(1.0)
    assert action.state == ActionState.RUNNING
    site.changer.change_node = changed
    failed(site, action, "save-refused")


def test_somebody_else_s_cordon_stays(site):
    site.changer.cordon(TARGET, closed=True)
    site.changer.save_s = -1.0
    action = ended(site, confirmed(site))
    assert action.state == ActionState.FAILED
    assert site.changer.nodes[TARGET].spec.unschedulable
    assert "reopened" not in action.outcome


@pytest.mark.parametrize(
    "answer",
    [
        PortError("silent", retryable=True, reason="silent"),
        PortError("etcdserver: request timed out", retryable=True, status=500, reason="HTTP 500"),
        PortError("the server answered 504", retryable=True, status=504, reason=OWN),
        PortError("it saves already", retryable=False, status=409, reason=OWN),
    ],
)
def test_no_answer_is_no_refusal(site, answer):
    """It may have been heard: what counts is whether the checkpoint comes."""
    heard = site.changer.post_to_pod

    def mute(*arguments):
        heard(*arguments)
        raise answer

    site.changer.post_to_pod = mute
    assert ended(site, confirmed(site)).state == ActionState.SUCCEEDED
    assert len(site.changer.asked) == 1


def test_what_never_left_us_is_asked_again(site):
    heard, tries = site.changer.post_to_pod, []

    def late(*arguments):
        tries.append(arguments)
        if len(tries) < 3:
            raise PortError("refused", retryable=True, reason="refused")
        heard(*arguments)

    site.changer.post_to_pod = late
    assert ended(site, confirmed(site)).state == ActionState.SUCCEEDED
    assert len(site.changer.asked) == 1


def until_killed(site: Site, action: Action) -> None:
    for _ in range(5):
        running.run(site, action.pk, Once(site), site.now, LEASE_S)


@pytest.mark.parametrize("moment", ["kill_before", "kill_after"])
def test_a_crash_around_the_request_asks_nobody_twice(site, moment):
    action = confirmed(site)
    setattr(site.changer, moment, 1)  # the cordon is the first request
    with pytest.raises(Killed):
        until_killed(site, action)
    Action.objects.update(claimed_by="")
    ended(site, action)
    assert len(site.changer.asked) == (moment == "kill_after")
    assert action.state == (ActionState.SUCCEEDED if moment == "kill_after" else ActionState.FAILED)
    assert AuditEntry.objects.filter(what="asked-to-save").count() == 1


def test_a_report_satisfies_only_where_policy_names_the_workload(site):
    site.stores, site.changer.save_s = site.granting(None), -1.0
    site.policy = replace(site.policy, checkpoints=CheckpointRules(reported=(WORKLOAD,)))
    site.reports[WORKLOAD] = Report(at=site.now() - 7000, step=100, received_at=site.now() - 7000)
    action = confirmed(site)
    for _ in range(3):
        one_pass(site, action)
        site.changer.pass_time(1.0)
    assert step(action).state == StepState.WAITING
    site.reports[WORKLOAD] = Report(at=site.now() + 1, step=900, received_at=site.now() + 1)
    assert ended(site, action).state == ActionState.SUCCEEDED


def test_a_stop_while_it_is_awaited_evicts_nobody(site):
    site.changer.save_s = -1.0
    action = confirmed(site)
    for _ in range(3):
        one_pass(site, action)
    act.stop(action, OLGA, site.now)
    assert ended(site, action).state == ActionState.STOPPED
    assert site.changer.accepted == []


# --- What is no save ------------------------------------------------------------------------------------------------------------
def awaited(site: Site) -> Action:
    """It has been asked, and saves nothing by itself."""
    site.changer.save_s = -1.0
    action = confirmed(site)
    for _ in range(2):
        one_pass(site, action)
    assert len(site.changer.asked) == 1
    return action


def test_an_old_checkpoint_under_a_higher_name_is_no_save(site):
    action = awaited(site)
    folder = site.changer.shelf / "llm"
    min(folder.iterdir(), key=lambda file: file.stat().st_mtime).rename(folder / "step_999999.pt")
    failed(site, action, "not-saved")


def test_what_another_job_saves_beside_it_is_no_save(site):
    action = awaited(site)
    other = site.changer.shelf / "llm" / "other"
    site.changer.save("llm/other")
    for file in (site.changer.shelf / "llm").glob("*.pt"):
        file.rename(site.changer.shelf / "llm" / f"{file.name}.moved")
    assert list(other.iterdir())
    failed(site, action, "not-saved")


def _in_flight(site: Site) -> Path:
    """A save that has begun."""
    site.changer.save("llm")
    (begun,) = (site.changer.shelf / "llm").glob(f"step_{site.changer.step()}.pt")
    begun.write_bytes(begun.read_bytes()[:-200])
    os.utime(begun, (site.now(), site.now()))
    return begun


def test_a_save_that_went_on_when_it_was_asked_is_another_one(site):
    """What it holds is older: its end is waited for, and then the next one."""
    whole = checkpoint_makers.archive({**checkpoint_makers.FULL, "global_step": site.changer.step()})
    begun = _in_flight(site)
    action = awaited(site)
    begun.write_bytes(whole)
    os.utime(begun, (site.now() + 1, site.now() + 1))
    for _ in range(5):
        site.changer.pass_time(1.0)
        one_pass(site, action)
    assert step(action).evidence["workloads"][WORKLOAD]["state"] == "asked"
    site.changer.pass_time(10.0)
    site.changer.save("llm")
    assert ended(site, action).state == ActionState.SUCCEEDED


def test_what_a_store_showed_only_after_the_request_is_no_save(site):
    """The policy would take a report; the store that was silent then holds what it held before."""
    site.policy = replace(site.policy, checkpoints=CheckpointRules(reported=(WORKLOAD,)))
    open_store, site.stores = site.stores, site.granting(None)
    action = awaited(site)
    site.stores = open_store
    failed(site, action, "not-saved")


# --- While it waits its turn ----------------------------------------------------------------------------------------------------
def held_up(site: Site, *, save_first: bool = False, waivers: dict[str, str] | None = None) -> tuple[Action, Any]:
    """A drain that is confirmed, and the lane of a trainer that its budget holds."""
    site.policy = replace(site.policy, deadlines=replace(site.policy.deadlines, drain_s=20_000))
    action = planned(site, save_first=save_first, actor=ADA)
    action = act.confirm(site, action, action.digest, TARGET, waivers or {}, ADA, site.now)
    site.changer.spares("llm", 0)
    lane = next(one for one in action.lanes.all() if one.name.startswith("llm"))
    later(site, action, 30.0)
    lane.refresh_from_db()
    assert (lane.state, lane.reason) == (LaneState.HELD, "budget")
    return action, lane


def later(site: Site, action: Action, seconds: float) -> None:
    site.changer.pass_time(seconds - 20.0)
    for _ in range(20):
        one_pass(site, action)
        site.changer.pass_time(1.0)


def standing(site: Site, action: Action, lane: Any) -> str:
    """How it is once the budget spares one."""
    site.changer.spares("llm", 1)
    later(site, action, 60.0)
    lane.refresh_from_db()
    return str(lane.reason if lane.state == LaneState.HELD else lane.state)


def test_what_grew_while_its_budget_held_it_is_waited_for(site):
    """Forty minutes were shown, which nobody has to be asked for; two hours would be another matter."""
    site.changer.save("llm")
    site.changer.pass_time(2400)
    action, lane = held_up(site)
    later(site, action, 1500)
    assert standing(site, action, lane) == "loss-grown"
    assert not [uid for uid in site.changer.accepted if uid.startswith("llm")]
    site.changer.save("llm")
    assert ended(site, action).state == ActionState.SUCCEEDED
    lane.refresh_from_db()
    assert lane.gone_at - lane.facts["lost_since_at"] < 120


@pytest.mark.parametrize(("seconds", "found"), [(3_000, "replaced"), (4_000, "loss-grown")])
def test_a_loss_that_was_lifted_is_lifted_with_an_hour_more_and_no_longer(site, seconds, found):
    pod = next(uid for uid in site.changer.pods if uid.startswith("llm"))
    action, lane = held_up(site, waivers={f"checkpoint:lab/{pod}": "its team agrees"})
    later(site, action, seconds)
    assert standing(site, action, lane) == found


def retired(site: Site) -> None:
    newest = max((site.changer.shelf / "llm").iterdir(), key=lambda file: file.stat().st_mtime)
    newest.unlink()


def moved(site: Site) -> None:
    (site.changer.shelf / "llm").rename(site.changer.shelf / "run-1")
    (site.changer.shelf / "llm").mkdir()
    (site.changer.shelf / "run-1").rename(site.changer.shelf / "llm" / "run-1")


def closed(site: Site) -> None:
    site.stores = site.granting(None)


@pytest.mark.parametrize(
    ("change", "found"),
    [(retired, "checkpoint-changed"), (moved, "checkpoint-changed"), (closed, "loss-unknown")],
)
def test_a_checkpoint_that_is_not_what_was_confirmed_holds_its_pod(site, change, found):
    for _ in range(2):
        site.changer.pass_time(300)
        site.changer.save("llm")
    action, lane = held_up(site)
    change(site)
    assert standing(site, action, lane) == found


def test_who_has_saved_first_is_held_once_that_is_an_hour_ago(site):
    action, lane = held_up(site, save_first=True)
    later(site, action, 3_700)
    assert standing(site, action, lane) == "loss-grown"


def test_who_has_saved_first_goes_whatever_the_clock_of_the_store_says(site):
    """It was asked by our clock; which of two checkpoints is the later one the store's own dates tell."""
    for name in (site.changer.shelf / "llm").iterdir():
        os.utime(name, (name.stat().st_mtime + 9_000,) * 2)
    site.changer.ahead_s = 9_000.0
    action, lane = held_up(site, save_first=True)
    assert standing(site, action, lane) == "replaced"


def test_a_save_that_went_on_already_has_no_age_where_the_store_s_clock_is_wrong(site):
    """It answers 409: what it will have saved is the state from before it was asked."""
    heard = site.changer.post_to_pod

    def folded(*arguments):
        heard(*arguments)
        raise PortError("it saves already", retryable=False, status=409, reason=OWN)

    site.changer.post_to_pod, site.changer.ahead_s = folded, 9_000.0
    action, lane = held_up(site, save_first=True)
    assert standing(site, action, lane) == "loss-unknown"
