"""Replays a recording on a cluster whose own machinery does what the real one did, on a manual clock.

The cluster begins as the recording shows it; the client's requests are sent at their times; what people did to the real one
without it being recorded (an annotation, a pod) is done at its time. Minutes take seconds. See replay.toml for the rules.
"""

import asyncio
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fleet.simulation.api import Application
from fleet.simulation.auth import Auth, User
from fleet.simulation.bootstrap_roles import AUTHENTICATED, MASTERS
from fleet.simulation.clock import ManualClock, micro_stamp, parse_stamp
from fleet.simulation.deletion import timestamp
from fleet.simulation.exchange import Target, target_of
from fleet.simulation.heartbeats import lease_of
from fleet.simulation.informer import controller_of
from fleet.simulation.machinery import Machinery
from fleet.simulation.node_lifecycle import NodeLifecycle
from fleet.simulation.placement import effective_request
from fleet.simulation.refusals import not_found
from tests.simulation import in_process, lived_start
from tests.simulation.in_process import HOST, Answer, Call, Stream
from tests.simulation.lived_comparison import answer_differs, watch_differs
from tests.simulation.lived_start import PLURALS, Exchange, Object, Stage, is_watch, objects_in
from tests.simulation.packed_recordings import recording
from tests.simulation.recorded_names import RecordedNames

EARLIER_S, LATER_S, STEP_S = 0.5, 1.5, 0.025
AT_ONCE_S = 0.5
RECORDED_GRACE_S = 20.0  # the recorded cluster's node-monitor-grace-period
WRITES = {"POST", "PUT", "PATCH", "DELETE"}
PAST = ("creationTimestamp", "lastTransitionTime", "startTime", "startedAt", "finishedAt", "lastUpdateTime")
NAMESPACE = re.compile("/namespaces/([^/]+)/")
PEOPLE = "sim/"  # annotations by which people told the simulated kubelets of the recorded cluster what to do


@dataclass
class LivedPlan:
    """One table of replay.toml. `after`: the recording that ends where this one begins. `lead_s`: how long before."""

    name: str
    after: str = ""
    lead_s: float = 1.0
    left_out: dict[int, str] = field(default_factory=dict)


