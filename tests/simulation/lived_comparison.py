"""Whether what the rehearsal's own machinery did equals what the real one did, as far as two runs of a cluster can be equal.

Owns the rules, which replay.toml states in words. Must not send anything.
"""

import json
import re
from typing import Any

import msgspec

from fleet.domain import kube
from tests.simulation.identities import masked
from tests.simulation.in_process import Answer
from tests.simulation.lived_start import Exchange, Object, objects_in
from tests.simulation.packed_recordings import trimmed

KINDS = {r.name: r.kind for r in kube.RESOURCES.values()}
COUNTING = {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "PodDisruptionBudget"}
LASTING_S = 0.5
MOST = 12  # differences in a failure's message
LONGEST = 160  # characters of a value in a failure's message
COUNTS = frozenset({
    "generation", "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "active",
    "ready", "succeeded", "disruptionsAllowed", "currentHealthy", "expectedPods", "numberReady", "numberAvailable",
})  # fmt: skip

REFUSED_NAME = re.compile(r'(pods \\"[a-z0-9-]+-)[a-z0-9]{5}(?=\\" is forbidden)')  # of a pod that never came to be
Sequence = list[tuple[float, str, Any]]  # when, how, what of it is compared


def read(obj: Object) -> Any:
    """What the domain reads of an object, without what chance decides: its node, its address, its generated name."""
    plain = masked(obj)
    plain = json.loads(REFUSED_NAME.sub(r"\1…", json.dumps(plain)))
    if obj["kind"] == "ReplicaSet":  # how often it was scaled: how many pods each step happened to find
        plain["metadata"].pop("generation", None)
        plain.get("status", {}).pop("observedGeneration", None)
    kind = KINDS.get(obj["kind"])
    if kind is None:
        return _unplaced(trimmed(plain))
    line = kube.watch_line(kind, msgspec.json.encode({"type": "ADDED", "object": plain}))
    assert isinstance(line, kube.Changed)
    return _unplaced(json.loads(msgspec.json.encode(line.object)))


def _unplaced(value: Any) -> Any:
    """Addresses and nodes masked wherever they stand."""
    if isinstance(value, dict):
        hidden = {
            "nodeName",
            "hostIP",
            "podIP",
            "hostIPs",
            "podIPs",
            "zone",
            "addresses",
            "topology.kubernetes.io/zone",
        }
        return {k: bool(v) if k in hidden else _unplaced(v) for k, v in value.items()}
    return [_unplaced(v) for v in value] if isinstance(value, list) else value


def family(obj: Object) -> str:
    """Objects with a generated name cannot be told apart by it: they are compared with their siblings."""
    metadata = obj["metadata"]
    if obj["kind"] == "Event":
        return f"Event/{metadata['name'].partition('.')[0]}"
    return f"{obj['kind']}/{metadata.get('generateName') or metadata['name']}"


def nameless(content: Any, obj: Object) -> Any:
    """`content` with the object's own generated name masked."""
    if not obj["metadata"].get("generateName"):
        return content
    return json.loads(json.dumps(content).replace(obj["metadata"]["name"], "<name>"))


def histories(events: list[tuple[float, Object]]) -> dict[str, Sequence]:
    """By uid: the events of each object."""
    found: dict[str, Sequence] = {}
    for at, event in events:
        if event["type"] == "BOOKMARK":
            continue
        obj = event["object"]
        content = nameless(read(obj), obj) if event["type"] != "DELETED" else None
        found.setdefault(f"{family(obj)} {obj['metadata']['uid']}", []).append((at, event["type"], content))
    return found


def told(sequences: list[Sequence], kind: str) -> Any:
    """What of the histories of one family must be equal: of pods all steps, of what counts them its reasons and its end."""
    if kind not in COUNTING:
        return sorted(json.dumps([s[0][1], *_steps([c for _, _, c in s])], sort_keys=True) for s in sequences)
    return [[s[0][1], *_steps([_uncounted(c) for _, _, c in s]), s[-1][2]] for s in sequences]


def skipped(recorded: Sequence, ours: Sequence, until: float) -> list[Any]:
    """The states that lasted in one history and that the other did not come through, in order."""
    return [*_missing(_lasting(recorded, until), _states(ours)), *_missing(_lasting(ours, until), _states(recorded))]


def _states(sequence: Sequence) -> list[Any]:
    return [_unreasoned(content) for _, _, content in sequence]


def _lasting(sequence: Sequence, until: float) -> list[Any]:
    ends = [*(at for at, _, _ in sequence[1:]), until]
    lasted = [c for (at, _, c), end in zip(sequence, ends, strict=True) if end - at >= LASTING_S]
    return _steps([_unreasoned(c) for c in lasted])


