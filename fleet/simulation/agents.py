"""The agents on the GPU nodes of the rehearsal: each posts its machine's reading every five seconds, and at once after a fault.

Owns when a reading is sent, with which token, and what follows from the answer. An agent is its pod: where no pod of the
DaemonSet runs, or the node is down, nobody posts. Must not know how a reading is carried (posting.py), nor what is measured
(machines.py).
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from fleet.domain.gpus import DriverStatus, Fault, Reading
from fleet.domain.xid import line_faults
from fleet.simulation import reviews
from fleet.simulation.auth import Auth
from fleet.simulation.catalogue import AGENT, AGENT_AUDIENCE
from fleet.simulation.clock import Clock, RealClock, parse_stamp
from fleet.simulation.gpu_machine import Machine
from fleet.simulation.informer import Informers
from fleet.simulation.kubelet import is_silent
from fleet.simulation.machines import Machines
from fleet.simulation.posting import Answer, UnreachableError
from fleet.simulation.refusals import ApiError
from fleet.simulation.store import Store

Object = dict[str, Any]
Post = Callable[[bytes, str], Awaitable[Answer]]

logger = logging.getLogger(__name__)

EVERY_S = 5.0  # of the wall's clock, however fast the cluster's goes
FIRST_RETRY_S = 0.5  # later each time, and no later than the next reading would be
TOKEN_S = 3600
RENEWED_AT = 0.8  # of a token's life, as kubelets do
FAULTS_KEPT = 64


class Agent:
    """The agent of one node."""

    def __init__(self, node: str, agents: "Agents") -> None:
        self.node = node
        self._of = agents
        self._lock = asyncio.Lock()
        self._token, self._renew_at = "", 0.0
        self._container = ""  # the one that the token and the sequence belong to
        self._boot_id = ""
        self._sequence = 0
        self._line = 0  # last line of the kernel log that was read
        self._faults: list[Fault] = []
        self._refused = 0

    async def turn(self) -> float:
        """Post one reading, if there is anybody to do so; in how many real seconds the next is due."""
        async with self._lock:
            machine, pod = self._of.machines.get(self.node), self._of.pod_on(self.node)
            if machine is None or pod is None:
                return EVERY_S
            self._begin(pod, machine)
            return await self._post(self._read(machine), pod)

    def _begin(self, pod: Object, machine: Machine) -> None:
        """A new container knows nothing, and reads the whole kernel log; so it does after a reboot."""
        container = str(pod["status"]["containerStatuses"][0].get("containerID", "")).rpartition("/")[2]
        if container != self._container:
            self._container, self._token, self._sequence = container, "", 0
            self._line, self._faults = 0, []
        if machine.boot_id != self._boot_id:
            self._boot_id, self._line, self._faults = machine.boot_id, 0, []

    def _read(self, machine: Machine) -> Reading:
        lines = [(line.sequence, line.at, line.text) for line in machine.log if line.sequence > self._line]
        if lines:
            self._line = lines[-1][0]
            self._faults = [*self._faults, *line_faults(lines)][-FAULTS_KEPT:]
        self._sequence += 1
        gpus = self._of.machines.gpus(self.node)
        answers = machine.status is DriverStatus.OK
        return Reading(
            node=self.node,
            boot_id=machine.boot_id,
            agent=self._container[:16],
            sequence=self._sequence,
            sent_at=self._of.clock.now(),
            status=machine.status,
            error=machine.error,
            driver=machine.driver if answers else "",
            cuda=machine.cuda if answers else "",
            nvml=f"{machine.cuda.partition('.')[0]}.{machine.driver}" if answers else "",
            count=len(gpus) if answers else None,
            gpus=gpus,
            faults=tuple(self._faults),
        )

    async def _post(self, reading: Reading, pod: Object) -> float:
        told = len(reading.faults)
        try:
            answer = await self._of.post(msgspec.json.encode(reading), self._credential(pod))
        except UnreachableError as error:
            return self._again(str(error), None)
        if answer.status == 401:
            self._token = ""
        if answer.status == 202:
            del self._faults[:told]
            self._refused = 0
            self._of.content()
            return EVERY_S
        return self._again(f"{answer.status} {answer.body[:200]!r}", answer.retry_after_s)

    def _again(self, why: str, wait_s: float | None) -> float:
        """Come back later each time; a reading that was not taken is replaced by the next, its faults are kept."""
        self._of.complain(self.node, why)
        backs_off_s = min(EVERY_S, FIRST_RETRY_S * 2.0 ** min(self._refused, 10))
        self._refused += 1
        return max(backs_off_s, wait_s or 0.0)

    def _credential(self, pod: Object) -> str:
        """The token that the kubelet has put into the pod."""
        now = self._of.clock.now()
        if not self._token or now >= self._renew_at:
            metadata = pod["metadata"]
            reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            spec = {"audiences": [AGENT_AUDIENCE], "expirationSeconds": TOKEN_S, "boundObjectRef": reference}
            account = pod["spec"]["serviceAccountName"]
            made = reviews.token_request(self._of.auth, self._of.store, metadata["namespace"], account, {"spec": spec})
            ends_at = parse_stamp(made["status"]["expirationTimestamp"])
            self._token, self._renew_at = made["status"]["token"], now + (ends_at - now) * RENEWED_AT
        return self._token


class Agents:
    """All agents, on one event loop. `post` carries a body and a token to Vigie; UnreachableError when it cannot."""

    def __init__(self, store: Store, clock: Clock, machines: Machines, auth: Auth, post: Post, seed: int = 1) -> None:
        self.store = store
        self.clock = clock
        self.machines = machines
        self.auth = auth
        self.post = post
        self._rng = random.Random(f"{seed}/agents")  # noqa: S311 -- not for secrets
        self._informers = Informers(store)
        self._agents: dict[str, tuple[Agent, asyncio.Task[None]]] = {}
        self._at_once: set[asyncio.Task[float]] = set()
        self._following: asyncio.Task[None] | None = None
        self._complained = False

    def start(self) -> None:
        self.machines.on_log = self._hurry
        self._following = asyncio.create_task(self._follow(), name="agents")

    async def stop(self) -> None:
        self.machines.on_log = None
        tasks = [task for _, task in self._agents.values()] + list(self._at_once)
        for task in [*tasks, *([self._following] if self._following else [])]:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._agents.clear()

    def check(self) -> None:
        """Raise what any of its tasks died of."""
        for task in [self._following, *(t for _, t in self._agents.values())]:
            if task is not None and task.done() and not task.cancelled():
                raise RuntimeError(f"{task.get_name()} has ended") from task.exception()

    def complain(self, node: str, why: str) -> None:
        """A reading was not taken. The first one is worth a line; the others will fare alike."""
        level = logging.DEBUG if self._complained else logging.INFO
        logger.log(level, "the reading of %s was not taken: %s", node, why)
        self._complained = True

    def content(self) -> None:
        """A reading was taken."""
        if self._complained:
            logger.info("readings are taken")
        self._complained = False

    def pod_on(self, node: str) -> Object | None:
        """The pod that is the agent there, while its container runs and the machine is up."""
        found = self._informers["nodes"].get(node)
        if found is None or is_silent(found):
            return None
        pods = self._informers["pods"].indexed("node", node)
        return next((p for p in pods if p["metadata"]["namespace"] == AGENT.namespace and _runs_agent(p)), None)

    async def _follow(self) -> None:
        """An agent for every GPU machine; whoever has new lines in its kernel log is hurried by the machines."""
        changes = self.store.subscribe("nodes")
        while True:
            present = set(self.machines)
            for node in present - set(self._agents):
                self._begin(node)
            for node in set(self._agents) - present:
                self._agents.pop(node)[1].cancel()
            try:
                changes.take()
            except ApiError:  # too much at once: all nodes are looked at anyway
                changes = self.store.subscribe("nodes")
            await changes.wait()

    def _begin(self, node: str) -> None:
        agent = Agent(node, self)
        self._agents[node] = agent, asyncio.create_task(self._run(agent), name=f"agent of {node}")

    async def _run(self, agent: Agent) -> None:
        await self._rest(self._rng.uniform(0.0, EVERY_S))
        while True:
            await self._rest(await agent.turn())

    async def _rest(self, real_s: float) -> None:
        await self.clock.sleep(real_s * (self.clock.speed if isinstance(self.clock, RealClock) else 1.0))

    def _hurry(self, node: str) -> None:
        if node in self._agents:
            task = asyncio.create_task(self._agents[node][0].turn(), name=f"agent of {node}, at once")
            self._at_once.add(task)
            task.add_done_callback(self._at_once.discard)


def _runs_agent(pod: Object) -> bool:
    statuses = pod["status"].get("containerStatuses") or ()
    return pod["spec"].get("serviceAccountName") == AGENT.account and any("running" in s["state"] for s in statuses)
