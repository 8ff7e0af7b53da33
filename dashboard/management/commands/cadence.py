"""`manage.py cadence`: how often a run should save. It asks no cluster, and the ledger only about a workload's saves and about
failures of GPUs, for whoever does not enter them.
"""

import argparse
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError

from dashboard.panels.availability import WINDOWS
from fleet.domain import cadence, durations
from fleet.domain.cadence import Cadence, CadenceError, LostWork, Share, Wanted
from fleet.domain.durations import spelled
from fleet.domain.mtbf import Mtbf
from fleet.domain.saving import Fit, Saving

COUNTED = {
    "A": "saved at the end, saves extend the run",
    "B": "as A, not saved at the end",
    "C": "the length is wall clock",
}
MOST_GPUS = 1_000_000


class Command(BaseCommand):
    help = (
        "How often a run should save: Young, Daly, the exact optimum, what intervals cost. Times like 5m, 1h30m, 90s."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = argparse.SUPPRESS  # so that an error is one line
        parser.add_argument("--save-cost", default="", metavar="TIME", help="how long a save stops training; needed")
        parser.add_argument(
            "--workload", default="", metavar="KIND/NAMESPACE/NAME", help="or as its saves that were seen"
        )
        parser.add_argument(
            "--cluster", default="", metavar="NAME", help="of the workload and the GPUs; the only one when left out"
        )
        parser.add_argument("--mtbf", default="", metavar="TIME", help="mean time between failures of the run; needed")
        parser.add_argument(
            "--gpus",
            type=int,
            metavar="N",
            help="or as GPUs were seen to fail, for a run on so many, with how sure that is",
        )
        parser.add_argument(
            "--window", choices=list(WINDOWS), default="30d", help="in which they were seen (default: %(default)s)"
        )
        parser.add_argument(
            "--interval", action="append", default=[], metavar="TIME", help="compare this one; repeat it"
        )
        parser.add_argument("--horizon", default="", metavar="TIME", help="length of the run: counts its saves out")
        parser.add_argument("--write", default="0s", metavar="TIME", help="what an asynchronous save writes on after")
        parser.add_argument("--grace", default="", metavar="TIME", help="grace period of the pods: does a save fit?")
        parser.add_argument("--json", action="store_true", help="for programs; times in seconds, overheads as shares")

    def handle(self, *_args: Any, **options: Any) -> None:
        observed = _observed(options)
        try:
            found = cadence.cadence(_wanted(options, observed))
        except CadenceError as error:
            raise CommandError(f"--{str(error).replace(' ', '-', error.field.count('_'))}", returncode=2) from error
        if options["json"]:
            answer = {**msgspec.to_builtins(found), "gpus": options["gpus"], "observed": observed}
            self.stdout.write(msgspec.json.format(msgspec.json.encode(answer), indent=1).decode())
        else:
            self.stdout.write("\n".join(lines(found, observed)))


def _wanted(options: dict[str, Any], observed: Mtbf | None) -> Wanted:
    """Raises CommandError and CadenceError."""
    return Wanted(
        save_cost_s=_save_cost(options),
        mtbf_s=_planning(observed) if observed else _needed("--mtbf", options["mtbf"]),
        intervals_s=tuple(_needed("--interval", text) for text in options["interval"]),
        horizon_s=_needed("--horizon", options["horizon"]) if options["horizon"] else None,
        write_s=_needed("--write", options["write"]),
        grace_s=_needed("--grace", options["grace"]) if options["grace"] else None,
    )


def _save_cost(options: dict[str, Any]) -> float:
    """As entered, else as the ledger has seen it. Raises CommandError."""
    if options["save_cost"] or not options["workload"]:
        return _needed("--save-cost", options["save_cost"])
    from dashboard import ledger  # the models are of no use to whoever enters everything

    cost_s = ledger.saves(_cluster(options, "--workload"), options["workload"]).cost_s
    if not cost_s:
        raise CommandError(f"nobody has seen how long a save of {options['workload']} takes", returncode=2)
    return cost_s


def _observed(options: dict[str, Any]) -> Mtbf | None:
    """Of a run on so many GPUs, as the ledger has seen them fail; None: it is entered. Raises CommandError."""
    gpus = options["gpus"]
    if gpus is None:
        return None
    if options["mtbf"]:
        raise CommandError("--gpus is instead of --mtbf: give one of them", returncode=2)
    if not 1 <= gpus <= MOST_GPUS:
        raise CommandError(f"--gpus must be between 1 and {MOST_GPUS}", returncode=2)
    from dashboard import ledger

    end = ledger.until()
    return ledger.mtbf(_cluster(options, "--gpus"), end - WINDOWS[options["window"]], end).of_group(gpus)


def _planning(observed: Mtbf) -> float:
    """Raises CommandError."""
    if observed.planning_s is None:
        raise CommandError(
            "--mtbf is needed: the ledger knows no time in this window in which a GPU was up", returncode=2
        )
    return observed.planning_s


def _cluster(options: dict[str, Any], needs: str) -> str:
    """Raises CommandError."""
    from fleet import wiring

    names = [options["cluster"]] if options["cluster"] else wiring.sites()
    if len(names) != 1:
        raise CommandError(f"--cluster is needed with {needs}", returncode=2)
    return names[0]


def _needed(name: str, text: str) -> float:
    if not text:
        raise CommandError(f"{name} is needed; {durations.HOW}", returncode=2)
    try:
        return durations.parse(text)
    except durations.DurationError as error:
        raise CommandError(f"{name}: {error}", returncode=2) from error


def lines(found: Cadence, observed: Mtbf | None = None) -> list[str]:
    """The answer as text."""
    beyond = "" if found.daly_holds else " (a save takes twice the MTBF or more: the MTBF itself)"
    told = [
        f"Save every {spelled(found.best_s)}.",
        f"Young {spelled(found.young_s)}, Daly {spelled(found.daly_s)}{beyond}, exact optimum {spelled(found.optimum_s)}",
        *(_sureness(found, observed) if observed else ()),
        "",
        *_table(("interval", "overhead", "saving", "redoing", "lost by a failure", "at most"), _rows(found)),
    ]
    told += [
        f"{spelled(one.shorter_s)} against {spelled(one.longer_s)}: the shorter costs less under an MTBF of "
        f"{_time(one.exponential_s)} (to first order {_time(one.first_order_s)})"
        for one in found.break_evens
    ]
    if found.savings:
        heads = ("interval", "counted", "saves", "saving", "whole run", "unsaved", "of work", "of wall")
        told += ["", *_table(heads, [_saving(one) for one in found.savings])]
        told += [f"{letter}: {how}" for letter, how in COUNTED.items()]
    return [*told, "", *(_fit(one) for one in found.fits)]


def _sureness(found: Cadence, observed: Mtbf) -> list[str]:
    """How surely the time between failures is known, and what that does to the interval."""
    seen = f"in {spelled(observed.observed_s)} of GPU time"
    if observed.mean_s is None or observed.least_s is None or observed.most_s is None:
        bound = f"MTBF {spelled(found.mtbf_s)} or more, 95 % sure (rule of three)"
        return [f"No failure {seen}: {bound}. The interval is for that bound; a longer one may do."]
    least, most = (
        max(found.write_s, cadence.optimum(found.save_cost_s, s)) for s in (observed.least_s, observed.most_s)
    )
    word = "failure" if observed.failures == 1 else "failures"
    sure = (
        f"{spelled(observed.least_s)} to {spelled(observed.most_s)}, so save every {spelled(least)} to {spelled(most)}"
    )
    return [f"MTBF {spelled(observed.mean_s)} from {observed.failures} {word} {seen}; 95 % sure: {sure}."]


def _rows(found: Cadence) -> list[tuple[str, ...]]:
    return [_row(share, loss) for share, loss in zip(found.overheads, found.losses, strict=True)]


def _row(share: Share, loss: LostWork) -> tuple[str, ...]:
    mark = " (shorter than its write)" if loss.overlaps else ""
    parts = (_percent(part) for part in (share.overhead, share.saving, share.redoing))
    return spelled(share.interval_s), *parts, spelled(loss.mean_s), spelled(loss.most_work_s) + mark


def _saving(one: Saving) -> tuple[str, ...]:
    times = (spelled(seconds) for seconds in (one.saving_s, one.wall_s, one.unsaved_s))
    return (
        spelled(one.interval_s),
        one.convention.value,
        str(one.saves),
        *times,
        f"{one.of_work_pct:.2f} %",
        f"{one.of_wall_pct:.2f} %",
    )


def _fit(one: Fit) -> str:
    verdict = f"a save fits, {spelled(one.spare_s)} to spare" if one.fits else f"too short by {spelled(-one.spare_s)}"
    return f"{one.notice.value} {spelled(one.lead_s)}: {verdict}"


def _percent(share: float | None) -> str:
    return "never ends" if share is None else f"{100 * share:.2f} %"


def _time(seconds: float) -> str:
    return spelled(seconds) if seconds < 1e12 else "any length"


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows)]
