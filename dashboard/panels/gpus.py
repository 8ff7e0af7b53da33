"""GPUs one by one: the table of the Node page, and what is measured of one GPU on its own page.

Owns which facts of a GPU's row are shown where. A number, not applicable and unknown are three different words, and none of them
is 0. Must not hold wording (gpu_patterns.py) or decide how a GPU is: the domain does.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from dashboard.panels.charts import BLANK, Trend
from dashboard.panels.order import natural
from dashboard.panels.tables import Column, Row, Table
from dashboard.panels.words import Age, Text, Value, say
from fleet.domain import gpu_rows
from fleet.domain.gpus import NA, DeviceState, Measure
from fleet.domain.picture import CELL_STATES, GpuRow, NodeRow

GIB = 1_024
SILENT = (DeviceState.LOST, DeviceState.UNKNOWN)  # states in which it does not answer
MEASURED = (
    "utilization_pct",
    "memory_used_mib",
    "temperature_c",
    "power_w",
    "sm_clock_mhz",
    "ecc_corrected",
    "ecc_uncorrected",
)
SHORT_UUID = 12  # "GPU-5fd4f087": enough to tell the GPUs of a fleet apart

GPUS: Final = (
    Column("gpu", small=True, gpu=True, link=True, to_gpu=True),
    Column("gpu-state", "state", small=True),
    Column("trend", "trend two", trend=True),
    Column("now", "num", quiet=True),
    Column("memory", "num", quiet=True),
    Column("temperature", "num", quiet=True),
    Column("power", "num", quiet=True),
    Column("ecc", "num", small=True),
    Column("clocks", quiet=True),
    Column("used-by", "all", small=True),
)


def table(rows: Iterable[GpuRow], node: NodeRow, trends: Mapping[str, Trend] | None = None) -> Table:
    """The GPUs of a node. `trends`: utilisation over the last hour, by the key of the row."""
    known = trends or {}
    return Table("gpus", GPUS, [_row(row, node, known.get(key(row), BLANK)) for row in ordered(rows)], "tri pair")


def ordered(rows: Iterable[GpuRow]) -> list[GpuRow]:
    return sorted(rows, key=lambda row: (row.index, natural(key(row))))


def key(row: GpuRow) -> str:
    """The name of its page: the UUID, or the node and the slot while the driver does not say it."""
    return row.uuid or f"{row.node}/{row.pci}"


def _row(row: GpuRow, node: NodeRow, trend: Trend) -> Row:
    now = current(row)
    cells: dict[str, Value] = {
        "gpu": say("gpu.index", index=row.index),
        "gpu-state": state(row, node),
        "trend": "",
        "now": percent(now.utilization_pct),
        "memory": memory(now.memory_used_mib, now.memory_total_mib),
        "temperature": unit("gpu.c", now.temperature_c),
        "power": power(now),
        "ecc": pair(now.ecc_corrected, now.ecc_uncorrected),
        "clocks": clocks(now),
        "used-by": users(row),
    }
    small: dict[str, Text] = {
        "gpu": short(row),
        "gpu-state": (why(row), _since(row)),
        "ecc": remap(now),
        "used-by": _also(row),
    }
    nil = tuple(name for name, told in _something(now).items() if not told)
    return Row(key(row), row.level, cells, small, {"gpu": key(row)}, nil=nil, gpu=cell(row, node), trend=trend)


def current(row: GpuRow) -> GpuRow:
    """The row without measurements that are not of now: a GPU that does not answer keeps its last good ones, with their age."""
    if row.state not in SILENT:
        return row
    return msgspec.structs.replace(row, clock_reasons=(), remap=(None, None, None, None), **dict.fromkeys(MEASURED))


def _something(row: GpuRow) -> dict[str, object]:
    return {"ecc": row.ecc_corrected or row.ecc_uncorrected or remap(row), "clocks": row.clock_reasons}


def cell(row: GpuRow, node: NodeRow) -> tuple[str, str]:
    """Its cell on the map: state and fifths of utilisation ("" for a state without). On a closed node nothing is free."""
    letter = gpu_rows.cell(row, held(row))
    if letter == "f" and not node.usable:
        letter = "c"
    return CELL_STATES[letter], letter if letter.isdigit() else ""


def held(row: GpuRow) -> bool:
    """Whether somebody has it: the kubelet says so, or where nobody asks the kubelet, its processes do."""
    return bool(row.users) if row.pods is None else bool(row.pods)


def state(row: GpuRow, node: NodeRow) -> Text:
    """The verdict in a word; of a healthy one, what it does."""
    if row.state != DeviceState.OK:
        return say(f"device.{row.state}")
    found, _ = cell(row, node)
    return say("state.tainted" if found == "cordoned" and not node.unschedulable else f"state.{found}")


def why(row: GpuRow) -> Text:
    """What decides the verdict, in a few words; "" for a healthy GPU."""
    if not row.reason:
        return ""
    return (rule(row.reason), say("gpu.when-convenient") if row.soft else "")


def rule(token: str) -> Text:
    """What a rule has seen. NVIDIA's errors have numbers, all others a name."""
    kind, _, code = token.partition("-")
    if kind not in {"xid", "sxid"}:
        return say(f"rule.{token}")
    return say(f"rule.{kind}", code=code) if code.isdecimal() else say(f"rule.{kind}-unnumbered")


