"""What pages and programs read of the ledger: availability by GPU, node, product or fleet, one GPU's past, a workload's saves.

Owns which queries answer which question. Formulas are the domain's, words the panels'.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from dashboard.panels import charts, past
from dashboard.panels.availability import Line
from dashboard.panels.charts import Trend
from fleet import history, live, save_records
from fleet.domain import availability, save_history
from fleet.domain import mtbf as mtbf_
from fleet.domain.availability import Availability
from fleet.domain.gpus import Measure
from fleet.domain.mtbf import Mtbf
from fleet.domain.save_history import Usual
from fleet.domain.verdicts import Transition

REMEMBERED_S = 90 * 86_400  # of transitions that a page looks back
STEP_S = 10  # windows end at whole steps, so that whoever asks again a moment later gets the same answer
FLEET = "fleet"


def until(now: float | None = None) -> float:
    """The end of a window that ends now."""
    return (time.time() if now is None else now) // STEP_S * STEP_S


def lines(cluster: str, by: str, since: float, end: float) -> list[Line]:
    """Availability in a window by GPU, node, product or fleet; without GPUs that were not ours in it."""
    known = history.before(cluster, since)
    found = history.transitions(cluster, since=since, until=end)
    older = history.leading(cluster, since, availability.unsettled(known))
    parts = availability.each([*older, *found], since, end, known)
    parts = {gpu: part for gpu, part in parts.items() if part.owned_s > 0}
    nodes = {gpu: last.node for gpu, last in known.items()} | {one.gpu: one.node for one in found}
    if by == "gpu":
        return [Line(gpu, part, node=nodes[gpu]) for gpu, part in parts.items()]
    names = dict.fromkeys(parts, FLEET) if by == FLEET else nodes if by == "node" else history.products(cluster)
    return _grouped(parts, {gpu: names.get(gpu, "") for gpu in parts})


def _grouped(parts: Mapping[str, Availability], names: Mapping[str, str]) -> list[Line]:
    counts = Counter(names.values())
    groups = availability.grouped(parts, lambda gpu: names[gpu])
    return [Line(name, found, counts[name]) for name, found in groups.items()]


def mtbf(cluster: str, since: float, end: float) -> Mtbf:
    """The time between failures of one GPU of the fleet, as the window's up time and failures tell."""
    found = availability.total(line.found for line in lines(cluster, FLEET, since, end))
    return mtbf_.estimate(found.failures, found.up_s)


def saves(cluster: str, workload: str) -> Usual:
    """What the last saves of a workload were like; of one that nobody has seen save nothing is known."""
    return save_history.usual(save_records.last_saves(cluster, workload)) if workload else Usual()


def last_known(cluster: str, gpu: str) -> Transition | None:
    """The last thing that the ledger knows of a GPU; None: it never had one of this name."""
    return history.before(cluster, time.time() + STEP_S, gpu=gpu).get(gpu)


def of_one(cluster: str, gpu: str, happened: Sequence[Transition], now: float) -> Availability:
    """Of one GPU, as long as pages look back. `happened`: its transitions in that time."""
    since = now - REMEMBERED_S
    return availability.availability(happened, since, now, history.before(cluster, since, gpu=gpu))


def transitions(cluster: str, gpu: str, now: float) -> list[Transition]:
    return history.transitions(cluster, gpu=gpu, since=now - REMEMBERED_S, until=now + STEP_S)


def points(cluster: str, node: str, gpu: str, span: str, now: float) -> past.Points:
    """What one GPU measured over a span of `past.SPANS`."""
    if span == "1h":
        found: Mapping[str, list[tuple[float, Measure]]] = live.gpus().series(cluster, node).get(gpu, {})
        return found
    slots, slot_s = past.SPANS[span]
    since = now - slots * slot_s
    if span == "24h":
        return past.of_samples(history.minutes(cluster, node, since, now).get(gpu, ()))
    whole = history.hours(cluster, node, since, now).get(gpu, [])
    rest = history.minutes(cluster, node, whole[-1][0] + slot_s if whole else since, now).get(gpu, [])
    return past.of_samples([*whole, *rest])


def trends(cluster: str, node: str) -> dict[str, Trend]:
    """Utilisation of a node's GPUs over the last hour, by key."""
    now = time.time()
    found = live.gpus().series(cluster, node)
    return {gpu: charts.last_hour(series.get("utilization_pct", ()), now) for gpu, series in found.items()}
