"""Replays a recording of a real API server against the rehearsal's, over HTTP, and says where the answers differ.

The start state is what the recording shows before its first change. What a client did is sent again. What a component
of the real cluster did (kubelet, scheduler, controllers) is either done by that component of the rehearsal, when the plan
names it, or put into the store as the recording shows it, in the order of the recorded versions.
"""

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec

from fleet.domain import kube
from fleet.simulation.auth import AUTHENTICATED, MASTERS, User
from fleet.simulation.clock import RealClock
from fleet.simulation.machinery import Machinery
from fleet.simulation.resources import SERVED
from fleet.simulation.server import ApiServer
from fleet.simulation.store import Store
from tests.simulation.identities import Identities, masked

Exchange = dict[str, Any]
Object = dict[str, Any]

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
USER_AGENT = "python-requests/2.32.3"
LONGEST_WATCH_S = 3
COMPONENT_WITHIN_S = 5.0
PLURALS = {r.kind: r.plural for r in reversed(SERVED)}
KINDS = {r.name: r.kind for r in kube.RESOURCES.values()}


@dataclass
class Plan:
    """One table of replay.toml. `actions` and `left_out` are by the exchange's index."""

    name: str
    machinery: list[str] = field(default_factory=list)
    actions: dict[int, str] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)


@dataclass
class Outcome:
    replayed: int = 0
    left_out: int = 0
    differences: list[str] = field(default_factory=list)


def is_watch(exchange: Exchange) -> bool:
    return bool(exchange["response"].get("stream")) and isinstance(exchange["response"]["body"], list)


def is_write(exchange: Exchange) -> bool:
    return exchange["request"]["method"] in {"POST", "PUT", "PATCH", "DELETE"}


def objects_in(body: Any) -> list[Object]:
    """The stored objects that a response shows, kinds filled in from the list's."""
    if not isinstance(body, dict):
        return []
    if "items" in body and body.get("kind", "").endswith("List"):
        head = {"kind": body["kind"].removesuffix("List"), "apiVersion": body["apiVersion"]}
        return [o for i in body["items"] for o in objects_in({**head, **i})]
    known = body.get("kind") in PLURALS and "uid" in body.get("metadata", {})
    return [body] if known else []


def version_of(obj: Object) -> int:
    text = obj.get("metadata", {}).get("resourceVersion", "")
    return int(text) if text.isdigit() else 0


def where(obj: Object) -> tuple[str, str | None, str]:
    metadata = obj["metadata"]
    return PLURALS[obj["kind"]], metadata.get("namespace"), metadata["name"]


