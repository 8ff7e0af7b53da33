"""Before a new version: each strategy with its numbers, and which one fits the GPUs that are free.

Owns which numbers are shown. Must not hold wording (rollout_patterns.py) or rules: `fleet.domain.strategy` works them out.
"""

from dataclasses import dataclass

from dashboard.panels.words import Text, Value, say
from fleet.domain.strategy import Advice, Doubt, Kind, Strategy


@dataclass(frozen=True, slots=True)
class Offer:
    kind: str
    name: Text
    means: Text
    level: str
    glyph: str
    ends: Text
    best: bool
    placed: Text
    peak: Value
    peak_note: Text
    lowest: Text
    doubts: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Advised:
    sentence: Text
    room: Text
    offers: tuple[Offer, ...]
    gpus: int
    stuck: Text  # when what the workload is set to cannot finish


def advised(advice: Advice) -> Advised:
    best, present = advice.best, advice.present
    return Advised(
        sentence=say("strategy.advice", kind=say(f"strategy.{best}")) if best else say("strategy.advice-none"),
        room=say("strategy.no-gpus")
        if advice.slots is None
        else say("strategy.room", n=advice.slots, hole=advice.largest),
        offers=tuple(_offer(one, advice) for one in advice.strategies),
        gpus=advice.gpus,
        stuck=say("strategy.stuck") if present is not None and not present.finishes else "",
    )


def _offer(one: Strategy, advice: Advice) -> Offer:
    more = one.peak_gpus_held > one.peak_gpus
    bounds = say("strategy.set", surge=one.surge, unavailable=one.unavailable)
    return Offer(
        kind=one.kind,
        name=say(f"strategy.{one.kind}"),
        means=say("strategy.blue-green.means") if one.kind is Kind.BLUE_GREEN else bounds,
        level="ok" if one.finishes else "bad",
        glyph="s-ok" if one.finishes else "s-bad",
        ends=say("strategy.finishes") if one.finishes else say("strategy.stops"),
        best=one.kind is advice.best,
        placed=say("strategy.of", have=one.placed, want=advice.wanted),
        peak=one.peak_gpus,
        peak_note=say("strategy.with-stopping", n=one.peak_gpus_held) if more else "",
        lowest=say("strategy.of", have=one.lowest, want=advice.wanted),
        doubts=_doubts(one),
    )


def _doubts(one: Strategy) -> tuple[Text, ...]:
    """Pods that stop are told beside the peak, and where nothing serves nobody asks for less."""
    quiet = {Doubt.STOPPING} | ({Doubt.LESS_CAPACITY} if Doubt.OUTAGE in one.doubts else set())
    return tuple(say(f"strategy.doubt.{doubt}", n=one.more_gpus) for doubt in one.doubts if doubt not in quiet)
