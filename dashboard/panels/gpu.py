"""The page of one GPU: what is measured, who it is, who uses it, its lines over time and what happened to it.

Owns which facts are shown where. Must not hold wording (gpu_patterns.py) or decide how a GPU is.
"""

from collections.abc import Mapping

from dashboard.panels import gpus
from dashboard.panels.gpus import measured, unit
from dashboard.panels.node import Fact
from dashboard.panels.tables import Column, Row, Table
from dashboard.panels.words import Age, Clock, Text, Value, say
from fleet.domain.gpus import Measure
from fleet.domain.picture import GpuRow, NodeRow, PodRow
from fleet.domain.verdicts import Transition

USERS = (Column("pod", small=True), Column("status", "state"), Column("gpus", "num"), Column("held-by", "all"))


def title(row: GpuRow) -> Text:
    return say("gpu.on", index=row.index, node=row.node)


def since(row: GpuRow) -> Text:
    return "" if row.since_at is None else say("gpu.since", time=Clock(row.since_at), age=Age(row.since_at))


def measures(row: GpuRow) -> list[Fact]:
    """What ticks with every reading; the browser says the same (panels/gpus.js)."""
    return [
        Fact("utilization", gpus.percent(row.utilization_pct)),
        Fact("gpu-memory", gpus.memory(row.memory_used_mib, row.memory_total_mib)),
        Fact("reserved", _reserved(row.memory_reserved_mib)),
        Fact("temperature", unit("gpu.c", row.temperature_c)),
        Fact("memory-temperature", unit("gpu.c", row.memory_temperature_c)),
        Fact("power", gpus.power(row)),
        Fact("sm-clock", unit("gpu.mhz", row.sm_clock_mhz)),
        Fact("clocks", gpus.clocks(row)),
        Fact("ecc", gpus.pair(row.ecc_corrected, row.ecc_uncorrected)),
        Fact("nvlinks", _of("gpu.of", row.nvlinks)),
        Fact("pcie", _of("gpu.pcie", row.pcie)),
        Fact("remaps", remaps(row)),
    ]


def _reserved(value: Measure) -> Value:
    if isinstance(value, int | float):
        return say("gpu.memory", used=gpus.gib(value))
    return say("gpu.with-reserved") if value is not None else None


def remaps(row: GpuRow) -> Value:
    """All four numbers, because "none" is worth knowing here; not applicable where the hardware or its mode has none."""
    corrected, uncorrected, pending, failure = row.remap
    if len(set(row.remap)) == 1 and not isinstance(corrected, int | float):
        return measured(corrected)
    return (
        say("gpu.remap-counts", corrected=measured(corrected), uncorrected=measured(uncorrected)),
        say("gpu.remap-flags", pending=_flag(pending), failed=_flag(failure)),
    )


def _flag(value: Measure) -> Value:
    return say("yes" if value else "no") if isinstance(value, int | float) else measured(value)


def _of(pattern: str, values: tuple[Measure, Measure]) -> Value:
    a, b = values
    if a == b and not isinstance(a, int | float):
        return measured(a)
    return say(pattern, a=measured(a), b=measured(b))


def identity(row: GpuRow, node: NodeRow) -> list[Fact]:
    return [
        Fact("uuid", row.uuid or None),
        Fact("serial", row.serial or say("not-applicable")),
        Fact("pci", row.pci or None),
        Fact("model", row.name or None),
        Fact("index", row.index),
        Fact("driver", node.driver or None),
        Fact("cuda", node.cuda or None),
    ]


def pods(row: GpuRow, known: Mapping[str, PodRow]) -> Table:
    """The pods that have it, as the kubelet says."""
    return Table("users", USERS, [_user(key, known.get(key)) for key in row.pods or ()])


def _user(key: str, pod: PodRow | None) -> Row:
    namespace, _, name = key.partition("/")
    cells: dict[str, Value] = {
        "pod": name,
        "status": pod.status if pod else None,
        "gpus": pod.gpus if pod else None,
        "held-by": (pod.owner_kind, pod.owner_name, say("node.team", team=pod.team) if pod.team else "")
        if pod
        else None,
    }
    small: dict[str, Text] = {"pod": namespace}
    return Row(key, pod.level if pod else "", cells, small)


def processes(row: GpuRow) -> Text:
    if row.users is None:
        return say("gpu.processes-unknown")
    strangers = say("gpu.strangers", n=row.strangers) if row.strangers else ""
    return (say("gpu.processes", n=row.users) if row.users else say("gpu.no-processes"), strangers)


def remembered(last: Transition) -> list[Fact]:
    """Who a GPU was that nothing reports any more."""
    facts = last.evidence
    return [
        Fact("uuid", last.gpu),
        Fact("pci", str(facts["pci"]) if facts.get("pci") else None),
        Fact("model", str(facts["name"]) if facts.get("name") else None),
        Fact("last-node", last.node),
        Fact("last-seen", Clock(last.at)),
    ]
