"""A site's policy: how much may be under maintenance at once, when, and where a second person is asked for.

Owns the TOML of the policy file, its defaults and its errors, which name the line. Must not read files or decide about an action:
`guards` does, with the policy as one of its facts.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Struct, field

from fleet.domain import grants
from fleet.domain.blue_green import SIDE_LABELS
from fleet.domain.grants import CheckpointRules, Grant

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
KINDS = (
    *("cordon", "uncordon", "drain", "maintain"),
    *("restart", "pause", "resume", "undo", "set-image", "scale"),
    *("switch", "way-back", "retire", "create-green"),
)


class PolicyError(ValueError):
    """What is wrong in a policy file, with its line: "line 12: …"."""


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the tables: an option that we do not know is an error, not a wish that is passed over."""


class Limits(Section, frozen=True):
    """How many nodes may be under maintenance at once, in one failure domain and in all; and when the breaker opens."""

    nodes: int = 3
    nodes_per_pool: int = 2
    nodes_per_zone: int = 2
    nodes_per_rack: int = 1
    unusable_share: float = 0.25  # of the GPU nodes: with so many out already, nothing more is taken out


class Deadlines(Section, frozen=True):
    """After so long a step ends as failed, in seconds. `remind_s`: how often a waiting reboot is told again."""

    drain_s: float = 3600.0
    reboot_s: float = 7200.0
    verify_s: float = 1800.0
    prove_s: float = 1800.0
    remind_s: float = 900.0
    rollout_s: float = 3600.0
    endpoints_s: float = 60.0
    save_s: float = 1800.0


class Reboot(Section, frozen=True):
    """How this site reboots a node by hand. `command`: what to type, with {node} for its name; "" the site has not said."""

    command: str = ""


class BlueGreen(Section, frozen=True):
    """`labels`: those that tell the sides of a Service apart here; `keep_s`: so long the old side stays for the way back."""

    labels: tuple[str, ...] = SIDE_LABELS
    keep_s: float = 30.0


class Pool(Section, frozen=True):
    floor_gpus: int = 0  # available GPUs that have to remain in the pool
    four_eyes: tuple[str, ...] = ()  # kinds of action that need a second person here


class Window(Section, frozen=True):
    """When maintenance may begin. With no window for a pool it may at any time."""

    start: time = field(name="from")
    end: time = field(name="to")
    days: tuple[str, ...] = DAYS
    pools: tuple[str, ...] = ()  # () all
    timezone: str = "UTC"

    def covers(self, at: float) -> bool:
        """Whether the window is open; one that ends before it begins ends on the next day."""
        local = datetime.fromtimestamp(at, ZoneInfo(self.timezone))
        day, now = local.weekday(), local.time()
        if self.start <= self.end:
            return DAYS[day] in self.days and self.start <= now < self.end
        return (DAYS[day] in self.days and now >= self.start) or (DAYS[day - 1] in self.days and now < self.end)


class Freeze(Section, frozen=True):
    """When nothing may be changed."""

    start: datetime = field(name="from")
    end: datetime = field(name="to")
    reason: str = ""
    pools: tuple[str, ...] = ()

    def covers(self, at: float) -> bool:
        return self.start <= datetime.fromtimestamp(at, UTC) < self.end


class Policy(Section, frozen=True):
    limits: Limits = Limits()
    deadlines: Deadlines = Deadlines()
    reboot: Reboot = Reboot()
    blue_green: BlueGreen = BlueGreen()
    four_eyes: tuple[str, ...] = ()  # kinds of action that need a second person everywhere
    pools: dict[str, Pool] = {}
    window: tuple[Window, ...] = ()
    freeze: tuple[Freeze, ...] = ()
    store: tuple[Grant, ...] = ()  # where checkpoints may be read
    checkpoints: CheckpointRules = CheckpointRules()

    def needs_second(self, kind: str, pool: str) -> bool:
        return kind in self.four_eyes or kind in self.pools.get(pool, Pool()).four_eyes

    def closed_window(self, pool: str, at: float) -> tuple[Window, ...]:
        """The windows of the pool when none of them is open; () when maintenance may begin."""
        mine = tuple(window for window in self.window if not window.pools or pool in window.pools)
        return () if any(window.covers(at) for window in mine) else mine

    def reboot_command(self, node: str) -> str:
        """What somebody types to reboot the node, "" when the site has not said."""
        return self.reboot.command.replace("{node}", node)

    def frozen(self, pool: str, at: float) -> Freeze | None:
        return next((f for f in self.freeze if (not f.pools or pool in f.pools) and f.covers(at)), None)


