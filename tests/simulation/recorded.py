"""What a recording tells about the cluster that it was made on: its exchanges, who made which version, where it began.

Owns reading that history out of a recording. Must not send or compare anything.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from fleet.simulation.resources import SERVED
from tests.simulation.identities import TIME

Exchange = dict[str, Any]
Object = dict[str, Any]

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
PLURALS = {r.kind: r.plural for r in reversed(SERVED)}
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
PAST = ("creationTimestamp", "lastTransitionTime", "startTime", "startedAt", "finishedAt", "lastUpdateTime")


def is_watch(exchange: Exchange) -> bool:
    return bool(exchange["response"].get("stream")) and isinstance(exchange["response"]["body"], list)


def is_write(exchange: Exchange) -> bool:
    return exchange["request"]["method"] in WRITES


def is_dry(exchange: Exchange) -> bool:
    """By query, or by DeleteOptions in the body."""
    body = exchange["request"].get("body")
    return bool((exchange["request"].get("query") or {}).get("dryRun")) or (isinstance(body, dict) and "dryRun" in body)


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


class Recording:
    """`server_made`: versions that the API server itself wrote while it answered (an eviction's marks)."""

    def __init__(self, name: str, server_made: frozenset[int] = frozenset()) -> None:
        self.name = name
        self.exchanges: list[Exchange] = json.loads((RECORDINGS / f"{name}.json").read_text())
        self.server_made = server_made
        self.written = self._client_writes()

    def began_at(self) -> float:
        """The time of t = 0: nothing that an answer shows as past can be later than the answer."""
        latest = [
            datetime.fromisoformat(stamp).timestamp() - exchange["t"]
            for exchange in self.exchanges
            if not is_watch(exchange)
            for stamp in _past_stamps(exchange["response"]["body"])
        ]
        return max(latest, default=1_790_000_000.0)

    def first_version(self) -> int:
        """The version that the recorded client's watches begin at; 0 when there are none."""
        found = [int(e["request"]["query"].get("resourceVersion") or 0) for e in self.exchanges if is_watch(e)]
        return min((v for v in found if v), default=0)

    def _client_writes(self) -> set[int]:
        """The versions that the recorded client made; a write that changed nothing answers with an older one."""
        arrived: dict[int, float] = {}
        for exchange in filter(is_watch, self.exchanges):
            for event, at in _arrivals(exchange):
                arrived.setdefault(version_of(event["object"]), at)
        found = set()
        for exchange in self.exchanges:
            body = exchange["response"]["body"]
            if is_write(exchange) and not is_dry(exchange) and objects_in(body):
                version = version_of(body)
                if arrived.get(version, exchange["t"]) >= exchange["t"]:
                    found.add(version)
        return found

    def component_changes(self) -> list[tuple[int, float, str, Object]]:
        """What components changed while somebody watched: (version, arrival, type, object), in order."""
        found: dict[int, tuple[int, float, str, Object]] = {}
        watches = [e for e in self.exchanges if is_watch(e) and "as=Table" not in e["request"]["headers"]["accept"]]
        for exchange in sorted(watches, key=lambda e: bool(set(e["request"]["query"]) & {"labelSelector"})):
            first = int(exchange["request"]["query"].get("resourceVersion") or 0)
            if "status.phase" in exchange["request"]["query"].get("fieldSelector", ""):
                continue
            for event, at in _arrivals(exchange):
                version = version_of(event["object"])
                if event["type"] in {"BOOKMARK", "ERROR"} or not first or version <= first:
                    continue
                if version not in self.written | self.server_made:
                    found.setdefault(version, (version, at, event["type"], event["object"]))
        return [found[v] for v in sorted(found)]

    def start_state(self) -> list[Object]:
        """The first sight of every object, unless a client or a component made it later."""
        made = {o["metadata"]["uid"] for _, _, kind, o in self.component_changes() if kind == "ADDED"}
        seen: dict[str, Object] = {}
        for exchange in self.exchanges:
            created = exchange["request"]["method"] == "POST"
            for obj in self._shown(exchange):
                uid = obj["metadata"]["uid"]
                if created:
                    made.add(uid)
                elif uid not in made:
                    seen.setdefault(uid, obj)
        found = [o for o in seen.values() if not made & {r["uid"] for r in o["metadata"].get("ownerReferences", ())}]
        return [*self._unseen(found), *sorted(found, key=version_of)]

    def _shown(self, exchange: Exchange) -> list[Object]:
        body = exchange["response"]["body"]
        if is_watch(exchange):
            made = self.written | self.server_made
            added = [e["object"] for e in body if e["type"] == "ADDED" and version_of(e["object"]) not in made]
            return [o for a in added for o in objects_in(a)]
        if is_dry(exchange) and isinstance(exchange["request"].get("body"), dict):
            return [self._without_patch(exchange, o) for o in objects_in(body)]
        return objects_in(body)

    def _without_patch(self, exchange: Exchange, obj: Object) -> Object:
        """What a dry run showed, without its patch: what that touched is taken from other dry runs that did not."""
        others = [
            (e["request"]["body"].get("spec", {}), e["response"]["body"]["spec"])
            for e in self.exchanges
            if e["request"]["path"] == exchange["request"]["path"] and is_dry(e) and objects_in(e["response"]["body"])
        ]
        spec, before = dict(obj.get("spec") or {}), obj["metadata"].get("generation", 0)
        for key in exchange["request"]["body"].get("spec") or {}:
            untouched = next((shown for patched, shown in others if key not in patched), None)
            if untouched is not None:
                spec[key], before = untouched.get(key), obj["metadata"].get("generation", 0) - 1
        metadata = {**obj["metadata"], "generation": before} if before else obj["metadata"]
        return {**obj, "metadata": metadata, "spec": {k: v for k, v in spec.items() if v is not None}}

    def _unseen(self, seen: list[Object]) -> list[Object]:
        """Stand-ins for objects that a first page only counts: copies of its last one, sorted behind all others."""
        found: dict[str, list[Object]] = {}
        for index, exchange in enumerate(self.exchanges):
            body, path = exchange["response"]["body"], exchange["request"]["path"]
            if not isinstance(body, dict) or "remainingItemCount" not in body.get("metadata", {}):
                continue
            if path in found or "continue" in exchange["request"]["query"]:
                continue
            last = objects_in(body)[-1]
            count = len(body["items"]) + body["metadata"]["remainingItemCount"]
            alike = [o for o in [*seen, *self._sights(index)] if where(o)[0] == where(last)[0] and _under(path, o)]
            known = {(o["metadata"].get("namespace"), o["metadata"]["name"]) for o in alike}
            found[path] = [_stand_in(last, i) for i in range(count - len(known))]
        return [o for objects in found.values() for o in objects]

    def _sights(self, index: int) -> list[Object]:
        """Every object that was shown before exchange `index`, or by it."""
        found = []
        for exchange in self.exchanges[: index + 1]:
            if is_watch(exchange):
                events = [e for e, at in _arrivals(exchange) if at < self.exchanges[index]["t"]]
                found += [o for e in events for o in objects_in(e["object"])]
            else:
                found += objects_in(exchange["response"]["body"])
        return found


def _under(path: str, obj: Object) -> bool:
    namespace = obj["metadata"].get("namespace")
    return "/namespaces/" not in path or f"/namespaces/{namespace}/" in path


def _arrivals(exchange: Exchange) -> list[tuple[Object, float]]:
    return list(zip(exchange["response"]["body"], exchange["response"]["body_t"], strict=True))


def _past_stamps(value: Any, field: str = "") -> list[str]:
    if isinstance(value, dict):
        return [s for k, v in value.items() for s in _past_stamps(v, k)]
    if isinstance(value, list):
        return [s for v in value for s in _past_stamps(v, field)]
    return [value] if field in PAST and isinstance(value, str) and TIME.fullmatch(value) else []


def _stand_in(obj: Object, number: int) -> Object:
    metadata = {**obj["metadata"], "name": f"zzz-unseen-{number:03}", "uid": f"unseen-{number}"}
    return {**obj, "metadata": metadata}


def is_stand_in(obj: Object) -> bool:
    uid: str = obj["metadata"]["uid"]
    return uid.startswith("unseen-")
