"""Prometheus' text format: what is read, and what is left out without hurting the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain import exposition


class Everything:
    def __contains__(self, name: object) -> bool:
        return True


def read(page: str) -> list[tuple[str, dict[str, str] | None, str]]:
    return [(n, exposition.labels(text), value) for n, text, value in exposition.samples(page, Everything())]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("up 1", ("up", {}, "1")),
        ("up{} 1", ("up", {}, "1")),
        ('t{gpu="0", UUID="GPU-1"} 139', ("t", {"gpu": "0", "UUID": "GPU-1"}, "139")),
        ('t { gpu = "0" ,}  4.5 1700000000000', ("t", {"gpu": "0"}, "4.5")),
        ('t{a="x\\"y\\\\z\\nw"} 1', ("t", {"a": 'x"y\\z\nw'}, "1")),
        ('t{a="curly } and { , =",b=""} 1', ("t", {"a": "curly } and { , =", "b": ""}, "1")),
        ('t{a="b"}\t[N/A]\r', ("t", {"a": "b"}, "[N/A]")),
        ('t{a="b"} <<<NULL>>>', ("t", {"a": "b"}, "<<<NULL>>>")),
        ('t{a="b" c="d"} 1', ("t", None, "1")),
        ('t{a="unclosed} 1', ("t", None, "1")),
        ("t{a=b} 1", ("t", None, "1")),
        ('t{"a"="b"} 1', ("t", None, "1")),
    ],
)
def test_a_line(line: str, found: object) -> None:
    assert read(line) == [found]


@pytest.mark.parametrize("line", ["", "# HELP t text", "t", 't{a="b"}', 't{a="b"', "}{ 1x"])
def test_what_is_no_sample(line: str) -> None:
    assert read(line) in ([], [("", {}, "1x")])


def test_a_broken_line_leaves_the_others() -> None:
    page = 't{gpu="0"} 1\nt{gpu="1" 2\n\x00\xff\nt{gpu="2"} 3\n'
    assert [value for *_, value in read(page)] == ["1", "3"]


def test_only_wanted_metrics_come() -> None:
    assert [name for name, *_ in exposition.samples("a 1\nb 2\nc 3", {"b"})] == ["b"]


def test_a_page_is_bounded() -> None:
    assert sum(1 for _ in exposition.samples("a 1\n" * (exposition.MOST_SAMPLES + 5), {"a"})) == exposition.MOST_SAMPLES
    assert read(f't{{a="{"x" * exposition.LONGEST_LINE}"}} 1') == []


@given(st.text(max_size=400))
def test_nothing_raises(page: str) -> None:
    read(page)
    exposition.labels(page)