def policy(text: str) -> Policy:
    """The policy of a file's text. Raises PolicyError."""
    try:
        found = msgspec.convert(tomllib.loads(text), Policy)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(_toml_error(str(error))) from None
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        raise PolicyError(_at(text, _parts(place.rstrip("`")), message)) from None
    for path, message in _mistakes(found):
        raise PolicyError(_at(text, path, message))
    return found


Path = tuple[str | int, ...]


def _mistakes(found: Policy) -> Iterator[tuple[Path, str]]:
    """What types do not tell: every name and number that makes no sense."""
    yield from _unknown_kinds(("four_eyes",), found.four_eyes)
    for name, pool in found.pools.items():
        yield from _unknown_kinds(("pools", name, "four_eyes"), pool.four_eyes)
        if pool.floor_gpus < 0:
            yield ("pools", name, "floor_gpus"), "has to be 0 or more"
    for table in ("limits", "deadlines"):
        section = getattr(found, table)
        yield from (
            ((table, name), "has to be more than 0")
            for name in section.__struct_fields__
            if getattr(section, name) <= 0
        )
    if found.blue_green.keep_s < 0:
        yield ("blue_green", "keep_s"), "has to be 0 or more"
    if found.reboot.command and "{node}" not in found.reboot.command:
        yield ("reboot", "command"), "has to name the node: {node}"
    if found.limits.unusable_share > 1:
        yield ("limits", "unusable_share"), "is a share: at most 1"
    for n, window in enumerate(found.window):
        yield from _window_mistakes(("window", n), window)
    for n, freeze in enumerate(found.freeze):
        yield from _freeze_mistakes(("freeze", n), freeze)
    yield from grants.mistakes(found.store, found.checkpoints)


def _unknown_kinds(path: Path, names: Iterable[str]) -> Iterator[tuple[Path, str]]:
    return ((path, f"{name!r} is no kind of action: {', '.join(KINDS)}") for name in names if name not in KINDS)


def _window_mistakes(path: Path, window: Window) -> Iterator[tuple[Path, str]]:
    yield from (((*path, "days"), f"{day!r} is no day: {', '.join(DAYS)}") for day in window.days if day not in DAYS)
    if not _zone_exists(window.timezone):
        yield (*path, "timezone"), f"{window.timezone!r} is no time zone"


def _freeze_mistakes(path: Path, freeze: Freeze) -> Iterator[tuple[Path, str]]:
    if freeze.start.tzinfo is None or freeze.end.tzinfo is None:
        yield (*path, "from"), "needs an offset, such as 2026-12-20T00:00:00Z"
    elif freeze.start >= freeze.end:
        yield (*path, "to"), "has to be later than from"


def _zone_exists(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _toml_error(message: str) -> str:
    found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", message)
    return f"line {found[2]}: {found[1]}" if found else f"the last line: {message}"


def _parts(path: str) -> Path:
    """ ".window[1].from" as ("window", 1, "from"); "[...]" stands for a key that msgspec does not name."""
    return tuple(
        int(index) if index else name
        for name, index in re.findall(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]", path)
        if index != "..."
    )


def _at(text: str, path: Path, message: str) -> str:
    """The message with the line on which the thing at `path` is written, or where its table begins."""
    unknown = re.search(r"unknown field `(.+?)`", message)
    keys = (*path, unknown[1]) if unknown else path
    line = _line(text.splitlines(), keys)
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in keys).lstrip(".")
    where = f"line {line}: " if line else ""
    return f"{where}{shown}: {message[:1].lower()}{message[1:]}" if shown else f"{where}{message}"


def _line(lines: list[str], path: Path) -> int | None:
    """Counted from 1. Follows table headers to the last one that is part of the path, then the key in it."""
    names = [str(part) for part in path if isinstance(part, str)]
    skip = next((part for part in path if isinstance(part, int)), 0)
    current: list[str] = []
    best: int | None = None
    seen = 0
    for number, line in enumerate(lines, 1):
        header = re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line)
        if header:
            current = [part.strip().strip("\"'") for part in header[1].split(".")]
            if current == names[: len(current)]:
                if seen == skip:
                    best = number
                seen += line.lstrip().startswith("[[")
            continue
        key = re.match(r"\s*([\w\".'-]+)\s*=", line)
        if key and [*current, *(p.strip("\"'") for p in key[1].split("."))] == names and seen in {0, skip + 1}:
            return number
    return best
