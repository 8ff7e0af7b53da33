"""How often one workload should save: what is known of its saves and of failures, and what follows.

Owns which of the answers is given, and how surely. Must not hold wording (advice_patterns.py) nor compute: `fleet.domain.cadence`
does. An interval that may well be the best one is kept, and where no GPU has failed only what is certain is said.
"""

from dataclasses import dataclass, field
from typing import Final

from dashboard.panels import cadence as planner
from dashboard.panels import checkpoints, curves
from dashboard.panels.cadence import length, percent
from dashboard.panels.checkpoints import Holding
from dashboard.panels.curves import Chart
from dashboard.panels.words import Text, say
from fleet.domain import cadence
from fleet.domain.cadence import Cadence, Share, Wanted
from fleet.domain.mtbf import Mtbf
from fleet.domain.save_history import Usual
from fleet.domain.save_picture import CheckpointRow

WORTH: Final = 0.001  # of the time: what wins less is no reason to change anything
DAY_H: Final = 24


@dataclass(frozen=True, slots=True)
class Fact:
    """`title`: the key of its words."""

    title: str
    value: Text | None
    note: Text = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """The first sentence says what to do. `chart` is None where no curve would tell anything; `others`: Young and Daly."""

    lead: Text
    sentences: tuple[Text, ...]
    facts: tuple[Fact, ...]
    others: Text = ""
    chart: Chart | None = None
    told: Text = ""
    notes: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class _Case:
    """What one answer is made of. `found` has the interval of now, if one is known, after the best."""

    found: Cadence
    observed: Mtbf
    held: Holding
    counted: Text
    edges: tuple[float, float | None] = field(default=(0.0, None))  # of the best interval, 95 % sure

    @property
    def best(self) -> Share:
        return self.found.overheads[0]

    @property
    def now(self) -> Share | None:
        return self.found.overheads[1] if len(self.found.overheads) > 1 else None


def advice(row: CheckpointRow, held: Holding, observed: Mtbf, usual: Usual, window_s: float) -> Advice:
    """`observed`: of one GPU in `window_s`; `usual`: of the last saves of the workload."""
    counted, mtbf = planner.tally(window_s, observed), observed.of_group(max(1, held.gpus))
    facts = (_takes(row, usual), _every(row), _fails(mtbf, held, counted))
    missing = _missing(row, held, mtbf)
    if missing or row.save_cost_s is None or mtbf.planning_s is None:
        return Advice(say("advice.unknown"), (missing,), facts, notes=_notes(row))
    now = (row.target_s,) if row.target_s else ()
    found = cadence.cadence(Wanted(save_cost_s=row.save_cost_s, mtbf_s=mtbf.planning_s, intervals_s=now))
    case = _Case(found, mtbf, held, counted, _edges(row.save_cost_s, mtbf))
    lead, *rest = _said(case)
    drawn = _tells(case)
    return Advice(
        lead,
        tuple(rest),
        (*facts, *_outcomes(case)),
        say("advice.others", young=length(found.young_s), daly=length(found.daly_s)),
        curves.chart(found, length, percent) if drawn else None,
        planner.told(found) if drawn else "",
        _notes(row),
    )


def _missing(row: CheckpointRow, held: Holding, mtbf: Mtbf) -> Text:
    """Why nothing can be worked out; "" when it can."""
    if row.save_cost_s is None:
        return say("advice.no-cost")
    if not held.gpus:
        return say("advice.no-gpus")
    if mtbf.planning_s is None:
        return say("advice.no-up-time")
    return say("advice.too-early") if checkpoints.says_nothing(row.save_cost_s, mtbf) else ""


def _edges(save_cost_s: float, mtbf: Mtbf) -> tuple[float, float | None]:
    least, most = (None if s is None else cadence.optimum(save_cost_s, s) for s in (mtbf.least_s, mtbf.most_s))
    return least or 0.0, most


def _tells(case: _Case) -> bool:
    """A curve for a bound says nothing of an interval that is longer than the best one there."""
    if case.best.overhead is None:
        return False
    return bool(case.observed.failures) or case.now is None or case.now.interval_s < case.best.interval_s


def _said(case: _Case) -> list[Text]:
    if case.best.overhead is None:
        return [say("advice.hopeless")]
    if case.observed.failures:
        return _known(case)
    return _bounded(case)


