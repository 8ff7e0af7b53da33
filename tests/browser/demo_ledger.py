"""What the ledger and the last hour tell of the demo fleet's GPUs: failures that ended, some that did not, and gaps."""

import math

from fleet import history, live
from fleet.domain.gpus import Measure
from fleet.domain.picture import GpuRow, Snapshot
from fleet.domain.spans import Sample
from fleet.domain.verdicts import Transition
from tests.browser import demo_gpus

GONE = "GPU-00a1f087-3c5e-4d1a-9f00-0000000000ff"
DAY_S = 86_400
Change = tuple[float, str, str, str, str]  # seconds ago, before, after, reason, how it closed


def write(cluster: str, snapshot: Snapshot, now: float) -> None:
    """Once for each database and store."""
    for row in snapshot.gpus.values():
        told = [_transition(row, now, change) for change in _changes(row)]
        history.record(cluster, told, {row.node: row.name})
    gone = GpuRow("node-12", 6, GONE, "0000:1d:00.0", "NVIDIA H100 80GB HBM3")
    lived: list[Change] = [
        (40 * DAY_S, "", "ok", "", ""), (31 * DAY_S, "ok", "lost", "xid-79", ""),
        (31 * DAY_S - 5_400, "lost", "", "xid-79", "replaced"),
    ]  # fmt: skip
    history.record(cluster, [_transition(gone, now, change) for change in lived], {"node-12": gone.name})
    _minutes(cluster, snapshot, now)
    _last_hour(cluster, snapshot, now)


def _changes(row: GpuRow) -> list[Change]:
    found: list[Change] = [(31 * DAY_S, "", "ok", "", "")]
    if row.index == 3:
        found += [
            (3 * DAY_S, "ok", "reset-required", "xid-95", ""),
            (3 * DAY_S - 4_380, "reset-required", "ok", "xid-95", "reset"),
            (DAY_S, "ok", "unknown", "driver-upgrade", ""),
            (DAY_S - 900, "unknown", "ok", "driver-upgrade", "cleared"),
        ]
    if row.state != "ok":
        found.append((row.since_at or 0.0, "ok", row.state, row.reason, ""))
    return found


def _transition(row: GpuRow, now: float, change: Change) -> Transition:
    ago, before, after, reason, closes = change
    first = row.findings[0].evidence if row.findings and row.findings[0].rule == reason else ""
    return Transition(
        node=row.node, gpu=row.uuid, at=ago if ago > 1e9 else now - ago, from_state=before, to_state=after, reason=reason,
        soft=row.soft and after == row.state, closes=closes, planned=reason == "driver-upgrade" and not closes,
        evidence={"index": row.index, "pci": row.pci, "name": row.name, "text": first},
    )  # fmt: skip


def _wave(row: GpuRow, at: float) -> tuple[Measure, Measure, Measure, Measure]:
    """Utilisation, temperature, power and memory; a GPU that has no such number now had none."""
    swing = math.sin(at / 700 + row.index) + math.sin(at / 90)
    return (
        _moved(row.utilization_pct, 4 * swing, 100), _moved(row.temperature_c, swing, 100), _moved(row.power_w, 9 * swing, 700),
        _moved(row.memory_used_mib, 0, 10**6),
    )  # fmt: skip


def _moved(value: Measure, by: float, most: int) -> Measure:
    return max(0, min(most, round(value + by))) if isinstance(value, int | float) else value


def _minutes(cluster: str, snapshot: Snapshot, now: float) -> None:
    minute = int(now // 60)
    rows = []
    for node in ("node-12", "node-14"):
        mine = [row for row in snapshot.gpus.values() if row.node == node]
        for back in range(1, 26 * 60):
            if 300 < back < 340:
                continue  # nobody read
            samples = {}
            for row in mine:
                busy, hot, power, memory = _wave(row, 60.0 * (minute - back))
                samples[row.uuid] = Sample(busy, busy, hot, power, memory)
            rows.append((node, minute - back, samples))
    history.record_minutes(cluster, rows)
    history.make_hours(now)


def _last_hour(cluster: str, snapshot: Snapshot, now: float) -> None:
    store = live.gpus()
    for back in range(360, 0, -1):
        at = now - 10 * back
        points = {}
        for node in (f"node-{demo_gpus.TROUBLED}", f"node-{demo_gpus.CUT}"):
            rows = [row for row in snapshot.gpus.values() if row.node == node]
            points[node] = live.Point(at, {row.uuid: _wave(row, at) for row in rows if at < (row.read_at or 0)})
        store.settle(cluster, live.Settled(points=points))
