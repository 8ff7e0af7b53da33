"""Template tags: the words of a panel as HTML, and the glyphs of `symbols.svg`.

Owns nothing but the bridge between templates and `dashboard.panels.words`.
"""

import functools
import time
from datetime import datetime
from typing import Any
from urllib.parse import quote

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.panels import words
from fleet.domain.picture import CELL_STATES

register = template.Library()


@register.simple_tag(takes_context=True)
def say(context: dict[str, Any], value: words.Value) -> SafeString:
    """The text in the page's language; ages are counted to the page's `now`."""
    return words.html(value, context["now"])


@register.simple_tag(takes_context=True)
def plain(context: dict[str, Any], value: words.Value) -> str:
    """The text without markup, for attributes and pictures; ages and times stand still there."""
    return words.plain(value, context["now"])


@register.simple_tag(takes_context=True)
def since(context: dict[str, Any], at: float) -> SafeString:
    """Since when the page has had no data."""
    now = context["now"]
    return words.html(words.say("fresh.since", time=words.Clock(at), age=words.age(now - at)), now)


@register.simple_tag
def word(key: str) -> SafeString:
    """A text of the table that has no values."""
    return words.html(words.say(key), 0)


@register.simple_tag
@functools.cache  # there are about twenty, and a map shows them a thousand times
def icon(name: str) -> SafeString:
    """A glyph; an empty name keeps its place in the markup for script to fill."""
    hidden = SafeString("") if name else SafeString(" hidden")
    return format_html('<svg class="ico" aria-hidden="true"{}><use href="#{}"/></svg>', hidden, name)


@functools.lru_cache(maxsize=10_000)
def _cells(letters: str) -> SafeString:
    return format_html_join("", '<i class="gpu" data-s="{}"{}></i>', (_cell(letter) for letter in letters))


def _cell(letter: str) -> tuple[str, SafeString]:
    return CELL_STATES[letter], format_html(' data-u="{}"', letter) if letter.isdigit() else SafeString("")


@register.simple_tag
def gpu_cells(letters: str) -> SafeString:
    """The cells of one node. Most nodes of a large fleet look alike, so what was made once is kept."""
    return _cells(letters)


@register.simple_tag(takes_context=True)
def node_url(context: dict[str, Any], name: str) -> str:
    """The address of a node's page: a map has thousands, so the resolver is asked once per page."""
    pattern: str = context["script"]["node_url"]
    return pattern.replace(context["script"]["placeholder"], quote(name, safe="~"))


@register.simple_tag(takes_context=True)
def gpu_url(context: dict[str, Any], key: str) -> str:
    """The address of a GPU's page, likewise."""
    pattern: str = context["script"]["gpu_url"]
    return pattern.replace(context["script"]["placeholder"], quote(key, safe="~"))


@register.simple_tag(takes_context=True)
def rollout_url(context: dict[str, Any], key: str) -> str:
    """The address of a rollout's page by its workload's key, whose slashes are those of the address."""
    pattern: str = context["script"]["rollout_url"]
    return pattern.replace(context["script"]["placeholder"], quote(key, safe="/~"))


@register.simple_tag(takes_context=True)
def training_url(context: dict[str, Any], key: str) -> str:
    """The address of a workload's checkpoints, likewise."""
    pattern: str = context["script"]["training_url"]
    return pattern.replace(context["script"]["placeholder"], quote(key, safe="/~"))


@register.simple_tag(takes_context=True)
def hour(context: dict[str, Any], at: float) -> str:
    """A time without markup, for where none may stand."""
    return words.clock(at, context["now"])


@register.filter
def plainly(value: words.Value) -> str:
    """The text without markup, for where none may stand; times as they are now."""
    return words.plain(value, time.time())


@register.filter
def clock(at: float) -> words.Clock:
    return words.Clock(at)


@register.filter
def moment(at: datetime) -> words.Clock:
    """A row's time, as an event's."""
    return words.Clock(float(int(at.timestamp())))


@register.filter
def age(at: float) -> words.Age:
    return words.Age(at)


@register.filter
def cell(row: Any, column: str) -> words.Value:
    """One column of a panel's table row."""
    value: words.Value = row.cells[column]
    return value


@register.filter
def small(row: Any, column: str) -> words.Text:
    """The second line of one column, "" when it has none."""
    value: words.Text = row.small.get(column, "")
    return value


@register.filter
def glyph(row: Any, column: str) -> str:
    """The glyph before the words of one column, "" for none."""
    value: str = row.marks.get(column, "")
    return value


@register.filter
def doing(entry: Any) -> words.Text:
    """What an entry of the attention list asks for, of whoever may."""
    return words.say(f"attention.do.{entry.does}", node=entry.node)


@register.filter
def leads(row: Any, column: str) -> str:
    """The node that the words of one column lead to, "" for none."""
    value: str = row.links.get(column, "")
    return value