def _since(row: GpuRow) -> Text:
    if row.state == DeviceState.OK or row.since_at is None:
        return ""
    return say("gpu.for", age=Age(row.since_at))


def short(row: GpuRow) -> str:
    return row.uuid[:SHORT_UUID] or row.pci


def measured(value: Measure) -> Value:
    """A whole number, or the word for why there is none."""
    if value == NA:
        return say("gpu.na")
    return int(value + 0.5) if isinstance(value, int | float) else None


def unit(pattern: str, value: Measure) -> Value:
    return say(pattern, n=int(value + 0.5)) if isinstance(value, int | float) else measured(value)


def percent(value: Measure) -> Value:
    return unit("kpi.percent", value)


def gib(mib: int | float) -> Text:
    tenths = int(mib * 10 / GIB + 0.5)
    return say("gpu.decimal", whole=tenths // 10, tenth=tenths % 10)


def memory(used: Measure, total: Measure) -> Value:
    """Of two numbers in MiB, in GiB."""
    if not isinstance(used, int | float):
        return measured(used)
    if not isinstance(total, int | float):
        return say("gpu.memory", used=gib(used))
    return say("gpu.of-memory", used=gib(used), total=gib(total))


def power(row: GpuRow) -> Value:
    used, limit = measured(row.power_w), measured(row.power_limit_w)
    if not isinstance(used, int):
        return used
    return say("gpu.of-power", used=used, limit=limit) if isinstance(limit, int) else say("gpu.power", used=used)


def pair(a: Measure, b: Measure) -> Value:
    """Two counts; one word where neither is a number for the same reason."""
    return measured(a) if a == b and not isinstance(a, int | float) else say("gpu.pair", a=measured(a), b=measured(b))


def remap(row: GpuRow) -> Text:
    """What is worth knowing of remapped rows: "" when none was, or when the hardware has no such thing."""
    corrected, uncorrected, pending, failure = row.remap
    if None in row.remap and row.read_at is not None:
        return say("gpu.remap-unknown")
    rows = sum(n for n in (corrected, uncorrected) if isinstance(n, int | float))
    found: list[Text] = [say("gpu.remap-failed")] if _yes(failure) else []
    found += [say("gpu.remap-pending")] if _yes(pending) else []
    return (*found, say("gpu.remapped", n=int(rows))) if rows else tuple(found)


def _yes(value: Measure) -> bool:
    return isinstance(value, int | float) and value > 0


def clocks(row: GpuRow) -> Value:
    """Why the clock is not higher; none only where the clock is known."""
    if row.clock_reasons:
        return tuple(_clock(reason) for reason in row.clock_reasons)
    return say("none") if isinstance(row.sm_clock_mhz, int | float) else measured(row.sm_clock_mhz)


def _clock(reason: str) -> Text:
    """What nobody has given a name is a bit with a number: "bit-11"."""
    bit = reason.removeprefix("bit-")
    return say(f"clock.{reason}") if bit == reason else say("clock.bit", bit=bit)


def users(row: GpuRow) -> Value:
    if row.pods is None:
        return None
    return ", ".join(pod.rsplit("/", 1)[-1] for pod in row.pods) or "–"


def _also(row: GpuRow) -> Text:
    return (
        say("gpu.strangers", n=row.strangers) if row.strangers else "",
        say("gpu.not-used", age=Age(row.idle_since_at)) if row.idle_since_at is not None and held(row) else "",
    )


def read_at(rows: Iterable[GpuRow]) -> Text:
    """How old the newest reading of these GPUs is; "" when there are none."""
    found = list(rows)
    newest = max((row.read_at for row in found if row.read_at is not None), default=None)
    if newest is None:
        return say("gpu.never-read") if found else ""
    return say("gpu.read", age=Age(newest))


def placed(rows: Sequence[GpuRow], node: NodeRow) -> bool:
    """Whether it is known which pod holds which GPU: then a table of slots says nothing more."""
    whole = not any(resource.shared or resource.mig for resource in node.resources)
    return bool(rows) and whole and all(row.pods is not None for row in rows)
