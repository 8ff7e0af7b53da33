"""Changing a workload that trains: what would be lost is shown, blocks, and is made little by a checkpoint before the change."""

import os
from pathlib import Path
from typing import Any

import pytest

from fleet import act
from fleet.domain.kinds import SAVE_FIRST
from fleet.domain.plans import ActionState, Outcome, StepKind, StepState
from fleet.domain.policies import Deadlines, Policy
from fleet.models import Action
from fleet.ports import PortError
from tests.domain import checkpoint_makers
from tests.fleet.shelves import OneStore
from tests.fleet.test_release_crashes import OLGA, Site, agree, ended, killed, one_pass, until

pytestmark = [pytest.mark.django_db(transaction=True)]

TRAINER = "Deployment/lab/trainer"
CHANGES = [
    pytest.param("restart", {}, id="restart"),
    pytest.param("set-image", {"image": "repo/llm:2"}, id="set-image"),
    pytest.param("scale", {"replicas": "0"}, id="scale"),
]


class Trains(OneStore, Site):
    """A trainer whose newest checkpoint is two hours old."""

    def __init__(self, shelf: Path) -> None:
        OneStore.__init__(self, shelf)
        Site.__init__(self)
        self.shelf = shelf / "trainer"
        self.policy = Policy(deadlines=Deadlines(rollout_s=120, save_s=60))
        self.changer.train("trainer")
        self.changer.changes.clear()
        for _ in range(2):
            self.save()
            self.changer.now += 1000
        self.changer.now += 6200

    def save(self, *_: Any) -> None:
        step = int(self.changer.now) // 10 % 1_000_000
        self.shelf.mkdir(parents=True, exist_ok=True)
        name = self.shelf / f"step_{step}.pt"
        name.write_bytes(checkpoint_makers.archive({**checkpoint_makers.FULL, "global_step": step}))
        os.utime(name, (self.changer.now, self.changer.now))


@pytest.fixture
def site(tmp_path: Path) -> Trains:
    return Trains(tmp_path)


def planned(site: Trains, kind: str, first: bool = True, **options: str) -> Action:
    chosen = {**options, **(dict([SAVE_FIRST]) if first else {})}
    return act.propose(site, kind, TRAINER, "because", OLGA, site.now, options=chosen)


def about(action: Action) -> set[tuple[Outcome, str, str]]:
    return {(c.outcome, c.reason, c.remedy) for c in act.plan_of(action).checks if c.guard == "checkpoint"}


@pytest.mark.parametrize(("kind", "options"), CHANGES)
def test_the_loss_is_shown_and_blocks_until_it_saves_first(site, kind, options):
    action = planned(site, kind, first=False, **options)
    assert about(action) == {(Outcome.BLOCK, "age", "save-first")}
    loss = act.plan_of(action).loss
    assert (len(loss.pods), loss.work_s, {pod.hook for pod in loss.pods}) == (2, 7200, {"http:8080/save"})
    plan = act.plan_of(planned(site, kind, **options))
    assert not plan.blocks
    assert [step.kind for step in plan.steps] == [StepKind.SAVE, StepKind.CHANGE, StepKind.ROLLOUT]
    assert [line.split(" ")[1] for line in plan.kubectl[:3]] == ["create", "wait", "-n"]


@pytest.mark.parametrize(("kind", "options"), CHANGES)
def test_it_is_asked_once_and_changed_only_with_its_checkpoint(site, kind, options):
    action = agree(site, planned(site, kind, **options))
    until(site, action, StepKind.SAVE, StepState.WAITING)
    for _ in range(3):
        site.changer.pass_time(2.0)
        one_pass(site, action)
    assert (len(site.changer.saved), site.changer.changes) == (1, [])
    site.save()
    assert ended(site, action) == (ActionState.SUCCEEDED, "")
    assert (len(site.changer.saved), site.changer.changes) == (1, [f"patch {TRAINER}"])


@pytest.mark.db
@pytest.mark.parametrize("dies", ["kill_before", "kill_after"])
def test_a_worker_that_dies_asking_asks_nobody_twice(site, dies):
    action = agree(site, planned(site, "restart"))
    setattr(site.changer, dies, 0)
    killed(site, action)
    heard = len(site.changer.saved)
    site.changer.on_save = site.save
    end = ended(site, action)
    assert heard == len(site.changer.saved) == (dies == "kill_after")
    # Whether it heard is not known: without a checkpoint nothing is changed.
    assert (end, site.changer.changes) == ((ActionState.FAILED, "not-saved"), [])


def test_without_the_checkpoint_nothing_is_changed(site):
    action = agree(site, planned(site, "restart"))
    assert ended(site, action) == (ActionState.FAILED, "not-saved")
    assert site.changer.changes == []


def test_one_that_refuses_is_not_restarted(site):
    action = agree(site, planned(site, "restart"))

    def refuse(*_: Any) -> None:
        raise PortError("no", retryable=False, status=404, reason="own")

    site.changer.on_save = refuse
    assert ended(site, action) == (ActionState.FAILED, "save-refused")
    assert site.changer.changes == []


def test_nobody_is_asked_for_a_change_that_others_have_overtaken(site):
    action = agree(site, planned(site, "restart"))
    site.changer.edit_template(TRAINER, note="mine")
    assert ended(site, action) == (ActionState.FAILED, "changed")
    assert site.changer.saved == []


def test_the_account_has_to_be_allowed_to_ask(site):
    site.changer.denied = frozenset({"pods/proxy"})
    denied = {check.subject for check in act.plan_of(planned(site, "restart")).blocks if check.guard == "permissions"}
    assert denied == {"create pods/proxy in lab"}
    assert not [c for c in act.plan_of(planned(site, "restart", first=False)).blocks if c.guard == "permissions"]


def test_what_was_changed_during_a_pause_ends_pods_when_it_is_resumed(site):
    site.changer.edit(TRAINER, paused=True)
    assert about(planned(site, "resume", first=False)) == {(Outcome.PASS, "", "")}, (
        "its pods are of the present template"
    )
    site.changer.edit_template(TRAINER, note="new")
    assert about(planned(site, "resume", first=False)) == {(Outcome.BLOCK, "age", "save-first")}
    plan = act.plan_of(planned(site, "resume"))
    assert [step.kind for step in plan.steps] == [StepKind.SAVE, StepKind.CHANGE]


def test_a_pause_and_more_pods_lose_nothing(site):
    for kind, options in (("pause", {}), ("scale", {"replicas": "3"})):
        plan = act.plan_of(planned(site, kind, first=False, **options))
        assert (plan.loss.pods, {check.guard for check in plan.blocks}) == ((), set())
