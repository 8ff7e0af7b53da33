"""Replays a recording of a real API server against the rehearsal's, over HTTP, and says where the answers differ.

The start state is what the recording shows before its first change, and what its plan gives. What a client did is sent
again. What a component of the real cluster did (kubelet, scheduler, controllers) is either done by that component of the
rehearsal, when the plan names it, or put into the store as the recording shows it, in the order of the recorded versions.
Time is the recording's own: a manual clock stands at the time of each exchange when it is sent.
"""

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import httpx

from fleet.simulation import defaults
from fleet.simulation.auth import User
from fleet.simulation.bootstrap_roles import AUTHENTICATED, MASTERS
from fleet.simulation.budgets import Budgets
from fleet.simulation.clock import ManualClock, parse_stamp
from fleet.simulation.machinery import Machinery
from fleet.simulation.resources import RESOURCES
from fleet.simulation.server import ApiServer
from fleet.simulation.store import COUNTED, Store
from tests.simulation.comparison import Comparison
from tests.simulation.identities import Identities
from tests.simulation.recorded import (
    Exchange,
    Object,
    Recording,
    is_dry,
    is_stand_in,
    is_watch,
    is_write,
    objects_in,
    version_of,
    where,
)
from tests.simulation.unrecorded import given, perform

USER_AGENT = "python-requests/2.32.3"
LONGEST_WATCH_S = 3
COMPONENT_WITHIN_S = 0.1
STEP_S = 0.002
SETTLED_WITHIN_S = 1.0
# What each component makes or changes: this the rehearsal's own component does, when a plan names it.
MAKES: dict[str, tuple[str, ...]] = {
    "NodeLifecycle": ("nodes",),
    "Budgets": ("poddisruptionbudgets", "events"),
    "EndpointSlices": ("endpointslices",),
}


@dataclass
class Plan:
    """One table of replay.toml. `callers` (who asks; the administrator if nobody is named) by index or "first-last";
    `actions` and `left_out` by the exchange's index; `given` and `before` as in unrecorded.py; `chosen`: which budget the
    disruption controller picks each time when several select a pod.
    """

    name: str
    machinery: list[str] = field(default_factory=list)
    actions: dict[int, str] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)
    callers: dict[str, str] = field(default_factory=dict)
    given: list[Object] = field(default_factory=list)
    before: list[Object] = field(default_factory=list)
    server_made: list[int] = field(default_factory=list)
    chosen: list[str] = field(default_factory=list)

    def caller(self, index: int) -> str:
        for span, caller in self.callers.items():
            first, _, last = span.partition("-")
            if int(first) <= index <= int(last or first):
                return caller
        return ""


@dataclass
class Outcome:
    replayed: int = 0
    left_out: int = 0
    differences: list[str] = field(default_factory=list)


@dataclass
class OpenWatch:
    index: int
    ends_at: float
    events: list[Object] = field(default_factory=list)
    refused: httpx.Response | None = None
    task: "asyncio.Task[None] | None" = None


