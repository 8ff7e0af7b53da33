"""Patches: RFC 7386 merge, strategic merge with its directives, and RFC 6902 JSON patch.

Pure functions that return a new object. Owns the merge keys of the kinds served. Must not check what comes out.
"""

import copy
from typing import Any

from fleet.simulation.refusals import bad_request, rejected

Object = dict[str, Any]

# patchMergeKey by the field that holds the list; lists that are not here are replaced.
MERGE_KEYS: dict[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "podIPs": "ip",
    "hostIPs": "ip",
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "secrets": "name",
}
MERGED_PRIMITIVES = frozenset({"finalizers", "podCIDRs"})
DIRECTIVE = "$patch"
RETAIN = "$retainKeys"
DELETE_PRIMITIVE = "$deleteFromPrimitiveList/"
ORDER = "$setElementOrder/"


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, maps merge, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def merge_key(field: str, items: list[Any]) -> str:
    """The key that names the items of a list; empty for lists that are replaced as a whole."""
    if field == "ports":
        first = next((i for i in items if isinstance(i, dict)), {})
        return "containerPort" if "containerPort" in first else "port"
    return MERGE_KEYS.get(field, "")


def strategic(target: Any, patch: Any) -> Any:
    """Strategic merge of `patch` into `target`; ApiError 400 for wrong directives."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise bad_request(f"unrecognized type of patch: {directive}")
    merged = dict(target) if isinstance(target, dict) else {}
    _drop(merged, patch)
    for name, value in patch.items():
        if not name.startswith("$"):
            _put(merged, name, value)
    for held, order in _directives(patch, ORDER):
        if held in merged:
            merged[held] = _reordered(held, merged[held], order)
    return merged


def _directives(patch: Object, prefix: str) -> list[tuple[str, Any]]:
    """(field, value) of the directives that begin with `prefix`."""
    return [(name.removeprefix(prefix), value) for name, value in patch.items() if name.startswith(prefix)]


def _drop(merged: Object, patch: Object) -> None:
    """$retainKeys: keep only these of the present keys; $deleteFromPrimitiveList: take these values out."""
    kept = patch.get(RETAIN)
    if kept is not None:
        for name in [n for n in merged if n not in kept]:
            del merged[name]
    for held, values in _directives(patch, DELETE_PRIMITIVE):
        merged[held] = [v for v in merged.get(held) or () if v not in values]


def _put(merged: Object, name: str, value: Any) -> None:
    if value is None:
        merged.pop(name, None)
    elif isinstance(value, list):
        merged[name] = _merged_list(name, merged.get(name) or [], value)
    else:
        merged[name] = strategic(merged.get(name), value)


def _merged_list(field: str, target: list[Any], patch: list[Any]) -> list[Any]:
    if any(isinstance(p, dict) and p.get(DIRECTIVE) == "replace" for p in patch):
        return [p for p in patch if not (isinstance(p, dict) and DIRECTIVE in p)]
    if field in MERGED_PRIMITIVES:
        return [*target, *(p for p in patch if p not in target)]
    key = merge_key(field, [*patch, *target])
    if not key or not all(isinstance(p, dict) for p in patch):
        return patch
    return _by_key(key, target, patch)


def _by_key(key: str, target: list[Object], patch: list[Object]) -> list[Object]:
    merged = list(target)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        index = next((i for i, t in enumerate(merged) if t.get(key) == item[key]), None)
        if item.get(DIRECTIVE) == "delete":
            merged = [t for t in merged if t.get(key) != item[key]]
        elif index is None:
            merged.append({k: v for k, v in strategic({}, item).items() if k != DIRECTIVE})
        else:
            merged[index] = strategic(merged[index], item)
    return merged


def _reordered(field: str, items: list[Any], order: list[Any]) -> list[Any]:
    """The items that `order` names in its order, the others behind them."""
    key = merge_key(field, [*order, *items])
    ranks = {_name(o, key): i for i, o in enumerate(order)}
    return sorted(items, key=lambda i: ranks.get(_name(i, key), len(ranks)))


def _name(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else item


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902; ApiError 422 in the server's one generic sentence when any operation cannot be done."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    result = copy.deepcopy(target)
    for operation in operations:
        try:
            result = _operate(result, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise rejected() from error
    return result


def _operate(doc: Any, operation: Object) -> Any:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "add":
            return _add(doc, path, operation["value"])
        case "remove":
            _remove(doc, path)
            return doc
        case "replace":
            _get(doc, path)
            return _set(doc, path, operation["value"])
        case "move":
            source = _pointer(operation["from"])
            value = _get(doc, source)
            _remove(doc, source)
            return _add(doc, path, value)
        case "copy":
            return _add(doc, path, copy.deepcopy(_get(doc, _pointer(operation["from"]))))
        case "test":
            if _get(doc, path) != operation.get("value"):
                raise ValueError("test failed")
            return doc
        case other:
            raise ValueError(f"unknown operation {other}")


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(f"not a JSON pointer: {text}")
    return [p.replace("~1", "/").replace("~0", "~") for p in text.split("/")[1:]]


def _index(step: str, *, end: int) -> int:
    index = int(step)
    if not 0 <= index <= end or step != str(index):
        raise IndexError(step)
    return index


def _get(doc: Any, path: list[str]) -> Any:
    for step in path:
        doc = doc[_index(step, end=len(doc) - 1)] if isinstance(doc, list) else doc[step]
    return doc


def _add(doc: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _get(doc, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, end=len(parent)), value)
    else:
        parent[last] = value
    return doc


def _set(doc: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _get(doc, path[:-1]), path[-1]
    parent[_index(last, end=len(parent) - 1) if isinstance(parent, list) else last] = value
    return doc


def _remove(doc: Any, path: list[str]) -> None:
    parent, last = _get(doc, path[:-1]), path[-1]
    del parent[_index(last, end=len(parent) - 1) if isinstance(parent, list) else last]