def _missing(wanted: list[Any], there: list[Any]) -> list[Any]:
    """What of `wanted` cannot be found in `there` behind what was found before it."""
    found, missing = 0, []
    for state in wanted:
        if state in there[found:]:
            found += there[found:].index(state)
        else:
            missing.append(state)
    return missing


def _steps(values: list[Any]) -> list[Any]:
    """Without consecutive duplicates."""
    return [v for i, v in enumerate(values) if i == 0 or v != values[i - 1]]


def _uncounted(content: Any) -> Any:
    if isinstance(content, dict):
        return {k: _uncounted(v) for k, v in content.items() if k not in COUNTS and k != "resourceVersion"}
    return [_uncounted(v) for v in content] if isinstance(content, list) else content


def _unreasoned(content: Any) -> Any:
    """Without why a condition is what it is: `reasons` holds that, step by step."""
    if isinstance(content, dict):
        return {
            k: _unreasoned(v)
            for k, v in content.items()
            if k not in {"reason", "message", "generation", "observedGeneration"}
        }
    return [_unreasoned(v) for v in content] if isinstance(content, list) else content


def families(events: list[tuple[float, Object]]) -> dict[str, list[Sequence]]:
    """By family: the histories of its members, the first come first."""
    found: dict[str, list[Sequence]] = {}
    for key, sequence in histories(events).items():
        found.setdefault(key.rpartition(" ")[0], []).append(sequence)
    return found


def watch_differs(
    recorded: list[tuple[float, Object]], ours: list[tuple[float, Object]], until: float, *, timed: bool
) -> dict[str, str]:
    """Family → how it differs; nothing where it is equal."""
    theirs, mine = families(recorded), families(ours)
    found = {}
    for name in sorted({*theirs, *mine}):
        kind = name.partition("/")[0]
        left, right = theirs.get(name, []), mine.get(name, [])
        lines = difference(told(left, kind), told(right, kind))
        if not lines and timed and kind in COUNTING:
            pairs = zip(left, right, strict=True)
            lines = [f"skipped {str(s)[:LONGEST]}" for one, other in pairs for s in skipped(one, other, until)]
        if lines:
            found[name] = "; ".join(lines[:MOST])
    return found


def answer_differs(exchange: Exchange, got: Answer) -> str:
    """Empty when the answer is equal."""
    recorded = exchange["response"]
    if recorded["status"] != got.status:
        return f"status {recorded['status']} != {got.status}: {got.content[:300]!r}"
    if not isinstance(recorded["body"], dict):
        return "" if recorded["body"] == got.content.decode() else "text"
    written = exchange["request"]["method"] != "GET"
    mine, theirs = (_contents(body, written=written) for body in (got.json(), recorded["body"]))
    return "; ".join(difference(theirs, mine)[:MOST])


def _contents(body: Object, *, written: bool) -> Any:
    """A body as it is compared: the members of a list without their order where their names are generated.

    `written`: the answer to a write, which comes at its own time, however far controllers have got with the one before.
    """
    objects = objects_in(body)
    if not objects:
        return json.loads(json.dumps(masked(body)))
    if written:
        objects = [_unobserved(o) for o in objects]
    return sorted(json.dumps([family(o), nameless(read(o), o)], sort_keys=True) for o in objects)


def _unobserved(obj: Object) -> Object:
    status = {k: v for k, v in obj.get("status", {}).items() if k != "observedGeneration"}
    return {**obj, "status": status} if "status" in obj else obj


def difference(recorded: Any, ours: Any, path: str = "") -> list[str]:
    """Where two values differ, a line each: path, recorded, ours."""
    if _is_told(recorded) and _is_told(ours):
        recorded, ours = json.loads(recorded), json.loads(ours)
    if isinstance(recorded, dict) and isinstance(ours, dict):
        keys = sorted({*recorded, *ours})
        return [d for k in keys for d in difference(recorded.get(k), ours.get(k), f"{path}.{k}")]
    if isinstance(recorded, list) and isinstance(ours, list):
        longer = max(len(recorded), len(ours))
        pairs = [(*(x[i] if i < len(x) else None for x in (recorded, ours)), i) for i in range(longer)]
        return [d for mine, theirs, i in pairs for d in difference(mine, theirs, f"{path}[{i}]")]
    return [] if recorded == ours else [f"{path}: {str(recorded)[:LONGEST]} != {str(ours)[:LONGEST]}"]


def _is_told(value: Any) -> bool:
    return isinstance(value, str) and value[:1] in {"[", "{"}
