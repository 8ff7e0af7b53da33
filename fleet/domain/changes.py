"""What screens see of a change: versions, deltas between two snapshots, and the part of both that one screen needs.

Owns the wire contract between the watch worker and every browser: `apply(old, diff(old, new)) == new`. Rows are at display
precision already, so whatever differs is visible. Must not know sockets, stores or who looks.

A delta travels as columns: rows that changed in the same fields form a group of ids and, per field, the values in the order of
the ids. A row that is new to the receiver carries every field.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import compress
from operator import is_, is_not
from typing import Any

import msgspec
from msgspec import Struct, structs

from fleet.domain.occurrences import workload_of
from fleet.domain.picture import TABLES, AttentionRow, EventRow, GpuRow, NodeRow, PodRow, Row, Snapshot

Tables = Mapping[str, Mapping[str, Row]]
Placed = Mapping[str, PodRow] | Mapping[str, AttentionRow] | Mapping[str, EventRow] | Mapping[str, GpuRow]


class Version(Struct, frozen=True, order=True):
    """Which picture: each new writer takes a new epoch, n counts its deltas."""

    epoch: int
    n: int


class Group(Struct, frozen=True):
    """Rows that changed in the same fields: `set[field][i]` is the new value of row `ids[i]`."""

    ids: tuple[str, ...]
    set: dict[str, list[Any]]


class TableDelta(Struct, frozen=True):
    groups: tuple[Group, ...] = ()
    gone: tuple[str, ...] = ()


class Delta(Struct, frozen=True):
    """What changed, by table; tables without a change are absent."""

    tables: dict[str, TableDelta]


class Screen(StrEnum):
    FLEET = "fleet"
    NODE = "node"
    WORKLOADS = "workloads"
    WAITING = "waiting"
    ROLLOUTS = "rollouts"
    ROLLOUT = "rollout"  # of one workload
    WALL = "wall"
    CLUSTERS = "clusters"  # the totals of every cluster, each with a version of its own
    EVERYTHING = "everything"  # what programs follow


class View(Struct, frozen=True):
    """What one page shows; `node` for the screen of one node, `workload` (a key of the table) for that of one rollout."""

    screen: Screen
    node: str = ""
    workload: str = ""


# The tables of each screen that come whole; the screens of one node and of one rollout have parts of tables only.
WHOLE: Mapping[Screen, tuple[str, ...]] = {
    Screen.FLEET: ("fleet", "products", "nodes", "attention"),
    Screen.NODE: (),
    Screen.WORKLOADS: ("fleet", "workloads", "attention", "checkpoints"),
    Screen.WAITING: ("fleet", "products", "nodes"),  # and the pods that want GPUs and have no node
    Screen.ROLLOUTS: ("fleet", "workloads", "rollouts"),
    Screen.ROLLOUT: ("fleet",),  # and what is about its workload
    Screen.WALL: ("fleet", "products", "nodes", "attention"),  # without the names of people
    Screen.CLUSTERS: ("fleet", "attention"),
    Screen.EVERYTHING: tuple(TABLES),
}


def diff(old: Snapshot, new: Snapshot) -> Delta | None:
    """What leads from `old` to `new`; None when no screen would show a difference."""
    tables = {name: _table_diff(getattr(old, name), getattr(new, name)) for name in TABLES}
    changed = {name: delta for name, delta in tables.items() if delta.groups or delta.gone}
    return Delta(changed) if changed else None


def apply(old: Snapshot, *deltas: Delta) -> Snapshot:
    """The snapshot that `deltas` lead to, one after another. Raises ValueError when one does not fit (it was made for another
    snapshot). A table is copied once, however many change it."""
    tables: dict[str, dict[str, Row]] = {}
    for delta in deltas:
        if unknown := delta.tables.keys() - TABLES.keys():
            raise ValueError(f"delta for unknown tables {sorted(unknown)}")
        for name, found in delta.tables.items():
            if name not in tables:
                tables[name] = dict(getattr(old, name))
            _change(tables[name], TABLES[name], found)
    return structs.replace(old, **tables)


def rows(snapshot: Snapshot, view: View) -> dict[str, dict[str, Row]]:
    """The rows that a screen needs, by table; every table of the view is there, also when it is empty."""
    if view.screen is Screen.NODE:
        return _node_rows(snapshot, view.node)
    found: dict[str, dict[str, Row]] = {name: dict(getattr(snapshot, name)) for name in WHOLE[view.screen]}
    if view.screen is Screen.WAITING:
        found["pods"] = {key: pod for key, pod in snapshot.pods.items() if waits(pod)}
    if view.screen is Screen.ROLLOUT:
        found |= _rollout_rows(snapshot, view.workload)
    if view.screen is Screen.WALL:
        return {name: {key: nameless(row) for key, row in table.items()} for name, table in found.items()}
    return found


def filtered(delta: Delta, view: View, old: Snapshot, new: Snapshot) -> Delta | None:
    """The part of `delta` (which leads from `old` to `new`) that leads from `rows(old, view)` to `rows(new, view)`.

    A row that enters the view (a pod that gets bound to its node) comes whole; one that leaves it is gone.
    """
    if view.screen is Screen.NODE:
        tables = _node_tables(delta, view.node, old, new)
    else:
        tables = {name: found for name, found in delta.tables.items() if name in WHOLE[view.screen]}
    if view.screen is Screen.WAITING:
        tables["pods"] = _waiting_part(_touched(delta, "pods"), old.pods, new.pods)
    if view.screen is Screen.ROLLOUT:
        tables |= _rollout_tables(delta, view.workload, old, new)
    if view.screen is Screen.WALL:
        tables = {name: _nameless_delta(found) for name, found in tables.items()}
    tables = {name: part for name, part in tables.items() if part.groups or part.gone}
    return Delta(tables) if tables else None


def waits(pod: PodRow) -> bool:
    """Whether a pod still wants GPUs and has no node; as `capacity.waiting`, from its row."""
    return not pod.node and pod.gpus > 0 and pod.terminating_at is None


def here(row: PodRow | AttentionRow | EventRow | GpuRow, node: str) -> bool:
    """Whether a row is about a node, by itself or among several."""
    return row.node == node or (isinstance(row, AttentionRow) and node in row.nodes)


def nameless(row: Row) -> Row:
    """The row without what may name a person: who cordoned a node is the name of their client or their account."""
    match row:
        case NodeRow(cordoned_by=name) if name:
            return structs.replace(row, cordoned_by="")
        case AttentionRow(facts=facts) if any(fact[0] == "by" for fact in facts):
            return structs.replace(row, facts=_nameless_facts(facts))
    return row


def encode(value: Delta | Tables) -> bytes:
    """JSON as it goes over the socket: of a delta, or of the tables of a view."""
    return _ENCODER.encode(value)


def decode(data: bytes) -> Delta:
    """A delta from its JSON. Raises ValueError."""
    return _DECODER.decode(data)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Delta)


def _table_diff(old: Mapping[str, Row], new: Mapping[str, Row]) -> TableDelta:
    if old is new:
        return TableDelta()
    changed = _differing(old, new)
    added = sum(key not in old for key in changed)
    gone = old.keys() - new.keys() if len(old) + added != len(new) else ()
    return TableDelta(_groups(changed, old, new), tuple(sorted(gone)))


def _differing(old: Mapping[str, Row], new: Mapping[str, Row]) -> list[str]:
    """Keys of `new` whose rows are not the very same objects in `old`. Loops in C: a large table has 30,000 rows."""
    if len(old) == len(new) and all(map(is_, old, new)):  # nothing came or went: no key needs to be looked up
        return list(compress(new, map(is_not, old.values(), new.values())))
    return list(compress(new, map(is_not, map(old.get, new), new.values())))


def _groups(keys: Iterable[str], old: Mapping[str, Row], new: Mapping[str, Row]) -> tuple[Group, ...]:
    """The rows `keys` of `new` as columns, each with the fields in which it differs from `old`."""
    by_fields: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for key in keys:
        fields = _changed_fields(old.get(key), new[key])
        if fields:
            by_fields[fields].append(key)
    return tuple(_group(fields, sorted(by_fields[fields]), new) for fields in sorted(by_fields))


def _group(fields: tuple[str, ...], keys: list[str], table: Mapping[str, Row]) -> Group:
    found = [table[key] for key in keys]
    return Group(tuple(keys), {field: [getattr(row, field) for row in found] for field in fields})


def _changed_fields(old: Row | None, new: Row) -> tuple[str, ...]:
    fields = new.__struct_fields__
    if old is None:
        return fields
    return tuple(field for field in fields if getattr(old, field) != getattr(new, field))


def _change(table: dict[str, Row], row_type: type[Row], delta: TableDelta) -> None:
    for key in delta.gone:
        table.pop(key, None)
    for group in delta.groups:
        for key, values in _rows_of(group):
            table[key] = _row_applied(row_type, table.get(key), key, values)


def _rows_of(group: Group) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, *values in zip(group.ids, *group.set.values(), strict=True):
        yield key, dict(zip(group.set, values, strict=True))


def _row_applied(row_type: type[Row], old: Row | None, key: str, values: dict[str, Any]) -> Row:
    """The row with its new values, which may be the structs of this process or what JSON made of them."""
    if old is None and len(values) < len(row_type.__struct_fields__):
        raise ValueError(f"delta changes {key!r}, which is not in the table")
    known = structs.asdict(old) if old is not None else {}
    return msgspec.convert(known | values, row_type)


def _nameless_facts(facts: Iterable[Any]) -> tuple[Any, ...]:
    return tuple((name, None if name == "by" else value) for name, value in facts)


def _nameless_delta(delta: TableDelta) -> TableDelta:
    """A change of nothing but a name is no change."""
    groups = tuple(_nameless_group(group) for group in delta.groups if set(group.set) != {"cordoned_by"})
    return TableDelta(groups, delta.gone)


def _nameless_group(group: Group) -> Group:
    columns = dict(group.set)
    if "cordoned_by" in columns:
        columns["cordoned_by"] = [""] * len(group.ids)
    if "facts" in columns:
        columns["facts"] = [_nameless_facts(facts) for facts in columns["facts"]]
    return Group(group.ids, columns)


def _waiting_part(keys: Collection[str], old: Mapping[str, PodRow], new: Mapping[str, PodRow]) -> TableDelta:
    before = {key for key in keys if key in old and waits(old[key])}
    after = {key for key in keys if key in new and waits(new[key])}
    return _part(keys, old, new, before, after)


def _rollout_rows(snapshot: Snapshot, workload: str) -> dict[str, dict[str, Row]]:
    return {
        "pods": {key: pod for key, pod in snapshot.pods.items() if pod.workload == workload},
        "workloads": {key: row for key, row in snapshot.workloads.items() if key == workload},
        "rollouts": {key: row for key, row in snapshot.rollouts.items() if key == workload},
        "attention": {key: row for key, row in snapshot.attention.items() if row.subject == workload},
        "events": {key: row for key, row in snapshot.events.items() if workload_of(row) == workload},
    }


def _rollout_tables(delta: Delta, workload: str, old: Snapshot, new: Snapshot) -> dict[str, TableDelta]:
    pods, concerns, events = _touched(delta, "pods"), _touched(delta, "attention"), _touched(delta, "events")

    def its_events(table: Mapping[str, EventRow]) -> set[str]:
        return {key for key in events if key in table and workload_of(table[key]) == workload}

    def its_pods(table: Mapping[str, PodRow]) -> set[str]:
        return {key for key in pods if key in table and table[key].workload == workload}

    def its_concerns(table: Mapping[str, AttentionRow]) -> set[str]:
        return {key for key in concerns if key in table and table[key].subject == workload}

    return {
        "pods": _part(pods, old.pods, new.pods, its_pods(old.pods), its_pods(new.pods)),
        "workloads": _part(_touched(delta, "workloads"), old.workloads, new.workloads, {workload}, {workload}),
        "rollouts": _part(_touched(delta, "rollouts"), old.rollouts, new.rollouts, {workload}, {workload}),
        "attention": _part(
            concerns, old.attention, new.attention, its_concerns(old.attention), its_concerns(new.attention)
        ),
        "events": _part(events, old.events, new.events, its_events(old.events), its_events(new.events)),
    }


def _node_rows(snapshot: Snapshot, node: str) -> dict[str, dict[str, Row]]:
    pods = {key: pod for key, pod in snapshot.pods.items() if pod.node == node}
    owners = sorted(_owners_on(node, snapshot))
    return {
        "fleet": dict(snapshot.fleet),
        "nodes": {key: row for key, row in snapshot.nodes.items() if key == node},
        "pods": dict(pods),
        "workloads": {key: snapshot.workloads[key] for key in owners if key in snapshot.workloads},
        "checkpoints": {key: snapshot.checkpoints[key] for key in owners if key in snapshot.checkpoints},
        "attention": {key: row for key, row in snapshot.attention.items() if here(row, node)},
        "labels": {key: row for key, row in snapshot.labels.items() if key == node},
        "events": {key: row for key, row in snapshot.events.items() if row.node == node},
        "gpus": {key: row for key, row in snapshot.gpus.items() if row.node == node},
    }


def _node_tables(delta: Delta, node: str, old: Snapshot, new: Snapshot) -> dict[str, TableDelta]:
    touched = {name: _touched(delta, name) for name in TABLES}
    return {
        "fleet": delta.tables.get("fleet", TableDelta()),
        "nodes": _part(touched["nodes"], old.nodes, new.nodes, {node}, {node}),
        "pods": _placed_part(node, touched["pods"], old.pods, new.pods),
        "workloads": _owned_part(node, touched, "workloads", old, new),
        "checkpoints": _owned_part(node, touched, "checkpoints", old, new),
        "attention": _placed_part(node, touched["attention"], old.attention, new.attention),
        "labels": _part(touched["labels"], old.labels, new.labels, {node}, {node}),
        "events": _placed_part(node, touched["events"], old.events, new.events),
        "gpus": _placed_part(node, touched["gpus"], old.gpus, new.gpus),
    }


def _touched(delta: Delta, table: str) -> set[str]:
    found = delta.tables.get(table, TableDelta())
    return {key for group in found.groups for key in group.ids} | set(found.gone)


def _placed_part(node: str, keys: Collection[str], old: Placed, new: Placed) -> TableDelta:
    return _part(keys, old, new, _placed_on(node, keys, old), _placed_on(node, keys, new))


def _placed_on(node: str, keys: Iterable[str], table: Placed) -> set[str]:
    return {key for key in keys if key in table and here(table[key], node)}


def _owned_part(node: str, touched: Mapping[str, set[str]], table: str, old: Snapshot, new: Snapshot) -> TableDelta:
    """What is known of workloads enters and leaves the view with their pods here, so its own changes alone do not tell."""
    before = _owners(old.pods, _placed_on(node, touched["pods"], old.pods))
    after = _owners(new.pods, _placed_on(node, touched["pods"], new.pods))
    keys = touched[table] | before | after
    if not keys:
        return TableDelta()
    return _part(keys, getattr(old, table), getattr(new, table), _owners_on(node, old), _owners_on(node, new))


def _owners_on(node: str, snapshot: Snapshot) -> set[str]:
    return _owners(snapshot.pods, (key for key, pod in snapshot.pods.items() if pod.node == node))


def _owners(pods: Mapping[str, PodRow], keys: Iterable[str]) -> set[str]:
    """The keys of their workloads; a pod of nobody trains under its own."""
    return {pods[key].workload or f"Pod/{key}" for key in keys}


def _part(
    keys: Iterable[str], old: Mapping[str, Row], new: Mapping[str, Row], before: Collection[str], after: Collection[str]
) -> TableDelta:
    """The delta of the rows `keys` between what a view held (`before`) and what it holds now (`after`)."""
    shown = {key: old[key] for key in keys if key in before and key in old}
    wanted = {key: new[key] for key in keys if key in after and key in new}
    return _table_diff(shown, wanted)
