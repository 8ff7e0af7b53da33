"""Long recordings in few bytes: of each later sight of an object in a watch only what changed is kept.

`python -m tests.simulation.packed_recordings SOURCE_FOLDER NAME…` writes tests/data/recordings/lived/NAME.json; `recording`
reads one as it was recorded, but for what nobody compares. Must not judge anything.
"""

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tests.simulation.trim_recordings import CHATTY, managed

Exchange = dict[str, Any]
Object = dict[str, Any]

FOLDER = Path(__file__).parents[1] / "data" / "recordings" / "lived"
UNREAD = frozenset({
    "volumeMounts", "imageID", "containerID", "daemonEndpoints", "machineID", "systemUUID", "projected", "lastProbeTime",
    "podIPs", "hostIPs", "hostIP", "lastState",
})  # fmt: skip
HEADERS = ("accept", "content-type", "user-agent")


@cache
def _text(name: str) -> str:
    return (FOLDER / f"{name}.json").read_text()


def recording(name: str) -> list[Exchange]:
    """The exchanges of a recording, whole again; each call gives its own copy."""
    exchanges: list[Exchange] = json.loads(_text(name))
    for exchange in exchanges:
        if isinstance(exchange["response"]["body"], list):
            exchange["response"]["body"] = _unpacked(exchange["response"]["body"])
    return exchanges


def _unpacked(events: list[Object]) -> list[Object]:
    known: dict[str, Object] = {}
    found = []
    for event in events:
        if "of" not in event:
            obj = event["object"]
        else:
            last = known[event["of"]]
            kept = {k: v for k, v in last["metadata"].items() if k not in event.get("without", ())}
            obj = {**last, **event["object"], "metadata": {**kept, **event["object"]["metadata"]}}
        if "uid" in obj["metadata"]:
            known[obj["metadata"]["uid"]] = obj
        found.append({"type": event["type"], "object": obj})
    return found


def _packed(events: list[Object]) -> list[Object]:
    known: dict[str, Object] = {}
    found = []
    for event in events:
        obj = event["object"]
        uid = obj["metadata"].get("uid")
        last = known.get(uid) if uid else None
        if last is None:
            found.append(event)
        else:
            changed = {k: v for k, v in obj["metadata"].items() if last["metadata"].get(k) != v}
            without = [k for k in last["metadata"] if k not in obj["metadata"]]
            rest = {k: v for k, v in obj.items() if k != "metadata" and last.get(k) != v}
            packed = {"type": event["type"], "of": uid, "object": {"metadata": changed, **rest}}
            found.append({**packed, "without": without} if without else packed)
        if uid:
            known[uid] = obj
    return found


def trimmed(value: Any, field: str = "") -> Any:
    """Without what nobody reads."""
    if isinstance(value, list):
        return [trimmed(v) for v in value]
    if not isinstance(value, dict):
        return value
    if field == "labels":
        return {k: v for k, v in value.items() if not CHATTY.match(k)}
    shown = {k: trimmed(v, k) for k, v in value.items() if k not in UNREAD and k != "managedFields"}
    entries = managed(value.get("managedFields") or [])
    return {**shown, "managedFields": entries} if entries else shown


def _exchange(exchange: Exchange) -> Exchange:
    request, response = exchange["request"], exchange["response"]
    headers = {k: v for k, v in (request.get("headers") or {}).items() if k in HEADERS}
    body = trimmed(response["body"])
    watched = isinstance(body, list)
    made: Exchange = {
        "t": exchange["t"],
        "request": {**{k: v for k, v in request.items() if v}, "headers": headers},
        "response": {"status": response["status"], "body": _packed(body) if watched else body},
    }
    if watched and response.get("body_t"):
        made["response"]["body_t"] = response["body_t"]
    return made


def main(source: str, *names: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        exchanges = json.loads((Path(source) / f"{name}.json").read_text())
        told = [_exchange(e) for e in exchanges if e["request"]["method"] != "NOTE"]
        text = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