class Lived:
    def __init__(self, plan: LivedPlan) -> None:
        self.plan = plan
        self.exchanges = recording(plan.name)
        self.began_at = began_at(self.exchanges)
        self.clock = ManualClock(self.began_at - plan.lead_s)
        self._present = self._before()
        self.store = RecordedNames(self.clock, self.exchanges, {o["metadata"]["uid"] for o in self._present})
        self.machinery = Machinery(self.store, self.clock)
        nodes = self.machinery.controllers[NodeLifecycle]
        assert isinstance(nodes, NodeLifecycle)
        nodes.grace_s = RECORDED_GRACE_S
        self.auth = Auth(self.store)
        self.app = Application(self.store, self.auth, (HOST,), 0.005)
        self.token = self.auth.issue(User("kubernetes-admin", (MASTERS, AUTHENTICATED)))
        self.differences: list[str] = []
        self.replayed = 0
        self.left_out = 0
        self._streams: list[tuple[int, Stream]] = []
        self._looked_up: list[tuple[int, Target]] = []
        self._end = max(e["t"] for e in self.exchanges if e["request"]["method"] not in {"CLI", "NOTE"})
        self._people = self._done_by_people()

    async def run(self) -> None:
        await self._begin()
        try:
            for index, exchange in enumerate(self.exchanges):
                if exchange["request"]["method"] not in {"CLI", "NOTE"}:
                    await self._step(index, exchange)
            await self._finish()
        finally:
            self.machinery.check()
            for _, stream in self._streams:
                await stream.close()
            await self.machinery.stop()

    # The start

    def _before(self) -> list[Object]:
        """What was there already. What was made in the very second of the start was, unless the recording of before
        does not know it.
        """
        second = parse_stamp(timestamp(self.began_at))
        found = [o for o in lived_start.first_state(self.exchanges) if self._is_older(o, second)]
        if not self.plan.after:
            return found
        earlier = {o["metadata"]["uid"]: o for o in lived_start.last_state(recording(self.plan.after))}
        written = {e["request"]["path"] for e in self.exchanges if e["request"]["method"] in WRITES}
        at_once = {
            o["metadata"]["uid"] for o in lived_start.first_state(self.exchanges, AT_ONCE_S) if _path(o) not in written
        }
        known = {o["metadata"]["uid"]: o for o in found}
        left = {uid: o for uid, o in earlier.items() if _still_there(o, self.exchanges) and uid not in at_once}
        return list({**known, **left}.values())

    def _is_older(self, obj: Object, second: float) -> bool:
        margin = 1 if self.plan.after or obj["kind"] == "Event" else 0
        return lived_start.created_at(obj) <= second - margin

    async def _begin(self) -> None:
        stage = Stage(self._present, self.began_at)
        stage.complete(self.exchanges)
        for name in _namespaces(self.exchanges, stage.objects.values()):
            self._namespace(name)
        for obj in stage.objects.values():
            self.store.restore(PLURALS[obj["kind"]], {**obj, "metadata": _unmanaged(obj)})
        for node in stage.of("Node"):
            lease = lease_of(self.store.get("nodes", None, node["metadata"]["name"]), micro_stamp(self.began_at))
            self.store.create("leases", lease, manager="kubelet")
        self._stand_in(stage)
        self.machinery.start()
        await self._until(0.0)

    def _namespace(self, name: str) -> None:
        if name not in self.store.shelf("namespaces").records:
            self.store.create("namespaces", {"metadata": {"name": name}}, manager="kube-apiserver")
            account = {"metadata": {"name": "default", "namespace": name}}
            self.store.create("serviceaccounts", account, manager="kube-controller-manager")

    def _stand_in(self, stage: Stage) -> None:
        used: dict[str, int] = {}
        for pod in stage.of("Pod"):
            if pod["spec"].get("nodeName"):
                node = pod["spec"]["nodeName"]
                used[node] = used.get(node, 0) + effective_request(pod["spec"]).get(lived_start.GPU, 0)
        for wanted in stage.standing_in:
            node = wanted["spec"].get("nodeName") or stage.place(wanted, used)
            spec = {k: v for k, v in wanted["spec"].items() if k != "nodeName"}
            made = self.store.create("pods", {**wanted, "spec": spec}, manager="test")
            bound = self.store.bind(made["metadata"]["namespace"], made["metadata"]["name"], node)
            self.store.restore("pods", {**bound, "status": stage.running(bound)})

    # What people did without being recorded

    def _done_by_people(self) -> list[tuple[float, str, Object]]:
        posted = {
            o["metadata"]["uid"]
            for e in self.exchanges
            if e["request"]["method"] == "POST"
            for o in objects_in(e["response"]["body"])
        }
        found: list[tuple[float, str, Object]] = []
        notes: dict[str, dict[str, str]] = {}
        for at, how, obj in lived_start.sights(self.exchanges):
            if how == "ADDED" and not controller_of(obj) and obj["metadata"]["uid"] not in posted:
                found.append((at, "create", obj))
            if obj["kind"] == "Node":
                name, mine = obj["metadata"]["name"], _notes(obj)
                if name in notes and notes[name] != mine:
                    found.append((at, "annotate", obj))
                notes[name] = mine
        return found

    async def _until(self, at: float) -> None:
        """Let time go by, up to `at` seconds after the start."""
        while self._people and self._people[0][0] <= at:
            when, how, obj = self._people.pop(0)
            await self._advance(when)
            if how == "create":
                self._create_as_people(obj)
            else:
                name, change = obj["metadata"]["name"], partial(_annotated, like=obj)
                self.store.mutate("nodes", None, name, change, manager="kubectl")
        await self._advance(at)

    def _create_as_people(self, obj: Object) -> None:
        new = {k: v for k, v in obj.items() if k not in {"status", "metadata"}}
        if obj["kind"] == "Pod":
            new["spec"] = lived_start.as_written(obj["spec"])
        given = ("name", "namespace", "labels", "annotations")
        metadata = {k: obj["metadata"][k] for k in given if k in obj["metadata"]}
        self.store.create(PLURALS[obj["kind"]], {**new, "metadata": metadata}, manager="kubectl")

    async def _advance(self, at: float) -> None:
        left = self.began_at + at - self.clock.now()
        if left > 0:
            await self.clock.advance(left)

    # One exchange

    async def _step(self, index: int, exchange: Exchange) -> None:
        if index in self.plan.left_out:
            self.left_out += 1
            if exchange["request"]["method"] in WRITES:
                await self._until(exchange["t"])
                await self._send(exchange)
            return
        self.replayed += 1
        if is_watch(exchange):
            await self._await_initial(index, exchange)
            self._streams.append((index, Stream(self.app, self._call(exchange), self.clock)))
            await self.clock.settle()
            return
        differs = await (
            self._write(exchange) if exchange["request"]["method"] in WRITES else self._read(index, exchange)
        )
        if differs:
            self._differ(index, differs)

    async def _await_initial(self, index: int, exchange: Exchange) -> None:
        """Up to the moment at which a watch was opened: what it shows first tells more exactly than the clock."""
        query = exchange["request"].get("query") or {}
        if "sendInitialEvents" not in query:
            await self._until(exchange["t"])
            return
        first = [e["object"] for e in exchange["response"]["body"] if e["type"] == "ADDED"]
        kind = first[0]["kind"]
        body = {"kind": f"{kind}List", "apiVersion": first[0]["apiVersion"], "metadata": {}, "items": first}
        asked = {**exchange["request"], "query": {k: v for k, v in query.items() if k == "fieldSelector"}}
        listed = {"t": exchange["t"], "request": asked, "response": {"status": 200, "body": body}}
        await self._read(index, listed)

    def _differ(self, index: int, what: str) -> None:
        request = self.exchanges[index]["request"]
        self.differences.append(f"{self.plan.name}[{index}] {request['method']} {request['path']}: {what}")

    async def _write(self, exchange: Exchange) -> str:
        await self._until(exchange["t"])
        got = await self._send(exchange)
        return answer_differs(exchange, got)

    async def _read(self, index: int, exchange: Exchange) -> str:
        """Equal at some moment around the recorded one, though not before what was done before it."""
        at = self._earliest(index, exchange)
        target = target_of(exchange["request"]["path"])
        if target is not None and target.name and not target.subresource:
            self._looked_up.append((index, target))  # its history tells, at the end
            return ""
        first = ""
        while at <= exchange["t"] + LATER_S:
            await self._until(at)
            differs = answer_differs(exchange, await self._send(exchange))
            if not differs:
                return ""
            if at >= exchange["t"]:
                first = first or differs
            at += STEP_S
        return first

    def _earliest(self, index: int, exchange: Exchange) -> float:
        before: float = max((e["t"] for e in self.exchanges[:index] if e["request"]["method"] in WRITES), default=0.0)
        return max(before, float(exchange["t"]) - EARLIER_S)

    def _compare_states(self, index: int, target: Target) -> None:
        """An object that was read, with what it was around that time."""
        exchange = self.exchanges[index]
        since, until = (self.began_at + s for s in (self._earliest(index, exchange), exchange["t"] + LATER_S))
        key = f"{target.namespace}/{target.name}" if target.namespace else target.name
        first = ""
        for state in self.store.states(target.plural, key, since, until):
            told = state if state is not None else not_found(target.resource, target.name).body()
            differs = answer_differs(exchange, Answer(200 if state is not None else 404, {}, json.dumps(told).encode()))
            if not differs:
                return
            first = first or differs
        self._differ(index, first)

    async def _send(self, exchange: Exchange) -> Answer:
        task = asyncio.create_task(in_process.answer(self.app, self._call(exchange)))
        await self.clock.settle()
        for _ in range(2000):
            if task.done():
                break
            await self.clock.advance(0.002)
        return await task

    def _call(self, exchange: Exchange) -> Call:
        request = exchange["request"]
        query = {k: v for k, v in (request.get("query") or {}).items() if k != "resourceVersion"}
        if is_watch(exchange) and "sendInitialEvents" not in query:
            query["resourceVersion"] = str(self.store.resource_version)
        headers = {"user-agent": "python-requests/2.32.3", **(request.get("headers") or {})}
        headers["authorization"] = f"Bearer {self.token}"
        body = request.get("body")
        content = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        return Call(request["method"], request["path"], query, headers, content)

    async def _finish(self) -> None:
        await self._until(self._end + LATER_S)
        for index, target in self._looked_up:
            self._compare_states(index, target)
        for index, stream in self._streams:
            self._compare_watch(index, [(at - self.began_at, e) for at, e in stream.events])

    def _compare_watch(self, index: int, ours: list[tuple[float, Object]]) -> None:
        exchange = self.exchanges[index]
        times = exchange["response"].get("body_t")
        recorded = list(
            zip(times or [0.0] * len(exchange["response"]["body"]), exchange["response"]["body"], strict=True)
        )
        cuts = self._cuts(index, ours)
        differing: dict[str, str] = {}
        for i, cut in enumerate(cuts):
            found = watch_differs(recorded, [e for e in ours if e[0] <= cut], cut, timed=bool(times))
            differing = found if i == 0 else {n: d for n, d in differing.items() if n in found}
            if not differing:
                return
        for name, how in differing.items():
            self._differ(index, f"{name}: {how}")

    def _cuts(self, index: int, ours: list[tuple[float, Object]]) -> list[float]:
        """Where our part of a watch may end: around the end of the recording, anywhere when that has no times."""
        if self.exchanges[index]["response"].get("body_t"):
            return [self._end, *(self._end + i * 0.1 for i in range(-5, 16))]
        left = next(e["t"] for e in self.exchanges[index:] if e["request"]["method"] == "CLI")
        return [left, *sorted({at for at, _ in ours})]


