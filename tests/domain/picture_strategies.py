"""Snapshots for property tests, made from the types of the rows: also of rows that do not exist yet when this is written."""

import types
import typing
from functools import cache
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct, structs

from fleet.domain.picture import TABLES, Row, Snapshot

KEYS = ("lab/a", "lab/b", "node-01", "nœud", "Job/lab/t")
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: st.sampled_from(["", "a", "node-01", "nœud", "Job/lab/t"]),
    int: st.integers(0, 3),
    float: st.sampled_from([0.0, 0.125, 1796151600.25]),
    bool: st.booleans(),
    types.NoneType: st.none(),
}


@cache
def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    if kind in SIMPLE:
        return SIMPLE[kind]
    if isinstance(kind, type) and issubclass(kind, Struct):
        return st.builds(kind, **{field.name: values(field.type) for field in structs.fields(kind)})
    inner = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        if inner[-1] is Ellipsis:
            return st.lists(values(inner[0]), max_size=2).map(tuple)
        return st.tuples(*map(values, inner))
    return st.one_of(*map(values, inner))


@st.composite
def successors(draw: st.DrawFn, row: Row) -> Row:
    """The row with some fields changed, perhaps none."""
    fields = {field.name: field.type for field in structs.fields(row)}
    names = draw(st.lists(st.sampled_from(sorted(fields)), max_size=4, unique=True))
    return structs.replace(row, **{name: draw(values(fields[name])) for name in names})


@st.composite
def rows(draw: st.DrawFn, row_type: type[Row]) -> Row:
    """A row with its placing fields (`node`, `workload`) often set, and some others."""
    required = {field.name: draw(values(field.type)) for field in structs.fields(row_type) if field.required}
    placing = {name: draw(SIMPLE[str]) for name in ("node", "workload") if name in row_type.__struct_fields__}
    return draw(successors(row_type(**(required | placing))))


@st.composite
def tables(draw: st.DrawFn, row_type: type[Row]) -> tuple[dict[str, Row], dict[str, Row]]:
    """A table before and after: rows that stay, change, come and go."""
    old = {key: draw(rows(row_type)) for key in draw(st.lists(st.sampled_from(KEYS), max_size=3, unique=True))}
    new: dict[str, Row] = {}
    for key in draw(st.permutations(KEYS)):
        fate = draw(st.sampled_from(["same", "equal", "changed", "gone"]))
        if key in old and fate == "same":
            new[key] = old[key]
        elif key in old and fate == "equal":
            new[key] = structs.replace(old[key])
        elif key in old and fate == "changed":
            new[key] = draw(successors(old[key]))
        elif key not in old and fate == "changed":
            new[key] = draw(rows(row_type))
    return old, new


@st.composite
def transitions(draw: st.DrawFn) -> tuple[Snapshot, Snapshot]:
    """Two snapshots; most tables stay as they are."""
    changing = draw(st.lists(st.sampled_from(sorted(TABLES)), min_size=1, max_size=3, unique=True))
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {name: ({}, {}) for name in TABLES}
    for name in changing:
        found[name] = draw(tables(TABLES[name]))
    return Snapshot(**{k: v[0] for k, v in found.items()}), Snapshot(**{k: v[1] for k, v in found.items()})
