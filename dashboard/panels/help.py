"""The Help page: every state, level, kind of attention, label and key, from the tables that the code itself uses.

Owns the order of the page and, in `patterns.py`, one sentence per entry. Must not list anything that does not exist.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dashboard.panels import fleet
from dashboard.panels.words import Text, say
from fleet.domain import attention, capacity, machines, workloads


@dataclass(frozen=True, slots=True)
class Entry:
    """A cell's state or a glyph, what it is called, and what it means."""

    name: Text
    meaning: Text
    state: str = ""
    level: str = ""
    glyph: str = ""
    labels: tuple[str, ...] = ()


LEVELS = (
    ("bad", "s-bad"),
    ("warn", "s-warn"),
    ("drain", "s-drain"),
    ("off", "s-off"),
    ("silent", "s-unknown"),
    ("note", "s-info"),
)
FRESHNESS = ("live", "late", "lost")
LABELS: dict[str, tuple[str, ...]] = {
    "pool": (*machines.POOL, f"{machines.ROLE_PREFIX}…"),
    "zone": machines.ZONE,
    "product": machines.PRODUCT,
    "machine": machines.MACHINE,
    "physical": machines.PHYSICAL,
    "shares": ("nvidia.com/gpu.replicas", machines.SHARES_GKE),
    "memory": ("nvidia.com/gpu.memory",),
    "driver": ("nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.driver.major"),
    "cuda": ("nvidia.com/cuda.runtime-version.full", "nvidia.com/cuda.runtime.major"),
    "team": machines.TEAM,
    "revision": (workloads.REVISION,),
    "closed": (capacity.UNSCHEDULABLE_TAINT,),
}
KEYS = ("/", "Tab", "← → ↑ ↓", "Enter", "Esc")


def states() -> list[Entry]:
    return [Entry(say(f"state.{state}"), say(f"help.state.{state}"), state=state) for state in fleet.STATES]


def levels() -> list[Entry]:
    return [
        Entry(
            say(f"help.level.{name}"), say(f"help.means.{name}"), level="off" if name == "silent" else name, glyph=glyph
        )
        for name, glyph in LEVELS
    ]


def concerns() -> list[Entry]:
    """In the order of their rank."""
    return [
        Entry(concern.value, say(f"help.concern.{concern}"), level=level, glyph=fleet.GLYPHS.get(level, "s-info"))
        for concern in attention.Concern
        for level in (attention.LEVELS[concern],)
    ]


def freshness() -> list[Entry]:
    return [
        Entry(say(f"fresh.{state}" if state != "lost" else "fresh.stale"), say(f"help.fresh.{state}"))
        for state in FRESHNESS
    ]


def labels() -> list[Entry]:
    return [Entry(say(f"help.label.{name}"), "", labels=found) for name, found in LABELS.items()]


def keys() -> list[Entry]:
    return [Entry(key, say(f"help.key.{i}")) for i, key in enumerate(KEYS)]


def sections() -> Iterable[tuple[str, list[Entry]]]:
    return (
        ("states", states()),
        ("levels", levels()),
        ("concerns", concerns()),
        ("freshness", freshness()),
        ("labels", labels()),
        ("keys", keys()),
    )
