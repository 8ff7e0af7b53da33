"""What may be done to a pair, and what stands against it as far as that is known before anybody has asked for it.

Owns which actions are offered for which side, and which of their guards can answer without a question to a pod, a right or the
API server. Must not judge: the guards do, and a plan runs all of them.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from fleet.domain import guards
from fleet.domain.actions import ACTIONS
from fleet.domain.blue_green import Side
from fleet.domain.facts import Facts
from fleet.domain.losses import Draft
from fleet.domain.plans import Check, Outcome
from fleet.domain.releases import Release
from fleet.domain.revisions import Workload
from fleet.domain.smoke import RequestError

UNASKED = frozenset({"alone", "freeze", "owner", "change", "sides", "spare", "smoke"})
LATER = ("change", "version")  # which version a copy has only its form can tell


class Prospect(Struct, frozen=True):
    """One action on a pair, and the checks that stand against it or warn. `side`: the name that its form names, "" when the
    action knows by itself."""

    kind: str
    side: str
    release: Release
    checks: tuple[Check, ...]

    @property
    def blocks(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.outcome is Outcome.BLOCK)


def prospects(facts: Facts, known: Release, workloads: Mapping[str, Workload]) -> tuple[Prospect, ...]:
    """`known`: the Service, its pair and the pods; `workloads`: of the sides, by key. A Service that another controller switches
    offers nothing."""
    if known.pair is None or known.pair.owned_by:
        return ()
    return tuple(_prospect(facts, known, workloads, kind, side) for kind, side in _offered(known))


def _offered(known: Release) -> Iterator[tuple[str, Side | None]]:
    pair = known.pair
    if pair is None:
        return
    if known.way_back is not None:
        yield "way-back", None
    for side in pair.idle or (pair.sides if len(pair.sides) > 1 else ()):
        yield "switch", side
    for side in pair.idle:
        if side.replicas or side.pods:
            yield "retire", side
    if pair.serving is not None:
        yield "create-green", pair.serving


def _prospect(
    facts: Facts, known: Release, workloads: Mapping[str, Workload], kind: str, side: Side | None
) -> Prospect:
    named = side.name if side and kind != "create-green" else ""
    release = replace(known, kind=kind, options={"side": named} if named else {})
    release = replace(release, workload=workloads.get(release.to.key) if release.to else None)
    draft = Draft(replace(facts, kind=kind, release=release))
    asked = [name for name in ACTIONS[kind].guards if _answers(name, release)]
    found = tuple(
        check
        for check in guards.run(asked, draft)
        if check.outcome is not Outcome.PASS and (check.guard, check.reason) != LATER
    )
    return Prospect(kind, named, release, found)


def _answers(guard: str, release: Release) -> bool:
    """Of a smoke test it is only known whether there is one; what a pod answers is asked by a plan."""
    return guard in UNASKED and (guard != "smoke" or isinstance(release.asked, RequestError))
