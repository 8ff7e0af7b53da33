"""Server-side apply: merging what a manager wants into an object, and refusing what others own.

Pure functions over objects and the field sets of managed_fields. Must not store anything.
"""

import re
from typing import Any

import msgspec

from fleet.simulation.managed_fields import (
    Object,
    Tree,
    changed_and_gone,
    children_of,
    entry_of,
    field_of,
    field_set,
    intersect,
    is_by,
    ordered,
    subtract,
    tracked,
)
from fleet.simulation.refusals import ApiError, Cause


def created(wanted: Object, manager: str, at: str) -> list[Object]:
    """The managedFields of an object that an apply created."""
    tree = field_set("", tracked(wanted))
    return ordered([entry_of(manager, "Apply", wanted["apiVersion"], at, tree, "")])


def applied(
    live: Object, wanted: Object, manager: str, at: str, subresource: str = "", *, force: bool = False
) -> tuple[Object, list[Object]]:
    """The object and its managedFields after an apply; ApiError 409 when others own what it changes.

    What the manager applied before and no longer wants is removed, unless somebody else owns it too.
    """
    entries: list[Object] = list(live["metadata"].get("managedFields", ()))
    own = next((e for e in entries if is_by(e, manager, "Apply", subresource)), None)
    others = [e for e in entries if e is not own]
    tree = field_set("", tracked(wanted))
    contested = _contested(live, wanted, tree, others)
    if contested and not force:
        raise _field_conflict(contested)
    given_up = subtract(own["fieldsV1"], tree) if own else {}
    for entry in others:
        given_up = subtract(given_up, entry["fieldsV1"])
    new: Object = merged("", without("", live, given_up), wanted)
    if own and own["fieldsV1"] == tree and new == live:
        return new, entries
    lost = {id(e): shared for e, shared in contested}
    kept = [{**e, "fieldsV1": subtract(e["fieldsV1"], lost.get(id(e), {}))} for e in others]
    return new, ordered([*kept, entry_of(manager, "Apply", live["apiVersion"], at, tree, subresource)])


def _contested(live: Object, wanted: Object, tree: Tree, others: list[Object]) -> list[tuple[Object, Tree]]:
    """The other managers' entries with the fields of theirs that this apply would set differently."""
    differing, _ = changed_and_gone("", tracked(live), tracked(merged("", live, wanted)))
    changing = intersect(tree, differing)
    pairs = ((e, intersect(e["fieldsV1"], changing)) for e in others)
    return [(e, shared) for e, shared in pairs if _paths(shared)]


def merged(field: str, live: Any, wanted: Any) -> Any:
    """`wanted` over `live`: maps and keyed lists item by item, anything else replaced."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        over = {k: merged(k, live[k], v) if k in live else v for k, v in wanted.items()}
        return {**live, **over}
    if isinstance(wanted, list) and isinstance(live, list):
        before, after = children_of(field, live), children_of(field, wanted)
        if before is None or after is None:
            return wanted
        both = {**before, **{k: merged(k, before[k], v) if k in before else v for k, v in after.items()}}
        return list(both.values())
    return wanted


def without(field: str, value: Any, tree: Tree) -> Any:
    """`value` less the fields of `tree`; what is emptied by it goes too."""
    if not tree:
        return value
    children = children_of(field, value)
    if children is None:
        return value
    left = {}
    for name, child in children.items():
        cut = tree.get(name)
        if cut is None:
            left[name] = child
        elif cut and (not name.startswith("k:") or "." not in cut):
            rest = without(field_of(name), child, cut)
            if rest or not child:
                left[name] = rest
    if isinstance(value, list):
        return list(left.values())
    return {field_of(name): child for name, child in left.items()}


def _paths(tree: Tree, prefix: str = "") -> list[str]:
    """The leaves of a tree as messages write them: .spec.containers[name="a"].image."""
    found: list[str] = []
    for name, child in tree.items():
        if name == ".":
            continue
        path = prefix + _step(name)
        found += _paths(child, path) if child and child != {".": {}} else [path]
    return found


def _step(name: str) -> str:
    if name.startswith("k:"):
        keys = msgspec.json.decode(name[2:])
        return "[" + ",".join(f"{k}={msgspec.json.encode(v).decode()}" for k, v in keys.items()) + "]"
    if name.startswith("v:"):
        return f"[={name[2:]}]"
    return "." + re.sub(r"^f:", "", name)


def _field_conflict(contested: list[tuple[Object, Tree]]) -> ApiError:
    causes = []
    for entry, shared in contested:
        using = "" if entry["operation"] == "Apply" else f" using {entry['apiVersion']}"
        via = f' with subresource "{entry["subresource"]}"' if entry.get("subresource") else ""
        words = f'conflict with "{entry["manager"]}"{via}{using}'
        causes += [Cause(path, words, "FieldManagerConflict") for path in _paths(shared)]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        message = f"Apply failed with {len(causes)} conflicts: {_listed(causes)}"
    return ApiError(409, "Conflict", message, {"causes": [c.detail() for c in causes]})


def _listed(causes: list[Cause]) -> str:
    by_manager: dict[str, list[str]] = {}
    for cause in causes:
        by_manager.setdefault(cause.message, []).append(cause.field)
    return "\n".join(f"{who}:\n" + "\n".join(f"- {p}" for p in paths) for who, paths in by_manager.items())