class Replay:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.exchanges: list[Exchange] = json.loads((RECORDINGS / f"{plan.name}.json").read_text())
        self.ids = Identities()
        self.outcome = Outcome()
        self.store = Store(RealClock(), seed=1)
        self.server = ApiServer(self.store)
        self.machinery = Machinery(self.store, self.store.clock)
        self._watches: list[tuple[float, int, asyncio.Task[list[Object] | httpx.Response]]] = []
        self._applied: set[int] = set()
        self._written = self._client_writes()
        self._pending = self._component_changes()

    # The recording's own history

    def _client_writes(self) -> set[int]:
        """The versions that the recorded client made; a write that changed nothing answers with an older one."""
        arrived: dict[int, float] = {}
        for exchange in filter(is_watch, self.exchanges):
            for event, at in zip(exchange["response"]["body"], exchange["response"]["body_t"], strict=True):
                arrived.setdefault(version_of(event["object"]), at)
        found = set()
        for exchange in self.exchanges:
            body = exchange["response"]["body"]
            dry = exchange["request"].get("query", {}).get("dryRun")
            if is_write(exchange) and not dry and objects_in(body):
                version = version_of(body)
                if arrived.get(version, exchange["t"]) >= exchange["t"]:
                    found.add(version)
        return found

    def _component_changes(self) -> list[tuple[int, float, str, Object]]:
        """What components changed while somebody watched: (version, arrival, type, object), in order."""
        found: dict[int, tuple[int, float, str, Object]] = {}
        watches = [e for e in self.exchanges if is_watch(e) and "as=Table" not in e["request"]["headers"]["accept"]]
        for exchange in sorted(watches, key=lambda e: bool(set(e["request"]["query"]) & {"labelSelector"})):
            first = int(exchange["request"]["query"].get("resourceVersion") or 0)
            if "status.phase" in exchange["request"]["query"].get("fieldSelector", ""):
                continue
            for event, at in zip(exchange["response"]["body"], exchange["response"]["body_t"], strict=True):
                version = version_of(event["object"])
                if event["type"] in {"BOOKMARK", "ERROR"} or version in self._written or not first or version <= first:
                    continue
                found.setdefault(version, (version, at, event["type"], event["object"]))
        return [found[v] for v in sorted(found)]

    def _start_state(self) -> list[Object]:
        """The first sight of every object, unless a client or a component made it later."""
        made = {o["metadata"]["uid"] for _, _, kind, o in self._pending if kind == "ADDED"}
        seen: dict[str, Object] = {}
        for exchange in self.exchanges:
            body = exchange["response"]["body"]
            if is_watch(exchange):
                shown = [
                    e["object"] for e in body if e["type"] == "ADDED" and version_of(e["object"]) not in self._written
                ]
                shown = [o for s in shown for o in objects_in(s)]
            else:
                shown = objects_in(body)
            for obj in shown:
                uid = obj["metadata"]["uid"]
                if is_write(exchange) and exchange["request"]["method"] == "POST":
                    made.add(uid)
                elif uid not in made:
                    seen.setdefault(uid, obj)
        return [*sorted(seen.values(), key=version_of), *self._unseen(list(seen.values()))]

    def _unseen(self, seen: list[Object]) -> list[Object]:
        """Stand-ins for objects that a first page only counts: copies of its last one, sorted behind all others."""
        found: dict[str, list[Object]] = {}
        for exchange in self.exchanges:
            body, path = exchange["response"]["body"], exchange["request"]["path"]
            if not isinstance(body, dict) or "remainingItemCount" not in body.get("metadata", {}):
                continue
            if path in found or "continue" in exchange["request"]["query"]:
                continue
            last = objects_in(body)[-1]
            count = len(body["items"]) + body["metadata"]["remainingItemCount"]
            known = [o for o in seen if where(o)[:2] == where(last)[:2]]
            found[path] = [_stand_in(last, i) for i in range(count - len(known))]
        return [o for objects in found.values() for o in objects]

    async def run(self) -> Outcome:
        try:
            await self._begin()
            for index, exchange in enumerate(self.exchanges):
                await self._step(index, exchange)
            for _, index, task in self._watches:
                self._compare_watch(index, await task)
        finally:
            await self._client.aclose()
            await self.machinery.stop()
            await self.server.stop()
        self.machinery.check()
        return self.outcome

    async def _begin(self) -> None:
        for obj in self._start_state():
            self._ensure_namespace(obj)
            self._put(obj)
        self.store.expire()
        self._wanted = {c for c in self.machinery.controllers if c.__name__ in self.plan.machinery}
        self.machinery.controllers = {c: k for c, k in self.machinery.controllers.items() if c in self._wanted}
        self.machinery.start()
        url = await self.server.start()
        context = ssl.create_default_context(cadata=self.server.ca_pem.decode())
        self._token = self.server.auth.issue(User("kubernetes-admin", (MASTERS, AUTHENTICATED)))
        self._client = httpx.AsyncClient(base_url=url, verify=context, timeout=30)

    def _ensure_namespace(self, obj: Object) -> None:
        namespace = obj["metadata"].get("namespace")
        if namespace and namespace not in self.store.shelf("namespaces").records:
            self.store.create("namespaces", {"metadata": {"name": namespace}}, manager="kube-apiserver")

    def _put(self, obj: Object) -> None:
        """An object as recorded, under our uid."""
        ours = json.loads(self.ids.in_text(json.dumps(obj)))
        written = self.store.restore(PLURALS[obj["kind"]], ours)
        self.ids.same_version(version_of(obj), version_of(written))
        self._applied.add(version_of(obj))

    # One exchange

    async def _step(self, index: int, exchange: Exchange) -> None:
        if exchange["request"]["method"] in {"CLI", "NOTE"}:
            return
        if index in self.plan.left_out:
            self.outcome.left_out += 1
            return
        await self._until(exchange)
        if index in self.plan.actions:
            await asyncio.sleep(0.05)  # what was changed before reaches those who watch
            self._act(self.plan.actions[index])
        await self._end_watches(exchange["t"])
        self.outcome.replayed += 1
        if is_watch(exchange):
            ends_at = exchange["t"] + float(exchange["request"]["query"].get("timeoutSeconds", 0))
            if any(e["type"] == "ERROR" for e in exchange["response"]["body"]):
                ends_at = exchange["t"]
            task = asyncio.create_task(self._stream(exchange))
            self._watches.append((ends_at, index, task))
            await asyncio.sleep(0.03)  # the watch is open before what it shall see
            return
        self._compare(index, await self._send(exchange))

    async def _until(self, exchange: Exchange) -> None:
        """Let the components do what they had done before this answer."""
        body = exchange["response"]["body"]
        shown = version_of(body) if isinstance(body, dict) else 0
        dry = bool(exchange["request"].get("query", {}).get("dryRun"))
        own = is_write(exchange) and shown in self._written and not dry
        while self._pending:
            version, at, kind, obj = self._pending[0]
            if not (version < shown if own else version <= shown or at < exchange["t"]):
                break
            self._pending.pop(0)
            await self._component(version, kind, obj)
        if not is_write(exchange) and not is_watch(exchange):
            for obj in objects_in(body):  # changes that nobody watched
                if version_of(obj) not in self._written | self._applied and not self.ids.knows(version_of(obj)):
                    self._put(obj)

    async def _component(self, version: int, kind: str, obj: Object) -> None:
        plural, namespace, name = where(obj)
        if self.plan.machinery:
            ours = await self._made_by_machinery(plural, namespace, name)
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

    async def _made_by_machinery(self, plural: str, namespace: str | None, name: str) -> int:
        """Wait for the rehearsal's own component to change the object; its new version."""
        known = self.ids.version(10**6 - 1)
        for _ in range(int(COMPONENT_WITHIN_S / 0.005)):
            version = version_of(self.store.get(plural, namespace, name))
            if version > known:
                return version
            await asyncio.sleep(0.005)
        self.machinery.check()
        raise AssertionError(f"no component changed {plural} {name} within {COMPONENT_WITHIN_S} s")

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

    async def _end_watches(self, at: float) -> None:
        for ends_at, index, task in [w for w in self._watches if w[0] <= at]:
            self._watches.remove((ends_at, index, task))
            self._compare_watch(index, await task)

    def _request(self, exchange: Exchange) -> httpx.Request:
        recorded = exchange["request"]
        query = self.ids.query(recorded.get("query") or {})
        if is_watch(exchange) and "timeoutSeconds" in query:
            query["timeoutSeconds"] = str(min(LONGEST_WATCH_S, int(query["timeoutSeconds"])))
        headers = {"user-agent": USER_AGENT, **(recorded.get("headers") or {})}
        if "anonymous" not in exchange.get("note", ""):
            headers["authorization"] = f"Bearer {self._token}"
        body = self.ids.body(recorded.get("body"))
        content = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        path = self.ids.in_text(recorded["path"])
        return self._client.build_request(recorded["method"], path, params=query, headers=headers, content=content)

    async def _send(self, exchange: Exchange) -> httpx.Response:
        return await self._client.send(self._request(exchange))

    async def _stream(self, exchange: Exchange) -> list[Object] | httpx.Response:
        """The events of a watch; an event BROKEN at the end of one that was cut."""
        events: list[Object] = []
        response = await self._client.send(self._request(exchange), stream=True)
        if response.status_code != 200:
            await response.aread()
            return response
        try:
            async for line in response.aiter_lines():
                events.append(json.loads(line))  # noqa: PERF401 -- what came before the break must stay
        except (httpx.RemoteProtocolError, httpx.ReadError):
            events.append({"type": "BROKEN"})
        finally:
            await response.aclose()
        return events

    # Comparing

    def _differ(self, index: int, what: str, recorded: Any, ours: Any) -> None:
        if recorded != ours:
            request = self.exchanges[index]["request"]
            self.outcome.differences.append(
                f"{self.plan.name}[{index}] {request['method']} {request['path']}: {what}\n"
                f"  recorded {_short(recorded, ours)}\n  ours     {_short(ours, recorded)}"
            )

    def _compare(self, index: int, response: httpx.Response) -> None:
        recorded = self.exchanges[index]["response"]
        self._differ(index, "status", recorded["status"], response.status_code)
        for name in ("content-type", "retry-after", "warning", "location"):
            self._differ(index, name, recorded["headers"].get(name), response.headers.get(name))
        body = recorded["body"]
        if not isinstance(body, dict):
            self._compare_text(index, body, response)
            return
        ours = response.json()
        if response.status_code == recorded["status"] and is_write(self.exchanges[index]):
            self._learn(body, ours)
        self._compare_versions(index, body, ours)
        self._compare_bodies(index, body, ours)

    def _compare_text(self, index: int, body: str, response: httpx.Response) -> None:
        if response.status_code == 500:  # which checks still fail differs from one moment of a start to the next
            self._differ(index, "failing", "[-]" in body, "[-]" in response.text)
        else:
            self._differ(index, "text", body, response.text)

    def _learn(self, body: Object, ours: Object) -> None:
        """Which of our identities stand for those of a write's answer."""
        metadata, own = body.get("metadata", {}), ours.get("metadata", {})
        if "uid" in metadata and "uid" in own:
            self.ids.same_uid(metadata["uid"], own["uid"])
        if version_of(body) in self._written and not self.ids.knows(version_of(body)):
            self.ids.same_version(version_of(body), version_of(ours))

    def _compare_versions(self, index: int, body: Object, ours: Object) -> None:
        recorded = version_of(body)
        if self.ids.knows(recorded) and objects_in(body):
            self._differ(index, "resourceVersion", self.ids.version(recorded), version_of(ours))
        if not objects_in(body) or "items" in body:
            self.ids.same_version(recorded, version_of(ours)) if recorded and not self.ids.knows(recorded) else None

    def _compare_bodies(self, index: int, body: Object, ours: Object) -> None:
        """Status bodies, tables and discovery as they are; objects by every field that the domain reads."""
        recorded_objects, our_objects = objects_in(body), objects_in(ours)
        if recorded_objects and body["kind"] not in {"Table", "PartialObjectMetadataList"}:
            self._differ(index, "list metadata", _list_metadata(body), _list_metadata(ours))
            self._differ(index, "objects", [read(o) for o in recorded_objects], [read(o) for o in our_objects])
        else:
            self._differ(index, "body", masked(_without_ages(body)), masked(_without_ages(ours)))

    def _compare_watch(self, index: int, events: list[Object] | httpx.Response) -> None:
        exchange = self.exchanges[index]
        if isinstance(events, httpx.Response):
            self._differ(index, "status", 200, events.status_code)
            return
        recorded = exchange["response"]["body"]
        broken = "how it ends" in exchange.get("note", "")
        self._differ(index, "broken off", broken, any(e["type"] == "BROKEN" for e in events))
        ours = [e for e in events if e["type"] != "BROKEN"]
        self._differ(
            index, "events per object", self._sequences(recorded, ours=False), self._sequences(ours, ours=True)
        )
        self._differ(index, "bookmarks", _bookmarks(recorded), _bookmarks(ours))

    def _sequences(self, events: list[Object], *, ours: bool) -> dict[str, list[Any]]:
        """Object → its events: type, version and every field that the domain reads."""
        found: dict[str, list[Any]] = {}
        for event in events:
            obj = event["object"]
            if event["type"] == "BOOKMARK":
                continue
            version = version_of(obj)
            shown = version if ours else self.ids.version(version) if self.ids.knows(version) else None
            name = "/".join((obj.get("kind", ""), obj.get("metadata", {}).get("name", "")))
            content = read(obj) if objects_in(obj) else masked(_without_ages(obj))
            found.setdefault(name, []).append((event["type"], shown if version else None, content))
        return found