class Replay:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.recording = Recording(plan.name, frozenset(plan.server_made))
        self.exchanges = self.recording.exchanges
        self.ids = Identities()
        self.outcome = Outcome()
        self._began_at = self.recording.began_at()
        self.clock = ManualClock(self._began_at - SETTLED_WITHIN_S)
        self.store = Store(self.clock, seed=1)
        self.server = ApiServer(self.store)
        self.machinery = Machinery(self.store, self.clock)
        self.comparison = Comparison(self.recording, self.ids, same_versions=not plan.machinery)
        self._made_here = {p for c in plan.machinery for p in MAKES[c]}
        self._tokens: dict[str, str] = {}
        self._watches: list[OpenWatch] = []
        self._applied: set[int] = set()
        self._made: dict[tuple[str, str], list[int]] = {}
        self._pending = self.recording.component_changes()

    async def run(self) -> Outcome:
        try:
            await self._begin()
            for index, exchange in enumerate(self.exchanges):
                await self._step(index, exchange)
            for watch in list(self._watches):
                await self._end_watch(watch)
        finally:
            await self._client.aclose()
            await self.machinery.stop()
            await self.server.stop()
        self.machinery.check()
        self.outcome.differences = self.comparison.differences
        return self.outcome

    async def _begin(self) -> None:
        for plural, obj in given(self.plan.given, self.exchanges):
            self._ensure_namespace(obj)
            self.store.restore(plural, obj)
        last_old = self.recording.first_version() if is_watch(self.exchanges[0]) else 10**9
        expired = False
        for obj in self.recording.start_state():
            if version_of(obj) > last_old and not expired:  # first seen in a later form: a watch can see it change
                self.store.expire()
                expired = True
            self._ensure_namespace(obj)
            here = where(obj)[0] in self._made_here
            if not self._exists(obj) and not (self.plan.machinery and self._later(obj)):
                self._put(obj, plain=here and where(obj)[0] in COUNTED)
        if not expired:
            self.store.expire()
        self._keep_components()
        self.machinery.start()
        await self._clock_to(0)  # what they had done long before
        if self.plan.machinery and is_watch(self.exchanges[0]):
            self.ids.same_version(self.recording.first_version(), self.store.resource_version)
        self._own = {plural: self.store.subscribe(plural) for plural in self._made_here}
        url = await self.server.start()
        context = ssl.create_default_context(cadata=self.server.ca_pem.decode())
        self._client = httpx.AsyncClient(base_url=url, verify=context, timeout=30)

    def _keep_components(self) -> None:
        """Only those that the plan names run."""
        kept = {c: k for c, k in self.machinery.controllers.items() if c.__name__ in self.plan.machinery}
        assert len(kept) == len(self.plan.machinery), f"replay.toml names unknown components: {self.plan.machinery}"
        self.machinery.controllers = kept
        budgets = kept.get(Budgets)
        if isinstance(budgets, Budgets):
            budgets.choose = self._choice(iter(self.plan.chosen))

    @staticmethod
    def _choice(chosen: Iterator[str]) -> Callable[[Sequence[str]], str]:
        return lambda keys: next(chosen, keys[0])

    def _ensure_namespace(self, obj: Object) -> None:
        namespace = obj["metadata"].get("namespace")
        if namespace and namespace not in self.store.shelf("namespaces").records:
            self.store.create("namespaces", {"metadata": {"name": namespace}}, manager="kube-apiserver")

    def _later(self, obj: Object) -> bool:
        """Whether it was created when the recording had begun already."""
        return parse_stamp(obj["metadata"]["creationTimestamp"]) > self._began_at

    def _key(self, obj: Object) -> tuple[str, str]:
        plural, namespace, name = where(json.loads(self.ids.in_text(json.dumps(obj))))
        return plural, f"{namespace}/{name}" if namespace else name

    def _exists(self, obj: Object) -> bool:
        plural, key = self._key(obj)
        return key in self.store.shelf(plural).records

    def _put(self, obj: Object, *, plain: bool = False) -> None:
        """An object as recorded, under our uid; `plain`: with the status that it has here, or none."""
        ours = json.loads(self.ids.in_text(json.dumps(obj)))
        plural, key = self._key(obj)
        if plain:
            record = self.store.shelf(plural).records.get(key)
            ours["status"] = record.object["status"] if record else {}
        defaults.fill_update(RESOURCES[plural], ours, ours)  # what was trimmed from the recording
        written = self.store.restore(plural, ours)
        if not is_stand_in(obj):
            self.ids.same_version(version_of(obj), version_of(written))
            self._applied.add(version_of(obj))

    # One exchange

    async def _step(self, index: int, exchange: Exchange) -> None:
        if exchange["request"]["method"] in {"CLI", "NOTE"}:
            return
        if index in self.plan.left_out:
            self.outcome.left_out += 1
            return
        await self._until(index, exchange)
        if index in self.plan.actions:
            await asyncio.sleep(0.05)  # what was changed before reaches those who watch
            self._act(self.plan.actions[index])
        for watch in [w for w in self._watches if w.ends_at <= exchange["t"]]:
            await self._end_watch(watch)
        self.outcome.replayed += 1
        if is_watch(exchange):
            await self._open_watch(index, exchange)
            return
        self.comparison.answer(index, await self._send(index, exchange))

    async def _open_watch(self, index: int, exchange: Exchange) -> None:
        ends_at = exchange["t"] + float(exchange["request"]["query"].get("timeoutSeconds", 0))
        if any(e["type"] == "ERROR" for e in exchange["response"]["body"]):
            ends_at = exchange["t"]
        watch = OpenWatch(index, ends_at)
        watch.task = asyncio.create_task(self._stream(watch, exchange))
        self._watches.append(watch)
        await asyncio.sleep(0.03)  # the watch is open before what it shall see

    async def _end_watch(self, watch: OpenWatch) -> None:
        """At its end; with components at work here as soon as it has shown as much as the recorded one, and no more."""
        self._watches.remove(watch)
        assert watch.task is not None
        if self.plan.machinery:
            await self._clock_to(min(watch.ends_at, self.exchanges[-1]["t"] + 1))
            expected = len(self.exchanges[watch.index]["response"]["body"])
            for _ in range(40):
                if len(watch.events) >= expected:
                    break
                await asyncio.sleep(0.05)
            await asyncio.wait((watch.task,), timeout=0.1)  # nothing more comes
            watch.task.cancel()
            await asyncio.wait((watch.task,))
        else:
            await watch.task
        self.comparison.watch(watch.index, watch.refused, watch.events, to_its_end=not self.plan.machinery)

    async def _clock_to(self, t: float) -> None:
        ahead_s = self._began_at + t - self.clock.now()
        if ahead_s > 0:
            await self.clock.advance(ahead_s)

    async def _until(self, index: int, exchange: Exchange) -> None:
        """Let the components do what they had done before this answer."""
        body = exchange["response"]["body"]
        shown = version_of(body) if isinstance(body, dict) else 0
        own = is_write(exchange) and shown in self.recording.written and not is_dry(exchange)
        while self._pending:
            version, at, kind, obj = self._pending[0]
            if not (version < shown if own else version <= shown or at < exchange["t"]):
                break
            self._pending.pop(0)
            await self._clock_to(min(at, exchange["t"]))
            await self._component(version, kind, obj)
        for step in self.plan.before:
            if step["at"] == index:
                await perform(step, self.store, self.clock, self.machinery)
        if not is_write(exchange) and not is_watch(exchange):
            for obj in objects_in(body):
                self._notice(obj)
        await self._clock_to(exchange["t"])
        for obj in objects_in(body):
            if where(obj)[0] in self._made_here:
                self._recognise(obj)

    def _notice(self, obj: Object) -> None:
        """A change that nobody watched; of what components here make, only the part that they do not."""
        if where(obj)[0] not in self._made_here:
            if version_of(obj) not in self.recording.written | self._applied and not self.ids.knows(version_of(obj)):
                self._put(obj)
            return
        plural, key = self._key(obj)
        record = self.store.shelf(plural).records.get(key)
        if plural not in COUNTED or "generateName" in obj["metadata"]:
            return
        if record is None or record.object["metadata"].get("generation") != obj["metadata"]["generation"]:
            self._put(obj, plain=True)

    def _recognise(self, obj: Object) -> None:
        """Which of our objects stands for one that a component made: that with the name, or the next of its kind."""
        uid, metadata = obj["metadata"]["uid"], obj["metadata"]
        if self.ids.knows_uid(uid):
            return
        plural, key = self._key(obj)
        record = self.store.shelf(plural).records.get(key)
        found = record.object if record else None
        if found is None and "generateName" in metadata:
            alike = [
                o
                for o in self.store.list(plural, metadata.get("namespace"))
                if o["metadata"].get("generateName") == metadata["generateName"]
                and not self.ids.stands_for_one(o["metadata"]["uid"])
            ]
            found = min(alike, key=version_of, default=None)
        if found is not None:
            self.ids.same_object(obj, found)

    async def _component(self, version: int, kind: str, obj: Object) -> None:
        plural, namespace, name = where(obj)
        if plural in self._made_here:
            self._recognise(obj)
            ours = await self._made_by_machinery(*self._key(obj))
            if ours is not None:
                self.ids.same_version(version, ours)
            return
        force = kind == "MODIFIED" and obj["metadata"].get("deletionGracePeriodSeconds") == 0
        if force and self._pending and self._pending[0][2] == "DELETED":  # the kubelet's DELETE with grace 0
            gone = self._pending.pop(0)[0]
            deleted = self.store.delete(plural, namespace, name, grace_s=0)
            self.ids.same_version(version, version_of(deleted) - 1)
            self.ids.same_version(gone, version_of(deleted))
        elif kind == "DELETED":
            self.ids.same_version(version, version_of(self.store.delete(plural, namespace, name, grace_s=0)))
        else:
            self._put(obj)

    async def _made_by_machinery(self, plural: str, key: str) -> int | None:
        """The next version of the object that a component here has made, or makes soon; None when it makes none."""
        for _ in range(int(COMPONENT_WITHIN_S / STEP_S)):
            for change in self._own[plural].take():
                self._made.setdefault((plural, change.key), []).append(change.resource_version)
            for version in self._made.get((plural, key), ()):
                if not self.ids.stands_for_version(version):
                    return version
            await self.clock.advance(STEP_S)
        return None

    def _act(self, action: str) -> None:
        app = self.server.app
        match action:
            case "restart":
                app.restart()
                app.phase = "starting"
            case "roles-loaded":
                app.phase = "unready"
            case "ready":
                app.phase = "ready"
            case _:
                raise AssertionError(f"replay.toml names an unknown action: {action}")

    # Sending

    def _token(self, caller: str) -> str:
        """The token of a caller: "" is the administrator, "NAMESPACE/NAME" a service account."""
        if caller not in self._tokens:
            namespace, _, name = caller.partition("/")
            admin = User("kubernetes-admin", (MASTERS, AUTHENTICATED))
            auth = self.server.auth
            self._tokens[caller] = auth.issue_for_account(namespace, name) if caller else auth.issue(admin)
        return self._tokens[caller]

    def _request(self, index: int, exchange: Exchange) -> httpx.Request:
        recorded = exchange["request"]
        query = self.ids.query(recorded.get("query") or {})
        if is_watch(exchange) and "timeoutSeconds" in query:
            longest = 60 if self.plan.machinery else LONGEST_WATCH_S
            query["timeoutSeconds"] = str(min(longest, int(query["timeoutSeconds"])))
        headers = {"user-agent": USER_AGENT, **(recorded.get("headers") or {})}
        caller = self.plan.caller(index)
        if "anonymous" not in exchange.get("note", ""):
            headers["authorization"] = f"Bearer {caller if caller == 'unknown' else self._token(caller)}"
        body = self.ids.body(recorded.get("body"))
        content = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        path = self.ids.in_text(recorded["path"])
        return self._client.build_request(recorded["method"], path, params=query, headers=headers, content=content)

    async def _send(self, index: int, exchange: Exchange) -> httpx.Response:
        """The answer; while the server waits for its clock, time goes on."""
        answer = asyncio.create_task(self._client.send(self._request(index, exchange)))
        while True:
            await asyncio.wait((answer,), timeout=0.02)
            if answer.done():
                return answer.result()
            await self.clock.advance(STEP_S)

    async def _stream(self, watch: OpenWatch, exchange: Exchange) -> None:
        """Collect the events of a watch; an event BROKEN at the end of one that was cut."""
        response = await self._client.send(self._request(watch.index, exchange), stream=True)
        if response.status_code != 200:
            await response.aread()
            watch.refused = response
            return
        try:
            async for line in response.aiter_lines():
                watch.events.append(json.loads(line))
        except (httpx.RemoteProtocolError, httpx.ReadError):
            watch.events.append({"type": "BROKEN"})
        finally:
            await response.aclose()