def _known(case: _Case) -> list[Text]:
    """With failures there is an estimate, and how far it may be off."""
    best, now = length(case.best.interval_s), case.now
    least, most = case.edges[0], case.edges[1] or case.best.interval_s
    range_ = say("advice.range", least=length(least), most=length(most))
    if now is None:
        return [say("advice.save", best=best), range_, say("advice.no-interval")]
    every = length(now.interval_s)
    if least <= now.interval_s <= most:
        return [say("advice.keep", now=every), say("advice.within", best=best), range_]
    won = _won(case.best, now)
    if won is not None and won < WORTH:
        return [say("advice.keep", now=every), say("advice.same", best=best)]
    return [say("advice.instead", best=best, now=every), *_wins(case, now, won), range_]


def _bounded(case: _Case) -> list[Text]:
    """Without a failure the run fails at most so often, and the best interval is at least so long."""
    best, now = length(case.best.interval_s), case.now
    seen = say("advice.no-failure", counted=case.counted, mtbf=length(case.found.mtbf_s), best=best)
    if now is None:
        return [say("advice.at-least", best=best), seen, say("advice.no-interval")]
    every = length(now.interval_s)
    if now.interval_s >= case.best.interval_s:
        return [say("advice.keep", now=every), seen, say("advice.cannot-tell", now=every)]
    won = _won(case.best, now)
    if won is not None and won < WORTH:
        return [say("advice.keep", now=every), seen, say("advice.same", best=best)]
    return [say("advice.rarer", best=best, now=every), *_wins(case, now, won), seen]


def _wall(share: Share) -> float | None:
    """What of the time of its GPUs becomes no work."""
    return None if share.overhead is None else share.overhead / (1 + share.overhead)


def _won(best: Share, now: Share) -> float | None:
    """What of that time the best interval wins back; None: from now on nothing ends."""
    before, after = _wall(now), _wall(best)
    return None if before is None or after is None else before - after


def _wins(case: _Case, now: Share, won: float | None) -> list[Text]:
    if won is None:
        return [say("cadence.hopeless", time=length(now.interval_s))]
    gpus, hours = say("gpus", n=case.held.gpus), checkpoints.gpu_hours(won * case.held.gpus * DAY_H)
    after, before = (length(lost.mean_s) for lost in case.found.losses[:2])
    return [
        say("advice.wins", share=percent(won), gpus=gpus, hours=hours),
        say("advice.costs", best=after, now=before),
    ]


def _takes(row: CheckpointRow, usual: Usual) -> Fact:
    if row.save_cost_s is None:
        return Fact("advice.takes", None, say("ckpt.no-cost"))
    return Fact("advice.takes", length(row.save_cost_s), say("advice.median", n=usual.saves) if usual.saves else "")


def _every(row: CheckpointRow) -> Fact:
    if row.target_s is None:
        return Fact("advice.every", None, say("advice.no-interval"))
    return Fact("advice.every", length(row.target_s), say("advice.observed" if row.observed else "advice.declared"))


def _fails(mtbf: Mtbf, held: Holding, counted: Text) -> Fact:
    """Without a failure there is a bound only, which must not read as if it were an estimate."""
    if not held.gpus or mtbf.planning_s is None:
        return Fact("advice.fails", None, counted if held.gpus else say("ckpt.lost-rests"))
    if not mtbf.failures:
        return Fact("advice.fails", say("ckpt.at-least", time=length(mtbf.planning_s)), (say("ckpt.sure"), counted))
    return Fact("advice.fails", length(mtbf.planning_s), (planner.between(mtbf), counted))


def _outcomes(case: _Case) -> tuple[Fact, ...]:
    """What the best interval and the one of now cost and lose, side by side. Without a failure the first two are bounds, and the
    best one is no better for sure than a longer one of now."""
    best, now, losses, sure = case.best, case.now, case.found.losses, bool(case.observed.failures)
    every, overhead = length(best.interval_s), percent((now or best).overhead)
    exact = Fact("advice.best", every if sure else say("ckpt.at-least", time=every), planner.formula(case.found))
    compared = now is not None and (sure or now.interval_s < best.interval_s)
    notes = (percent(best.overhead), length(losses[0].mean_s)) if compared else ()
    at_best: list[Text] = [say("advice.at-best", value=note) for note in notes] or ["", ""]
    return (
        exact,
        Fact("advice.overhead", overhead if sure else say("advice.at-most", value=overhead), at_best[0]),
        Fact("advice.lost", length(losses[-1].mean_s), at_best[1]),
    )


def _notes(row: CheckpointRow) -> tuple[Text, ...]:
    return say("advice.hook" if row.hook else "advice.no-hook"), say("advice.model")