def _stand_in(obj: Object, number: int) -> Object:
    metadata = {**obj["metadata"], "name": f"zzz-unseen-{number:03}", "uid": f"unseen-{number}"}
    return {**obj, "metadata": metadata}


def _bookmarks(events: list[Object]) -> tuple[bool, bool]:
    """Whether there are ordinary bookmarks behind the events, and whether the initial events' end is marked."""
    marks = [e["object"]["metadata"].get("annotations", {}) for e in events if e["type"] == "BOOKMARK"]
    ended = any(m.get("k8s.io/initial-events-end") == "true" for m in marks)
    return any(not m for m in marks) and not ended, ended


def read(obj: Object) -> Any:
    """What the domain reads of an object; kinds that it does not read are compared whole."""
    kind = KINDS.get(obj["kind"])
    plain = masked(obj)
    if kind is None:
        return plain
    line = kube.watch_line(kind, msgspec.json.encode({"type": "ADDED", "object": plain}))
    assert isinstance(line, kube.Changed)
    return msgspec.to_builtins(line.object)


def _list_metadata(body: Object) -> Any:
    return masked(body["metadata"]) if "items" in body else None


def _without_ages(body: Any) -> Any:
    """Tables without their ages, descriptions and embedded metadata; anything else as it is."""
    if not isinstance(body, dict) or body.get("kind") != "Table":
        return body
    columns = [{k: v for k, v in c.items() if k != "description"} for c in body.get("columnDefinitions") or []]
    ages = {i for i, c in enumerate(columns) if c["name"] == "Age"} or {3, 4}
    rows = [[c for i, c in enumerate(r["cells"]) if i not in ages] for r in body["rows"]]
    names = [r["object"]["metadata"]["name"] for r in body["rows"]]
    return {"kind": "Table", "metadata": body["metadata"], "columns": columns, "rows": rows, "names": names}


def _short(value: Any, other: Any) -> str:
    """A value for a failure's message: the parts in which it differs."""
    if isinstance(value, dict) and isinstance(other, dict):
        return str({k: _short(v, other.get(k)) for k, v in value.items() if v != other.get(k)})
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        return str([_short(v, o) for v, o in zip(value, other, strict=True) if v != o])
    return str(value)[:600]
