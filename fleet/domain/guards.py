"""The guards: every check that stands between a plan and the running work of other people.

Owns the table of guards and how they are run. Each is a pure function from a draft to what it found, with evidence, remedy and
who may lift it; one that finds nothing passes. They run three times: to inform, to authorise, and what a step depends on again
before the step. There is no force: lifting a block is a waiver, recorded with a reason, by somebody allowed to.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from fleet.domain import pod_guards, release_guards, release_room, site_guards
from fleet.domain.losses import Draft
from fleet.domain.plans import Check, Outcome

Look = Callable[[Draft], Iterator[Check]]

SITE: Mapping[str, Look] = {
    "role": site_guards.role,
    "cluster-open": site_guards.cluster_open,
    "target-known": site_guards.target_known,
    "fresh": site_guards.fresh,
    "permissions": site_guards.permissions,
    "alone": site_guards.alone_on_target,
    "cordon-owner": site_guards.cordon_owner,
    "window": site_guards.window,
    "control-plane": site_guards.control_plane,
    "failure-domain": site_guards.failure_domain,
    "breaker": site_guards.breaker,
    "capacity-floor": site_guards.capacity_floor,
    "node-answers": site_guards.node_answers,
    "telemetry": site_guards.telemetry,
}
PODS: Mapping[str, Look] = {
    "checkpoint": pod_guards.checkpoint,
    "scratch": pod_guards.scratch,
    "unmanaged": pod_guards.unmanaged,
    "undisturbed": pod_guards.undisturbed,
    "budgets-known": pod_guards.budgets_known,
    "one-budget": pod_guards.one_budget,
    "budgets": pod_guards.budget_course,
    "placement": pod_guards.placement,
    "volumes": pod_guards.volumes,
    "service": pod_guards.capacity_of_service,
    "requests": pod_guards.requests_known,
    "gang": pod_guards.gang_members,
    "daemons-known": pod_guards.daemons_known,
    "server": pod_guards.server_accepts,
}
RELEASES: Mapping[str, Look] = {
    "subject-known": release_guards.subject_known,
    "freeze": release_guards.freeze,
    "owner": release_guards.owner,
    "change": release_guards.change_possible,
    "sides": release_guards.sides,
    "spare": release_guards.spare_kept,
    "smoke": release_guards.smoke_passed,
    "scaler": release_guards.scaler,
    "rolling": release_guards.rolling,
    "room": release_room.room,
    "outage": release_guards.outage,
    "accepted": release_guards.accepted,
}
GUARDS: Mapping[str, Look] = {**SITE, **PODS, **RELEASES}


class Waiver(Struct, frozen=True):
    """A block that somebody lifts: `check` is a `Check.key`."""

    check: str
    reason: str
    by: str
    role: str


def run(names: Iterable[str], draft: Draft) -> tuple[Check, ...]:
    """What the guards `names` find, worst first within each guard's place in the list; each that finds nothing passes."""
    found: list[Check] = []
    for name in names:
        checks = list(GUARDS[name](draft))
        found += checks or [Check(name, Outcome.PASS, subject=draft.facts.target)]
    return tuple(found)


def standing(checks: Iterable[Check], waivers: Iterable[Waiver]) -> tuple[Check, ...]:
    """The blocks that no waiver lifts. One counts only for exactly its check, with a reason, from a role that may lift it."""
    lifted = {waiver.check: waiver for waiver in waivers if waiver.reason.strip()}
    return tuple(
        check for check in checks if check.outcome is Outcome.BLOCK and not _lifts(lifted.get(check.key), check)
    )


def _lifts(waiver: Waiver | None, check: Check) -> bool:
    roles = {"operator": {"operator", "approver"}, "approver": {"approver"}}
    return waiver is not None and waiver.role in roles.get(check.waivable_by, set())
