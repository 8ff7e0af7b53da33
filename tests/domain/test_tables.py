"""Tables that know whether they changed, and joins."""

from fleet.domain.picture import PodRow
from fleet.domain.tables import Join, Table


def row(name: str, gpus: int = 0) -> PodRow:
    return PodRow(uid="", namespace="lab", name=name, gpus=gpus)


def test_an_equal_row_changes_nothing() -> None:
    table = Table[PodRow]()
    assert table.put("a", row("a"))
    before = table.frozen()
    assert not table.put("a", row("a"))
    assert not table.put("b", None)
    assert table.frozen() is before


def test_what_was_frozen_stays_as_it_was() -> None:
    table = Table[PodRow]()
    table.put("a", row("a"))
    before = table.frozen()
    assert table.put("a", row("a", 1))
    assert table.put("b", row("b"))
    assert before == {"a": row("a")}
    assert table.frozen() == {"a": row("a", 1), "b": row("b")}
    assert table.put("a", None)
    assert table.frozen() == {"b": row("b")}


def test_replacing_keeps_rows_that_are_equal() -> None:
    table = Table[PodRow]()
    kept = row("a")
    table.replace({"a": kept, "b": row("b")})
    before = table.frozen()
    table.replace({"a": row("a"), "b": row("b")})
    assert table.frozen() is before
    table.replace({"a": row("a"), "c": row("c")})
    assert table.frozen() == {"a": row("a"), "c": row("c")}
    assert table.frozen()["a"] is kept


def test_replacing_in_another_order_is_a_change() -> None:
    table = Table[PodRow]()
    table.replace({"a": row("a"), "b": row("b")})
    table.replace({"b": row("b"), "a": row("a")})
    assert list(table.frozen()) == ["b", "a"]


def test_a_member_moves_between_groups() -> None:
    join = Join[str]()
    join.put("p1", ("n1",))
    join.put("p2", ("n1", "n2"))
    assert set(join.members("n1")) == {"p1", "p2"}
    join.put("p1", ("n2",))
    assert (set(join.members("n1")), set(join.members("n2"))) == ({"p2"}, {"p1", "p2"})
    join.put("p2", ())
    join.put("p3", ())
    assert join.groups == {"n2": {"p1"}}
