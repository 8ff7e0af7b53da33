"""The agents of the rehearsal's nodes: when they post, with which token, and what they make of the answers."""

import itertools
from typing import Any

import msgspec

from fleet.domain.gpus import Answer as GpuAnswer
from fleet.domain.gpus import DriverStatus, Reading
from fleet.simulation.agents import FAULTS_KEPT, Agents
from fleet.simulation.auth import Auth, BadTokenError
from fleet.simulation.clock import ManualClock
from fleet.simulation.machines import Machines
from fleet.simulation.posting import Answer, UnreachableError
from fleet.simulation.rehearsal import Rehearsal
from tests.simulation.test_gpu_machines import EMPTY, TRAINING, Fleet, number

Object = dict[str, Any]

NODE = "authentication.kubernetes.io/node-name"


class Watched:
    """A fleet whose agents post to a list. `answer` is what they are told; None: nobody is there."""

    def __init__(self, nodes: int = 24) -> None:
        self.fleet = Fleet(nodes=nodes)
        self.clock: ManualClock = self.fleet.clock
        self.rehearsal: Rehearsal = self.fleet.rehearsal
        self.auth = Auth(self.fleet.store)
        self.posted: list[tuple[float, Reading, str]] = []
        self.answer: Answer | None = Answer(202)
        machines: Machines = self.fleet.machines
        self.agents = Agents(self.fleet.store, self.clock, machines, self.auth, self._post)

    async def _post(self, body: bytes, token: str) -> Answer:
        self.posted.append((self.clock.now(), msgspec.json.decode(body, type=Reading), token))
        if self.answer is None:
            raise UnreachableError("nobody is there")
        return self.answer

    async def __aenter__(self) -> "Watched":
        await self.rehearsal.start()
        self.agents.start()
        await self.clock.settle()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.agents.check()
        await self.agents.stop()
        await self.rehearsal.stop()

    async def run(self, seconds: float) -> list[tuple[float, Reading, str]]:
        """What is posted in that time."""
        before = len(self.posted)
        await self.clock.advance(seconds)
        self.agents.check()
        return self.posted[before:]

    def of(self, node: str, posted: list[tuple[float, Reading, str]]) -> list[Reading]:
        return [reading for _, reading, _ in posted if reading.node == node]


async def test_every_node_posts_every_five_seconds_spread_over_them() -> None:
    async with Watched() as watched:
        posted = await watched.run(20.0)
        for node in watched.fleet.machines:
            assert 3 <= len(watched.of(node, posted)) <= 4
        assert len({round(at % 5.0, 1) for at, _, _ in posted}) > 12


async def test_a_reading_tells_of_the_whole_machine() -> None:
    async with Watched() as watched:
        reading = watched.of(TRAINING, await watched.run(6.0))[0]
        node = watched.fleet.store.get("nodes", None, TRAINING)
        assert reading.boot_id == node["status"]["nodeInfo"]["bootID"]
        assert reading.driver == node["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"]
        assert (reading.status, reading.count, len(reading.gpus), reading.faults) == (DriverStatus.OK, 8, 8, ())
        holders = {(h.namespace, h.pod) for g in reading.gpus for h in g.assigned or ()}
        assert holders == {("training", "llama-sft-70b-0")}


async def test_readings_are_counted_up_within_an_agent() -> None:
    async with Watched() as watched:
        posted = watched.of(TRAINING, await watched.run(30.0))
        assert [r.sequence for r in posted] == list(range(1, len(posted) + 1))
        assert len({(r.agent, r.boot_id) for r in posted}) == 1
        assert all(later.sent_at > earlier.sent_at for earlier, later in itertools.pairwise(posted))


async def test_the_token_names_the_node_and_is_renewed_in_time() -> None:
    async with Watched(nodes=2) as watched:
        posted = await watched.run(6.0)
        first = {reading.node: token for _, reading, token in posted}
        for node, token in first.items():
            user, meant = watched.auth.review(token, ("vigie",))
            assert (user.name, meant) == ("system:serviceaccount:vigie:vigie-agent", ("vigie",))
            assert user.extra[NODE] == [node]
        for _ in range(20):
            later = await watched.run(180.0)
            for _, reading, token in later[-2:]:
                assert watched.auth.review(token, ("vigie",))[0].extra[NODE] == [reading.node]
        assert {token for _, _, token in later}.isdisjoint(first.values())


async def test_a_refused_token_is_asked_for_anew() -> None:
    async with Watched() as watched:
        first = {token for _, _, token in await watched.run(6.0)}
        watched.answer = Answer(401)
        assert await watched.run(5.0)
        watched.answer = Answer(202)
        await watched.run(10.0)
        assert {token for _, _, token in await watched.run(5.0)}.isdisjoint(first)


async def test_a_fault_is_posted_at_once_and_only_once() -> None:
    async with Watched() as watched:
        await watched.run(10.0)
        watched.fleet.note(TRAINING, sim_gpu_3="off-bus")
        (told,) = [r for r in watched.of(TRAINING, await watched.run(0.2)) if r.faults]
        assert next(f.code for f in told.faults) == 79
        assert all(f.sequence is not None for f in told.faults)
        assert all(not r.faults for r in watched.of(TRAINING, await watched.run(30.0)))