def began_at(exchanges: list[Exchange]) -> float:
    """The time of t = 0: what is shown as past had happened when it was shown."""
    timed = [e for e in exchanges if not is_watch(e) or e["response"].get("body_t")]
    shown = [(t, stamp) for t, _, o in lived_start.sights(timed) for stamp in _past(o)]
    return max(parse_stamp(stamp) - t for t, stamp in shown) + 0.001


def _past(value: Any, field: str = "") -> list[str]:
    if isinstance(value, dict):
        return [s for k, v in value.items() if k != "managedFields" for s in _past(v, k)]
    if isinstance(value, list):
        return [s for v in value for s in _past(v, field)]
    return [value] if field in PAST and isinstance(value, str) else []


def _path(obj: Object) -> str:
    metadata, prefix = obj["metadata"], "api" if obj["apiVersion"] == "v1" else "apis"
    inside = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"/{prefix}/{obj['apiVersion']}{inside}/{PLURALS[obj['kind']]}/{metadata['name']}"


def _still_there(obj: Object, exchanges: list[Exchange]) -> bool:
    return obj["metadata"].get("namespace") in {
        o["metadata"].get("namespace") for _, _, o in lived_start.sights(exchanges)
    }


def _namespaces(exchanges: list[Exchange], objects: Iterable[Object]) -> set[str]:
    asked = {found[1] for e in exchanges if (found := NAMESPACE.search(e["request"].get("path", "")))}
    return asked | {o["metadata"]["namespace"] for o in objects if o["metadata"].get("namespace")}


def _notes(node: Object) -> dict[str, str]:
    return {k: v for k, v in (node["metadata"].get("annotations") or {}).items() if k.startswith(PEOPLE)}


def _annotated(draft: Object, like: Object) -> None:
    kept = {k: v for k, v in (draft["metadata"].get("annotations") or {}).items() if not k.startswith(PEOPLE)}
    draft["metadata"]["annotations"] = {**kept, **_notes(like)}


def _unmanaged(obj: Object) -> Object:
    """Metadata without who wrote what, but for nodes."""
    return {k: v for k, v in obj["metadata"].items() if k != "managedFields" or obj["kind"] == "Node"}
