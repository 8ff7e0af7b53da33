"""The sentences about what was: lines over time, transitions of the ledger, and availability. Pages of the server alone say them.

Owns wording only. Some spaces are no-break spaces, literally, since the tools that collect message ids do not read escapes.
"""

from django.utils.translation import gettext_noop as _

from dashboard.panels.plurals import Patterns, ngettext

PAST: Patterns = {
    "plot.utilization_pct": _("Utilisation"),
    "plot.memory_used_mib": _("Memory"),
    "plot.temperature_c": _("Temperature"),
    "plot.power_w": _("Power"),
    "plot.same": _("{low} all the time"),
    "plot.range": _("{low} to {high}"),
    "plot.gaps": _("no data for {time}"),
    "plot.na": _("not applicable to this GPU, its mode or its driver"),
    "plot.unknown": _("no data"),
    "table.transitions": _("What happened to this GPU, the newest first"),
    "column.at": _("When"),
    "column.turn": _("State"),
    "column.node": _("Node"),
    "past.turn": _("{before} → {after}"),
    "past.new": _("new"),
    "past.gone": _("gone"),
    "past.planned": _("announced work"),
    "past.more": ngettext("{n} older one is not shown", "{n} older ones are not shown"),
    "closes.reboot": _("ended by a reboot"),
    "closes.reset": _("ended by a reset"),
    "closes.replaced": _("ended: the board was replaced"),
    "closes.cleared": _("ended: no longer so"),
    "closes.expired": _("over"),
    "closes.named": _("the driver says its UUID now"),
    "closes.removed": _("removed from the node"),
}

AVAILABILITY: Patterns = {
    "table.availability": _("Availability, the worst first unless sorted otherwise"),
    "column.what": _("What"),
    "column.availability": _("Available"),
    "column.up": _("Up"),
    "column.down": _("Down"),
    "column.planned": _("Announced work"),
    "column.unknown": _("Unknown"),
    "column.failures": _("Failures"),
    "column.mtbf": _("Time between failures"),
    "column.mttr": _("Time to repair"),
    "column.open": _("Open"),
    "table.incidents": _("Incidents that are open, the oldest first"),
    "column.since-at": _("Since"),
    "column.open-for": _("Open for"),
    "avail.percent": _("{whole}.{hundredths} %"),
    "avail.never": _("never known"),
    "avail.gpu-h": _("{n} GPU-h"),
    "avail.under": _("< {n}"),
    "avail.no-failure": _("no failure"),
    "avail.at-most": _("in {up} GPU-h: at most one per {least} GPU-h, 95 % sure"),
    "avail.no-time": _("no time in which it was up"),
    "avail.repairs": ngettext("of {n} repair", "of {n} repairs"),
    "avail.no-repair": _("no repair"),
    "avail.of": _("of {n}"),
    "avail.last": _("last {time}"),
    "avail.fleet": _("Whole fleet"),
    "avail.no-product": _("model unknown"),
    "avail.unit": _("GPU-h"),
    "avail.tiny": _("under 0.01 % of the time"),
    "avail.share": _("{percent} of the time"),
    "avail.open": ngettext("{n} open", "{n} open"),
    "avail.none-open": _("none open"),
    "avail.part": _("{first} to {last} of {n}"),
}
