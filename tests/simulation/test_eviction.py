"""Evictions over HTTP: their order of writes, and what happens to those that meet."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import httpx
import pytest

from fleet.simulation import eviction_rules
from fleet.simulation.auth import User
from fleet.simulation.budgets import Budgets
from fleet.simulation.machinery import Machinery
from fleet.simulation.store import Store
from tests.simulation.http import Api
from tests.simulation.unrecorded import given

Object = dict[str, Any]

BUDGET = "/apis/policy/v1/namespaces/test/poddisruptionbudgets/chat"


class Town:
    """Four ready pods under a budget, its controller, and time that goes on while somebody waits for an answer."""

    def __init__(self, write_s: float = 0.0, **spec: Any) -> None:
        self.api = Api()
        self.api.app.evictions.write_s = write_s
        self.api.namespace()
        labels = {"app": "chat"}
        pods = [f"chat-1-{i}" for i in range(4)]
        chosen = {"selector": {"matchLabels": labels}, **(spec or {"minAvailable": 3})}
        rows: list[Object] = [
            {"kind": "Deployment", "namespace": "test", "name": "chat", "labels": labels, "pods": pods},
            {"kind": "PodDisruptionBudget", "namespace": "test", "name": "chat", "spec": chosen},
        ]
        for plural, obj in given(rows):
            self.api.store.restore(plural, obj)
        self.machinery = Machinery(self.api.store, self.api.clock)
        self.machinery.controllers = {c: k for c, k in self.machinery.controllers.items() if c is Budgets}

    async def __aenter__(self) -> "Town":
        self.machinery.start()
        await self.api.clock.advance(1)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.machinery.check()
        await self.machinery.stop()

    async def wait_for(self, *work: Awaitable[httpx.Response], step_s: float = 0.002) -> list[httpx.Response]:
        tasks = [asyncio.ensure_future(w) for w in work]
        for _ in range(10_000):
            await self.api.clock.advance(step_s)
            if all(t.done() for t in tasks):
                break
        return [t.result() for t in tasks]

    def evict(self, number: int, **options: Any) -> Awaitable[httpx.Response]:
        name = f"chat-1-{number}"
        body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "test"}}
        if options:
            body["deleteOptions"] = options
        return self.api.post(f"/api/v1/namespaces/test/pods/{name}/eviction", body)

    def budget(self) -> Object:
        status: Object = self.api.store.get("poddisruptionbudgets", "test", "chat")["status"]
        return status

    def pod(self, number: int) -> Object:
        return self.api.store.get("pods", "test", f"chat-1-{number}")

    def unready(self, number: int) -> None:
        name = f"chat-1-{number}"
        conditions = [{"type": "Ready", "status": "False"}]
        self.api.store.mutate(
            "pods",
            "test",
            name,
            lambda p: {**p, "status": {**p["status"], "conditions": conditions}},
            manager="kubelet",
            subresource="status",
        )


async def test_accepted_is_marked_then_told_to_go_1() -> None:
    async with Town(write_s=0.01) as town:
        changes = town.api.store.subscribe("pods")
        (answer,) = await town.wait_for(town.evict(0))
        assert answer.status_code == 201
        seen = [c.object for c in changes.take()]
        kinds = [[c["type"] for c in o["status"]["conditions"]] for o in seen]
        assert ["DisruptionTarget" in k for k in kinds] == [True, True]
        assert ["deletionTimestamp" in o["metadata"] for o in seen] == [False, True]
        assert town.pod(0)["metadata"]["deletionGracePeriodSeconds"] == 30


@pytest.mark.parametrize("write_s", [0.0, 0.01])
async def test_of_four_at_once_one_gets_through_10(write_s: float) -> None:
    """All four read a budget of one; writing it, three find it changed, look again, and are refused."""
    async with Town(write_s) as town:
        answers = await town.wait_for(*(town.evict(i) for i in range(4)), step_s=0.01)
        assert sorted(a.status_code for a in answers) == [201, 429, 429, 429]
        refused = next(a for a in answers if a.status_code == 429)
        assert "retry-after" not in refused.headers
        assert sum("deletionTimestamp" in town.pod(i)["metadata"] for i in range(4)) == 1


async def test_a_dry_run_reserves_nothing_9() -> None:
    async with Town() as town:
        before = town.api.store.resource_version
        answers = await town.wait_for(*(town.evict(i, dryRun=["All"]) for i in range(4)))
        assert [a.status_code for a in answers] == [201] * 4
        assert town.api.store.resource_version == before


async def test_a_refused_eviction_is_charged_for_two_minutes_6() -> None:
    async with Town() as town:
        wrong = {"uid": "11111111-1111-1111-1111-111111111111"}
        (answer,) = await town.wait_for(town.evict(0, preconditions=wrong, dryRun=["All"]))
        assert (answer.status_code, town.budget()["disruptionsAllowed"]) == (409, 1)
        (answer,) = await town.wait_for(town.evict(0, preconditions=wrong))
        await town.api.clock.advance(1)
        assert answer.status_code == 409
        assert town.budget()["disruptedPods"].keys() == {"chat-1-0"}
        assert (town.budget()["currentHealthy"], town.budget()["disruptionsAllowed"]) == (3, 0)
        await town.api.clock.advance(117)
        assert town.budget()["disruptionsAllowed"] == 0
        await town.api.clock.advance(5)
        assert (town.budget()["currentHealthy"], town.budget()["disruptionsAllowed"]) == (4, 1)
        assert "disruptedPods" not in town.budget()


class Contested(Store):
    """Somebody else always writes the budget first."""

    def update(self, plural: str, obj: Object, *, manager: str, subresource: str = "", dry_run: bool = False) -> Object:
        if plural == "poddisruptionbudgets":
            other = {"metadata": {"annotations": {"seen": obj["metadata"]["resourceVersion"]}}}
            self.mutate(
                plural, "test", "chat", lambda b: {**b, "metadata": {**b["metadata"], **other["metadata"]}}, manager="x"
            )
        return super().update(plural, obj, manager=manager, subresource=subresource, dry_run=dry_run)


async def test_conflicts_without_end_are_a_504() -> None:
    async with Town() as town:
        town.api.store.__class__ = Contested
        began_at = town.api.clock.now()
        (answer,) = await town.wait_for(town.evict(0), step_s=0.1)
        assert (answer.status_code, answer.headers["retry-after"]) == (504, "10")
        assert answer.json()["reason"] == "Timeout"
        assert answer.json()["details"] == {"retryAfterSeconds": 10}
        assert 9.5 < town.api.clock.now() - began_at < 12
        assert "deletionTimestamp" not in town.pod(0)["metadata"]


async def test_an_unready_pod_that_becomes_ready_meanwhile_is_asked_for_again_8() -> None:
    async with Town(write_s=0.05, minAvailable=2) as town:
        town.unready(0)
        await town.api.clock.advance(1)
        answer = asyncio.ensure_future(town.evict(0))
        await town.api.clock.advance(0.01)
        town.api.store.mutate("pods", "test", "chat-1-0", _labelled, manager="test")
        (got,) = await town.wait_for(answer)
        assert (got.status_code, got.headers["retry-after"]) == (429, "10")
        assert "still being processed" in got.json()["details"]["causes"][0]["message"]


def _labelled(pod: Object) -> None:
    pod["metadata"]["labels"]["touched"] = "true"


async def test_a_pending_pod_that_changes_meanwhile_is_tried_again_7() -> None:
    async with Town(write_s=0.05) as town:
        pod = town.api.pod("waiting", namespace="test", app="chat")
        body = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "waiting"}}
        answer = asyncio.ensure_future(town.api.post("/api/v1/namespaces/test/pods/waiting/eviction", body))
        await town.api.clock.advance(0.01)
        town.api.store.mutate("pods", "test", pod["metadata"]["name"], _labelled, manager="test")
        (got,) = await town.wait_for(answer, step_s=0.05)
        assert got.status_code == 201
        assert (await town.api.get("/api/v1/namespaces/test/pods/waiting")).status_code == 404


async def test_a_pod_that_did_not_go_is_no_target_for_ever() -> None:
    """The condition is taken back after two minutes; one that is going keeps it."""
    async with Town() as town:
        for number in (0, 1):
            pod = town.pod(number)
            status = eviction_rules.targeted(pod, town.api.clock.now())
            town.api.store.restore("pods", {**pod, "status": status})
        town.api.store.delete("pods", "test", "chat-1-1", grace_s=600)
        await town.api.clock.advance(118)
        assert [town.pod(i)["status"]["conditions"][-1]["status"] for i in (0, 1)] == ["True", "True"]
        await town.api.clock.advance(4)
        taken_back, kept = (town.pod(i)["status"]["conditions"][-1] for i in (0, 1))
        assert (taken_back["status"], kept["status"]) == ("False", "True")
        assert "reason" not in taken_back


async def test_dry_runs_that_contradict_each_other_11() -> None:
    async with Town() as town:
        name = "chat-1-0"
        body = {"kind": "Eviction", "metadata": {"name": name}, "deleteOptions": {"dryRun": ["Some"]}}
        answer = await town.api.post(f"/api/v1/namespaces/test/pods/{name}/eviction", body, dryRun="All")
        assert answer.status_code == 500
        assert "Non-matching dry-run options" in answer.json()["message"]


async def test_a_mirror_pod_is_not_refused_11() -> None:
    async with Town() as town:
        name = "chat-1-0"
        mirror = {"kubernetes.io/config.mirror": "abc"}
        pod = town.pod(0)
        town.api.store.restore("pods", {**pod, "metadata": {**pod["metadata"], "annotations": mirror}})
        (answer,) = await town.wait_for(town.evict(0, dryRun=["All"]))
        assert (answer.status_code, name) == (201, "chat-1-0")


async def test_grace_is_the_callers_to_choose() -> None:
    async with Town() as town:
        await town.wait_for(town.evict(0, gracePeriodSeconds=7))
        assert town.pod(0)["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_without_rights_the_pod_is_not_even_looked_for_11() -> None:
    async with Town() as town:
        town.api.token = town.api.auth.issue(User("eve"))
        (answer,) = await town.wait_for(town.evict(9))
        assert answer.status_code == 403
        assert 'cannot create resource "pods/eviction"' in answer.json()["message"]


async def test_a_budget_has_its_disruption_back_when_a_new_pod_is_ready_12() -> None:
    """Though the evicted one still runs out its grace."""
    async with Town() as town:
        await town.wait_for(town.evict(0))
        await town.api.clock.advance(1)
        assert town.budget()["disruptionsAllowed"] == 0
        row = {"kind": "Pod", "namespace": "test", "name": "chat-1-new", "labels": {"app": "chat"}}
        for plural, obj in given([row]):
            town.api.store.restore(plural, obj)
        await town.api.clock.advance(1)
        assert (town.budget()["disruptionsAllowed"], town.budget()["expectedPods"]) == (1, 5)
        assert "deletionTimestamp" in town.pod(0)["metadata"]


class TestBudgets:
    """T3: (expected, healthy → desired, allowed), with real pods."""

    @pytest.mark.parametrize(
        ("pods", "unready", "spec", "desired", "allowed"),
        [
            (6, 1, {"minAvailable": "50%"}, 3, 2),
            (7, 0, {"minAvailable": "50%"}, 4, 3),
            (10, 0, {"maxUnavailable": "25%"}, 7, 3),
            (1, 0, {"minAvailable": "50%"}, 1, 0),
            (1, 0, {"maxUnavailable": "1%"}, 0, 1),
            (3, 0, {"minAvailable": 3}, 3, 0),
            (1, 1, {"maxUnavailable": 1}, 0, 0),
            (3, 1, {"minAvailable": 2}, 2, 0),
            (3, 0, {"maxUnavailable": "34%"}, 1, 2),
        ],
    )
    async def test_of_a_deployment_13(self, pods: int, unready: int, spec: Object, desired: int, allowed: int) -> None:
        status = await budget_over(pods, unready, spec, owned=True)
        assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (desired, allowed)
        assert status["expectedPods"] == pods

    @pytest.mark.parametrize(
        ("spec", "expected", "desired", "allowed"),
        [({"minAvailable": 1}, 2, 1, 1), ({"maxUnavailable": 1}, 0, 0, 0)],
    )
    async def test_of_bare_pods_13(self, spec: Object, expected: int, desired: int, allowed: int) -> None:
        status = await budget_over(2, 0, spec, owned=False)
        assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == (
            expected,
            desired,
            allowed,
        )

    async def test_a_terminating_pod_is_not_healthy(self) -> None:
        """T3 g."""
        async with Town(maxUnavailable=1) as town:
            town.api.store.delete("pods", "test", "chat-1-0", grace_s=30)
            await town.api.clock.advance(1)
            assert (town.budget()["desiredHealthy"], town.budget()["disruptionsAllowed"]) == (3, 0)

    @pytest.mark.parametrize(
        ("kind", "api_version", "words"),
        [
            ("Fancy", "example.com/v1", 'no matches for kind "Fancy" in version "example.com/v1"'),
            ("Job", "batch/v1", "jobs.batch does not implement the scale subresource"),
            ("ReplicaSet", "apps/v1", 'found no controllers for pod "chat-1-0"'),
        ],
    )
    async def test_an_owner_that_cannot_be_counted_fails_the_sync_13(
        self, kind: str, api_version: str, words: str
    ) -> None:
        async with Town(maxUnavailable=1) as town:
            for number in range(4):
                pod = town.pod(number)
                owner = {"kind": kind, "apiVersion": api_version, "name": "x", "uid": "x", "controller": True}
                town.api.store.restore("pods", {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}})
            await town.api.clock.advance(1)
            (condition,) = town.budget()["conditions"]
            assert (condition["reason"], condition["message"], condition["status"]) == ("SyncFailed", words, "False")
            assert town.budget()["disruptionsAllowed"] == 0
            reasons = {e["reason"] for e in town.api.store.list("events")}
            assert "CalculateExpectedPodCountFailed" in reasons

    async def test_of_two_budgets_one_stays_stale_5(self) -> None:
        async with Town() as town:
            row = {"kind": "PodDisruptionBudget", "namespace": "test", "name": "second"}
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "chat"}}}
            for plural, obj in given([{**row, "spec": spec}]):
                town.api.store.restore(plural, obj)
            await town.api.clock.advance(1)
            town.unready(0)
            await town.api.clock.advance(30)
            healthy = [b["status"]["currentHealthy"] for b in town.api.store.list("poddisruptionbudgets", "test")]
            assert sorted(healthy) == [3, 4]
            told = [e for e in town.api.store.list("events") if e["reason"] == "MultiplePodDisruptionBudgets"]
            assert told[0]["involvedObject"]["name"] == "chat-1-0"


async def budget_over(pods: int, unready: int, spec: Object, *, owned: bool) -> Object:
    """The status that the controller gives to a budget over so many pods."""
    async with Town(**spec) as town:
        for number in range(4):
            town.api.store.delete("pods", "test", f"chat-1-{number}", grace_s=0)
        labels = {"app": "chat"}
        names = [f"chat-2-{i}" for i in range(pods)]
        bare = [{"kind": "Pod", "namespace": "test", "name": n, "labels": labels} for n in names]
        deployed = {"kind": "Deployment", "namespace": "test", "name": "chat", "labels": labels, "pods": names}
        for plural, obj in given([deployed] if owned else bare):
            town.api.store.restore(plural, obj)
        for number in range(unready):
            pod = town.api.store.get("pods", "test", names[number])
            status = {**pod["status"], "conditions": [{"type": "Ready", "status": "False"}]}
            town.api.store.restore("pods", {**pod, "status": status})
        await town.api.clock.advance(2)
        return town.budget()