async def test_faults_are_kept_until_they_are_taken_and_bounded() -> None:
    async with Watched() as watched:
        await watched.run(10.0)
        watched.answer = None
        for _ in range(FAULTS_KEPT):
            watched.fleet.note(TRAINING, sim_gpu="ecc-storm")
            await watched.run(0.1)
            watched.fleet.note(TRAINING, sim_gpu=None)
            await watched.run(0.1)
        watched.answer = Answer(202)
        taken = watched.of(TRAINING, await watched.run(61.0))
        assert len(taken[0].faults) == FAULTS_KEPT
        assert all(not r.faults for r in taken[1:])


async def test_who_is_not_let_in_comes_back_later_each_time() -> None:
    async with Watched() as watched:
        watched.answer = None
        await watched.run(60.0)
        at = [at for at, reading, _ in watched.posted if reading.node == TRAINING]
        pauses = [round(later - earlier, 3) for earlier, later in itertools.pairwise(at)]
        assert pauses[:6] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
        watched.answer = Answer(202)
        await watched.run(6.0)
        assert 5 <= len(watched.of(TRAINING, await watched.run(30.0))) <= 6


async def test_it_waits_as_long_as_it_is_told_to() -> None:
    async with Watched() as watched:
        watched.answer = Answer(429, retry_after_s=20.0)
        first = {r.node for _, r, _ in await watched.run(6.0)}
        assert len(first) == 24
        assert await watched.run(13.0) == []
        assert await watched.run(10.0)


async def test_nobody_posts_for_a_node_that_is_down_or_without_its_agent() -> None:
    async with Watched() as watched:
        await watched.run(6.0)
        watched.fleet.note(TRAINING, sim_down="true")
        pods = watched.fleet.store.list("pods", "vigie")
        (pod,) = [p for p in pods if p["spec"]["nodeName"] == EMPTY]
        before = watched.of(EMPTY, watched.posted)[-1]
        watched.fleet.store.delete("pods", "vigie", pod["metadata"]["name"], grace_s=0)
        posted = await watched.run(0.5)
        assert watched.of(EMPTY, posted) == []
        posted = await watched.run(30.0)
        assert watched.of(TRAINING, posted) == []
        after = watched.of(EMPTY, posted)
        assert after[0].sequence == 1
        assert after[0].agent != before.agent
        watched.fleet.note(TRAINING, sim_down=None)
        assert watched.of(TRAINING, await watched.run(6.0))


async def test_the_token_of_a_pod_that_is_gone_is_worth_nothing() -> None:
    async with Watched() as watched:
        posted = await watched.run(6.0)
        (token,) = {t for _, r, t in posted if r.node == EMPTY}
        (pod,) = [p for p in watched.fleet.store.list("pods", "vigie") if p["spec"]["nodeName"] == EMPTY]
        watched.fleet.store.delete("pods", "vigie", pod["metadata"]["name"], grace_s=0)
        try:
            watched.auth.review(token, ("vigie",))
        except BadTokenError:
            return
        raise AssertionError("it is still good")


async def test_a_new_node_has_an_agent_and_one_that_is_gone_has_none() -> None:
    async with Watched() as watched:
        await watched.run(6.0)
        old = watched.fleet.store.get("nodes", None, EMPTY)
        metadata = {"name": "node-99", "labels": {**old["metadata"]["labels"], "kubernetes.io/hostname": "node-99"}}
        made = {"metadata": metadata, "spec": {"podCIDR": "10.101.9.0/24"}, "status": old["status"]}
        watched.fleet.store.create("nodes", made, manager="test")
        posted = await watched.run(30.0)
        assert len(watched.of("node-99", posted)) >= 3
        watched.fleet.store.delete("nodes", None, EMPTY)
        await watched.run(1.0)
        assert watched.of(EMPTY, await watched.run(20.0)) == []


async def test_a_reboot_brings_a_lost_gpu_back_and_repeats_no_fault() -> None:
    async with Watched() as watched:
        await watched.run(6.0)
        before = watched.of(EMPTY, watched.posted)[-1]
        asked = {"vigie.dev/reboot-requested": "true", "sim/boot-seconds": "30", "sim/gpu-6": "remap-pending"}

        def break_and_ask(draft: Object) -> None:
            draft["metadata"]["annotations"] |= {**asked, "sim/gpu-3": "off-bus"}

        watched.fleet.store.mutate("nodes", None, EMPTY, break_and_ask, manager="test")
        lost = watched.of(EMPTY, await watched.run(14.0))
        assert [f.code for r in lost for f in r.faults if f.code] == [79, 154]
        assert {r.gpus[3].answer for r in lost} == {GpuAnswer.LOST}
        after = watched.of(EMPTY, await watched.run(60.0))
        assert {r.boot_id for r in after} != {before.boot_id}
        back = [r for r in after if r.boot_id != before.boot_id]
        assert (back[0].sequence, back[0].gpus[3].answer, back[0].gpus[3].uuid) == (
            1,
            GpuAnswer.OK,
            before.gpus[3].uuid,
        )
        assert [f for r in back for f in r.faults] == []
        assert (back[0].gpus[6].remap_pending, back[0].gpus[6].remap_uncorrected) == (0, 1)
        assert number(back[0].gpus[3].energy_j) < number(before.gpus[3].energy_j)
