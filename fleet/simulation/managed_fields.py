"""Who owns which field: metadata.managedFields and sets of fields.

A set of fields is a tree as in FieldsV1: {"f:spec": {"f:replicas": {}}}, where an empty dict is a leaf, "." the
node itself, `k:{…}` an item of a keyed list and `v:…` an item of a set. Functions are pure. Must not store
anything nor know about requests.
"""

from typing import Any

import msgspec

Tree = dict[str, Any]
Object = dict[str, Any]

# The keys of associative lists by the field that holds them. Whatever is not here is atomic.
LIST_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "podIPs": ("ip",),
    "hostIPs": (),
    "conditions": ("type",),
    "addresses": ("type",),
    "ownerReferences": ("uid",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "resourceClaims": ("name",),
    "secrets": ("name",),
}
PORT_KEYS = (("containerPort", "protocol"), ("port", "protocol"))
SETS = frozenset({"finalizers", "podCIDRs"})
# Never owned by anybody.
UNTRACKED = {
    "metadata": frozenset({
        "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "managedFields", "selfLink",
    }),
}  # fmt: skip
# Maps (as opposed to structs) that carry "." when they were set as a whole.
MAPS = frozenset({"labels", "annotations", "matchLabels", "limits", "requests", "nodeSelector", "selector", "data"})
_MISSING = object()


def _keys_of(field: str, items: list[Any]) -> tuple[str, ...]:
    if field == "ports":
        first = items[0] if items else {}
        return next((k for k in PORT_KEYS if isinstance(first, dict) and k[0] in first), ())
    return LIST_KEYS.get(field, ())


def _item_name(keys: tuple[str, ...], item: Object) -> str:
    found = {k: item.get(k, "TCP" if k == "protocol" else "") for k in sorted(keys)}
    return "k:" + msgspec.json.encode(found).decode()


def children_of(field: str, value: Any) -> dict[str, Any] | None:
    """The children of a dict, keyed list or set by their name in the tree; None for a leaf."""
    if isinstance(value, dict):
        return {f"f:{k}": v for k, v in value.items()}
    if isinstance(value, list) and value:
        if field in SETS:
            return {"v:" + msgspec.json.encode(v).decode(): v for v in value}
        keys = _keys_of(field, value)
        if keys and all(isinstance(i, dict) for i in value):
            return {_item_name(keys, i): i for i in value}
    return None


def field_set(field: str, value: Any) -> Tree:
    """All fields of `value`, the content of field `field`."""
    children = children_of(field, value)
    if not children:
        return {}
    tree: Tree = {".": {}} if field in MAPS or field.startswith("k:") else {}
    for name, child in children.items():
        tree[name] = field_set(field_of(name), child)
    return tree


def field_of(name: str) -> str:
    return name.removeprefix("f:")


def changed_and_gone(field: str, old: Any, new: Any) -> tuple[Tree, Tree]:
    """Fields that `new` sets differently from `old` (or adds), and fields of `old` that `new` lacks."""
    before, after = children_of(field, old), children_of(field, new)
    if before is None or after is None:
        changed = field_set(field, new)
        return changed, subtract(field_set(field, old), changed)
    changed, gone = {}, {}
    for name, value in after.items():
        was = before.get(name, _MISSING)
        if was is _MISSING:
            changed[name] = field_set(field_of(name), value)
        elif was != value:
            more, less = changed_and_gone(field_of(name), was, value)
            if more or not less:
                changed[name] = more
            if less:
                gone[name] = less
    for name, was in before.items():
        if name not in after:
            gone[name] = field_set(field_of(name), was)
    return changed, gone


def merge(one: Tree, other: Tree) -> Tree:
    merged = dict(one)
    for name, child in other.items():
        merged[name] = merge(merged[name], child) if name in merged else child
    return merged


def subtract(tree: Tree, less: Tree) -> Tree:
    """`tree` without what is in `less`; a leaf of `less` takes the whole branch away."""
    if not less or not tree:
        return tree
    left: Tree = {}
    for name, child in tree.items():
        cut = less.get(name)
        if cut is None:
            left[name] = child
        elif cut:
            rest = subtract(child, cut)
            if rest and rest != {".": {}}:
                left[name] = rest
    return left


def intersect(one: Tree, other: Tree) -> Tree:
    both: Tree = {}
    for name, child in one.items():
        if name in other:
            shared = intersect(child, other[name])
            if shared or (not child and not other[name]):
                both[name] = shared
    return both


def tracked(obj: Object) -> Object:
    """The parts of an object whose fields have owners."""
    kept = {k: v for k, v in obj.items() if k not in {"kind", "apiVersion", "metadata"} and v != {}}
    hidden = UNTRACKED["metadata"]
    metadata = {k: v for k, v in obj.get("metadata", {}).items() if k not in hidden}
    return {"metadata": metadata, **kept} if metadata else kept


def entry_of(manager: str, operation: str, api_version: str, at: str, tree: Tree, subresource: str) -> Object:
    entry = {
        "manager": manager,
        "operation": operation,
        "apiVersion": api_version,
        "time": at,
        "fieldsType": "FieldsV1",
        "fieldsV1": tree,
    }
    return {**entry, "subresource": subresource} if subresource else entry


def ordered(entries: list[Object]) -> list[Object]:
    """Appliers first, then by time and manager, as the real server sorts them."""
    kept = [e for e in entries if e["fieldsV1"]]
    return sorted(kept, key=lambda e: (e["operation"] != "Apply", e["time"], e["manager"]))


def is_by(entry: Object, manager: str, operation: str, subresource: str) -> bool:
    found = (entry["manager"], entry["operation"], entry.get("subresource", ""))
    return found == (manager, operation, subresource)


def updated(old: Object | None, new: Object, manager: str, at: str, subresource: str = "") -> list[Object]:
    """The managedFields after `manager` wrote `new` over `old` (None: created): changed fields become its own."""
    entries: list[Object] = list(old["metadata"].get("managedFields", ())) if old else []
    changed, gone = changed_and_gone("", tracked(old) if old else {}, tracked(new))
    taken = merge(changed, gone)
    own: Tree = {}
    others = []
    for entry in entries:
        if is_by(entry, manager, "Update", subresource):
            own = entry["fieldsV1"]
        else:
            left = subtract(entry["fieldsV1"], taken)
            others.append(entry if left is entry["fieldsV1"] else {**entry, "fieldsV1": left})
    own = merge(subtract(own, gone), changed)
    return ordered([*others, entry_of(manager, "Update", new["apiVersion"], at, own, subresource)])
