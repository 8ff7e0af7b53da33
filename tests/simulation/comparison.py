"""Whether an answer of the rehearsal equals the recorded one in what counts, and how it differs if not.

Owns what is compared: status, headers, Status bodies and tables as they are, objects by every field that the domain reads,
watches by the sequence of events per object. Must not send anything.
"""

import json
from typing import Any

import httpx
import msgspec

from fleet.domain import kube
from tests.simulation.identities import Identities, masked
from tests.simulation.recorded import Exchange, Object, Recording, is_write, objects_in, version_of

KINDS = {r.name: r.kind for r in kube.RESOURCES.values()}


class Comparison:
    """`same_versions`: whether every version of the recording has its counterpart (nothing but replayed writes)."""

    def __init__(self, recording: Recording, ids: Identities, *, same_versions: bool) -> None:
        self.recording = recording
        self.ids = ids
        self.same_versions = same_versions
        self.differences: list[str] = []

    def differ(self, index: int, what: str, recorded: Any, ours: Any) -> None:
        if recorded != ours:
            request = self.recording.exchanges[index]["request"]
            self.differences.append(
                f"{self.recording.name}[{index}] {request['method']} {request['path']}: {what}\n"
                f"  recorded {_short(recorded, ours)}\n  ours     {_short(ours, recorded)}"
            )

    def answer(self, index: int, response: httpx.Response) -> None:
        exchange = self.recording.exchanges[index]
        recorded = exchange["response"]
        self.differ(index, "status", recorded["status"], response.status_code)
        for name in ("content-type", "retry-after", "warning", "location"):
            self.differ(index, name, recorded["headers"].get(name), response.headers.get(name))
        if not isinstance(recorded["body"], dict):
            self._text(index, recorded["body"], response)
            return
        ours = response.json()
        if response.status_code == recorded["status"] and is_write(exchange):
            self._learn(recorded["body"], ours)
        body = self.ids.translated(recorded["body"])
        self._versions(index, body, ours)
        self._bodies(index, body, ours)

    def _text(self, index: int, body: str, response: httpx.Response) -> None:
        if response.status_code == 500:  # which checks still fail differs from one moment of a start to the next
            self.differ(index, "failing", "[-]" in body, "[-]" in response.text)
        else:
            self.differ(index, "text", body, response.text)

    def _learn(self, body: Object, ours: Object) -> None:
        """Which of our identities stand for those of a write's answer."""
        if objects_in(body) and objects_in(ours):
            self.ids.same_object(body, ours)
        if version_of(body) in self.recording.written and not self.ids.knows(version_of(body)):
            self.ids.same_version(version_of(body), version_of(ours))

    def _versions(self, index: int, body: Object, ours: Object) -> None:
        recorded = version_of(body)
        if self.same_versions and self.ids.knows(recorded) and objects_in(body):
            self.differ(index, "resourceVersion", self.ids.version(recorded), version_of(ours))
        if not objects_in(body) or "items" in body:
            self.ids.same_version(recorded, version_of(ours)) if recorded and not self.ids.knows(recorded) else None

    def _bodies(self, index: int, body: Object, ours: Object) -> None:
        recorded_objects, our_objects = objects_in(body), objects_in(ours)
        if recorded_objects and body["kind"] not in {"Table", "PartialObjectMetadataList"}:
            self.differ(index, "list metadata", _list_metadata(body), _list_metadata(ours))
            self.differ(index, "objects", [read(o) for o in recorded_objects], [read(o) for o in our_objects])
        else:
            self.differ(index, "body", _plain(body), _plain(ours))

    def watch(self, index: int, refused: httpx.Response | None, events: list[Object], *, to_its_end: bool) -> None:
        """`to_its_end`: bookmarks come shortly before it, so there are none in a watch that was left earlier."""
        exchange: Exchange = self.recording.exchanges[index]
        if refused is not None:
            self.differ(index, "status", 200, refused.status_code)
            return
        recorded = self.ids.translated(exchange["response"]["body"])
        broken = "how it ends" in exchange.get("note", "")
        self.differ(index, "broken off", broken, any(e["type"] == "BROKEN" for e in events))
        ours = [e for e in events if e["type"] != "BROKEN"]
        self.differ(index, "events per object", self._sequences(recorded, ours=False), self._sequences(ours, ours=True))
        if to_its_end:
            self.differ(index, "bookmarks", _bookmarks(recorded), _bookmarks(ours))

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
            counts = version and self.same_versions
            found.setdefault(name, []).append((event["type"], shown if counts else None, content))
        return found


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


def _plain(body: Object) -> Any:
    """A body that is no object of the store; the order of a review's rules means nothing."""
    shown = masked(_without_ages(body))
    if shown.get("kind") == "SelfSubjectRulesReview":
        shown["status"] = {
            k: sorted(v, key=lambda r: json.dumps(r, sort_keys=True)) if isinstance(v, list) else v
            for k, v in shown["status"].items()
        }
    return shown


def _short(value: Any, other: Any) -> str:
    """A value for a failure's message: the parts in which it differs."""
    if isinstance(value, dict) and isinstance(other, dict):
        return str({k: _short(v, other.get(k)) for k, v in value.items() if v != other.get(k)})
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        return str([_short(v, o) for v, o in zip(value, other, strict=True) if v != o])
    if isinstance(value, tuple) and isinstance(other, tuple) and len(value) == len(other):
        return _short(list(value), list(other))
    return str(value)[:600]
