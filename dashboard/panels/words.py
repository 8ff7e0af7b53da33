"""Every sentence that server and browser both say: one table of patterns, and how a pattern becomes text.

Owns the patterns, plurals, numbers, ages and clock times of live text. The browser gets the same table in the page's language
(`catalogue()`) and fills it with the same rules (`frontend/static/js/words.js`); `tests/data/panels` holds both to the same text.
Must not know rows, pages or people. Text that never changes after loading is not in here but in the templates.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext_noop
from django.utils.translation import gettext as translate
from django.utils.translation import ngettext as translate_many

from dashboard.panels.patterns import MESSAGES
from dashboard.panels.plurals import Many

SEPARATOR = " · "
# Said by pages that script does not put into words
SERVER_ONLY = (
    "help.", "search.", "plot.", "past.", "closes.", "avail.", "step.", "guard.", "remedy.", "act.", "measure.",
    "readiness", "ckpt.", "advice.", "lifeline.", "rollout.", "revision.", "way.", "strategy.", "pair.",
    "cadence.", "notice.", "cadence-number.", "table.cadence-", "column.cadence-",
)  # fmt: skip
_HOLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Age:
    """How long ago `at` (seconds since 1970) was: ticks in the page, so never part of a comparison."""

    at: float


@dataclass(frozen=True, slots=True)
class Clock:
    """The time of an event, 24 h, in the reader's zone; `at` in seconds since 1970."""

    at: float


@dataclass(frozen=True, slots=True)
class Say:
    """A pattern of `MESSAGES` and the values for its holes; the value `n` chooses between singular and plural."""

    key: str
    values: Mapping[str, "Value"]

    def __hash__(self) -> int:
        return hash((self.key, frozenset(self.values.items())))


Text = str | Say | tuple[Any, ...]  # a tuple's texts stand side by side; empty ones vanish
Value = Text | int | Age | Clock | None  # None: unknown


def say(key: str, **values: Value) -> Say:
    return Say(key, values)


def plain(value: Value, now: float) -> str:
    """The text alone. `now`: seconds since 1970, for ages and for whether a time is today's."""
    return "".join(piece if isinstance(piece, str) else spoken(piece, now) for piece in pieces(value))


def html(value: Value, now: float) -> SafeString:
    """The text as HTML: everything escaped, ages and times as <time> elements that script keeps up to date."""
    settled = _settled(value, get_language())
    if settled is not None:
        return settled
    return mark_safe("".join(_markup(piece, now) for piece in pieces(value)))  # noqa: S308 - each piece is escaped below


@functools.lru_cache(maxsize=10_000)
def _settled(value: Value, language: str | None) -> SafeString | None:  # noqa: ARG001 - which is the active one
    """The HTML of a text without times, else None. A large map says the same of many nodes, and again on every page."""
    found = list(pieces(value))
    return escape("".join(map(str, found))) if all(isinstance(piece, str) for piece in found) else None


def _markup(piece: str | Age | Clock, now: float) -> str:
    if isinstance(piece, str):
        return escape(piece)
    stamp = datetime.fromtimestamp(piece.at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    hook = "age" if isinstance(piece, Age) else "clock"
    words = spoken(piece, now)
    return format_html('<time datetime="{}" data-live-{}="{}">{}</time>', stamp, hook, seconds(piece.at), words)


def seconds(at: float) -> str:
    """Seconds as JavaScript writes the same number, so that server and browser agree on what changed."""
    return str(int(at)) if at == int(at) else repr(at)


def pieces(value: Value) -> Iterator[str | Age | Clock]:
    """The text as runs of characters and times, in order."""
    if isinstance(value, Age | Clock):
        yield value
    elif isinstance(value, Say):
        yield from _filled(value)
    elif isinstance(value, tuple):
        for i, part in enumerate(part for part in value if part not in ("", None, ())):
            yield from ((SEPARATOR,) if i else ())
            yield from pieces(part)
    elif isinstance(value, str):
        yield value
    else:
        yield translate(MARKS["unknown"]) if value is None else number(value)


def _filled(message: Say) -> Iterator[str | Age | Clock]:
    parts = _HOLE.split(pattern(message))
    for i, part in enumerate(parts):
        if i % 2:
            yield from pieces(message.values[part])
        elif part:
            yield part


def pattern(message: Say) -> str:
    """The pattern in the active language. Raises KeyError for a message that the table lacks."""
    found = MESSAGES[message.key]
    if isinstance(found, Many):
        n = message.values["n"]
        return translate_many(found.one, found.other, n if isinstance(n, int) else 2)
    return translate(found)


def number(value: int) -> str:
    """Digits in groups of three, as the language writes them."""
    if -1_000 < value < 1_000:
        return str(value)
    return f"{value:,}".replace(",", translate(MARKS["thousand"]))


def spoken(piece: Age | Clock, now: float) -> str:
    return age(now - piece.at) if isinstance(piece, Age) else clock(piece.at, now)


def age(seconds: float) -> str:
    """One unit, two for hours: what changes at a glance. Never negative: clocks of different machines differ."""
    whole = max(0, int(seconds))
    if whole < 60:
        return plain(say("age.s", n=whole), 0)
    if whole < 3_600:
        return plain(say("age.min", n=whole // 60), 0)
    if whole < 86_400:
        return plain(say("age.h", n=whole // 3_600, min=f"{whole % 3_600 // 60:02}"), 0)
    return plain(say("age.d", n=whole // 86_400), 0)


def clock(at: float, now: float) -> str:
    """Today: 03:09:14. This year: 25 Feb 03:09. Before: 25 Feb 2025."""
    then, today = (timezone.localtime(datetime.fromtimestamp(s, tz=UTC)) for s in (at, now))
    if then.date() == today.date():
        return f"{then:%H:%M:%S}"
    date = {"day": str(then.day), "month": translate(MARKS["months"]).split()[then.month - 1]}
    if then.year == today.year:
        return plain(Say("clock.day", date | {"time": f"{then:%H:%M}"}), 0)
    return plain(Say("clock.year", date | {"year": str(then.year)}), 0)


MARKS = {
    # Translators: what stands between groups of three digits
    "thousand": gettext_noop(","),
    "months": gettext_noop("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
    "unknown": gettext_noop("unknown"),
}


def catalogue() -> dict[str, str | list[str]]:
    """Everything that the browser needs to say the same, in the active language: pattern, or [singular, plural]."""
    words: dict[str, str | list[str]] = {key: translate(mark) for key, mark in MARKS.items()}
    for key, found in MESSAGES.items():
        if key.startswith(SERVER_ONLY):
            continue
        if isinstance(found, Many):
            words[key] = [translate_many(found.one, found.other, n) for n in (1, 2)]
        else:
            words[key] = translate(found)
    return words
