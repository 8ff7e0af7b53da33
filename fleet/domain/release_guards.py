"""Guards about a workload that is changed and a Service that is switched: can it be done, will it last, is there room, does the
new side work?

Owns one function per guard, from a draft to what it found. A guard that finds nothing passes. Must not know which actions run it.
"""

from collections import Counter
from collections.abc import Iterator

from fleet.domain import rollouts, strategy
from fleet.domain.blue_green import SYNCED, Live
from fleet.domain.capacity import waiting
from fleet.domain.facts import gpus
from fleet.domain.green_sides import overlaps, shared_budgets
from fleet.domain.losses import Draft
from fleet.domain.objects import Budget
from fleet.domain.plans import Check, Facts, Outcome
from fleet.domain.releases import UNDECLARED, Release, pod_of
from fleet.domain.revisions import ChangeError, Json
from fleet.domain.rollouts import Rolled, Verdict
from fleet.domain.scheduling import Place, Placement, Unfit
from fleet.domain.smoke import RequestError
from fleet.domain.specs import FullPod
from fleet.domain.strategy import Ground, Kind
from fleet.domain.switching import Fault

APPROVER = "approver"
OPERATOR = "operator"

SWITCHES = frozenset({"switch", "way-back"})
# A side that is short of a pod may still be better than the other one. The way back also leads back to what was mixed.
WAIVABLE = {
    "switch": {Fault.FEWER: APPROVER},
    "way-back": {Fault.FEWER: OPERATOR, Fault.MIXED: APPROVER},
}


def subject_known(draft: Draft) -> Iterator[Check]:
    """What the action is about is there, and is of a kind that it can be done to."""
    found = draft.facts.release
    if found is None:
        return
    if found.malformed:
        yield _block(draft, "subject-known", "malformed", remedy="check-name")
    elif found.of_service and found.service is None:
        yield _block(draft, "subject-known", "no-service", remedy="check-name")
    elif found.of_service and found.pair is None and found.kind != "way-back":
        yield _block(draft, "subject-known", "no-pair", remedy="declare-pair")
    elif not found.of_service and found.workload is None:
        yield _block(draft, "subject-known", "no-workload", remedy="check-name")


def freeze(draft: Draft) -> Iterator[Check]:
    """In a freeze nothing is changed but what makes things safe."""
    now = draft.facts.now
    found = draft.facts.policy.frozen("", now) if draft.facts.release else None
    if found is not None:
        evidence: Facts = (("until_at", found.end.timestamp()), ("why", found.reason or None))
        yield _block(draft, "freeze", "frozen", evidence, remedy="wait-for-window", waivable_by=APPROVER)


def change_possible(draft: Draft) -> Iterator[Check]:
    """The change can be made at all, and changes something."""
    found = draft.facts.release
    for error in (found.change, found.copy) if found else ():
        if isinstance(error, ChangeError):
            yield _block(draft, "change", error.why, tuple(error.facts.items()), remedy="change-choice")
    template = found.workload.template if found and found.workload else None
    if found and isinstance(found.copy, dict) and template is not None and found.workload:
        if overlaps(found.workload, found.copy):
            yield _warn(draft, "change", "overlap", (("workload", found.workload.key),))
        over = shared_budgets(_budgets(draft), found.copy)
        if over:
            yield _warn(draft, "change", "shared-budget", (("budgets", ", ".join(over)),))


def owner(draft: Draft) -> Iterator[Check]:
    """Nobody else is in charge of it: a controller takes an edit back within seconds, a repository with its next sync."""
    found = draft.facts.release
    if found is None:
        return
    pair, workload = found.pair, found.workload
    if pair is not None and pair.owned_by:
        yield _block(draft, "owner", "controller", (("by", pair.owned_by),), remedy="promote-there")
    if pair is not None and pair.synced_by and found.kind in SWITCHES:
        yield _warn(draft, "owner", "synced", (("by", pair.synced_by),))
    if workload is None:
        return
    meta = workload.metadata
    above = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), None)
    if above is not None:
        evidence: Facts = (("by", f"{above.get('kind')} {above.get('name')}"), ("workload", workload.key))
        yield _block(draft, "owner", "operator", evidence, remedy="change-owner", waivable_by=APPROVER)
    marks = {*(meta.get("annotations") or {}), *(meta.get("labels") or {})}
    if (by := next((name for name in SYNCED if name in marks), "")) and found.kind not in SWITCHES:
        yield _warn(draft, "owner", "synced", (("by", by),))


def scaler(draft: Draft) -> Iterator[Check]:
    """An autoscaler puts replicas back; one that is at 0 does not scale."""
    found = draft.facts.release
    if found is None or not isinstance(found.replicas, int):
        return
    if found.scalers is None:
        yield _warn(draft, "scaler", "unreadable")
    elif found.scalers:
        evidence: Facts = (("autoscaler", ", ".join(found.scalers)),)
        if found.replicas:
            yield _block(draft, "scaler", "autoscaled", evidence, remedy="change-autoscaler", waivable_by=OPERATOR)
        else:
            yield _warn(draft, "scaler", "disabled", evidence)


def sides(draft: Draft) -> Iterator[Check]:
    """All requests would go to Ready pods of one side, and to all of it."""
    found = draft.facts.release
    if found is None or found.service is None:
        return
    if found.kind == "way-back" and found.way_back is None:
        yield _block(draft, "sides", "no-way-back", remedy="switch-again")
    elif found.pair is not None and found.to is None:
        names = ", ".join(side.name for side in found.pair.idle or found.pair.sides)
        yield _block(draft, "sides", "which", (("sides", names),), remedy="choose-side")
    elif found.kind == "way-back" and found.preview is None:
        yield _block(draft, "sides", Fault.EMPTY, remedy="scale-first")
    else:
        yield from _faults(draft, found)


def _faults(draft: Draft, found: Release) -> Iterator[Check]:
    preview, to = found.preview, found.to
    if preview is None or to is None or found.kind not in SWITCHES:
        return
    evidence: Facts = (
        ("side", to.name),
        ("ready", preview.after.ready.get(to.key, 0)),
        ("wants", to.replicas),
        ("others", preview.after.total - preview.after.ready.get(to.key, 0)),
    )
    for fault in preview.faults:
        if fault is Fault.OWNED:
            continue  # a guard of its own
        remedy = "scale-first" if fault in {Fault.EMPTY, Fault.FEWER} else "look-at-labels"
        yield _block(draft, "sides", fault, evidence, remedy, WAIVABLE[found.kind].get(fault, ""))
    pair = found.pair
    if pair is not None and pair.state is not Live.ONE and found.kind == "switch":
        yield _warn(draft, "sides", f"was-{pair.state}", evidence)


def spare_kept(draft: Draft) -> Iterator[Check]:
    """The old side stays for as long as the way back is promised; the one that serves is never retired."""
    found = draft.facts.release
    if found is None or found.pair is None or found.to is None or found.kind != "retire":
        return
    evidence: Facts = (("side", found.to.name), ("gpus", found.to.gpus))
    if found.to.key in found.pair.live or found.pair.state is not Live.ONE:
        yield _block(draft, "spare", "serves", evidence, remedy="switch-first")
    back, keep_s = found.way_back, draft.facts.policy.blue_green.keep_s
    if back is not None and draft.facts.now - back.at < keep_s:
        left_s = keep_s - (draft.facts.now - back.at)
        yield _block(draft, "spare", "too-early", (*evidence, ("left_s", left_s)), "wait", APPROVER)
    elif back is not None:
        yield _warn(draft, "spare", "closes-way-back", evidence)


def smoke_passed(draft: Draft) -> Iterator[Check]:
    """Every Ready pod of the side that would serve has answered as it should, a moment ago."""
    found = draft.facts.release
    if found is None or found.to is None or found.kind != "switch":
        return
    if isinstance(found.asked, RequestError):
        if found.asked.why == UNDECLARED:
            yield _block(draft, "smoke", "undeclared", remedy="declare-smoke-test", waivable_by=APPROVER)
        else:
            evidence: Facts = (("what", found.asked.why),)
            yield _block(draft, "smoke", "unacceptable", evidence, remedy="correct-smoke-test")
        return
    bad = [verdict for verdict in found.tested if not verdict.passed]
    for verdict in bad:
        evidence = (
            ("path", found.asked.path),
            ("status", verdict.status),
            ("latency_s", round(verdict.latency_s, 3)),
            ("found", verdict.found),
        )
        subject = f"{found.namespace}/{verdict.pod}"
        yield Check("smoke", Outcome.BLOCK, verdict.fault, subject, evidence, "look-at-pod", APPROVER)
    if not found.tested and found.candidates:
        yield _block(draft, "smoke", "not-asked", remedy="compute-again")


def room(draft: Draft) -> Iterator[Check]:
    """There is a hole for every pod that is added: a whole copy, more replicas, or what a rolling update adds before it takes."""
    found = draft.facts.release
    if found is None or found.workload is None:
        return
    if found.kind in {"create-green", "scale"}:
        yield from _added(draft, found)
    elif found.rolled is not None and found.kind == "resume":
        yield from _rolled(draft, found, found.rolled, found.workload.template)
    elif found.rolled is not None and found.template is not None and not found.workload.paused:
        yield from _rolled(draft, found, found.rolled, found.template)


def _added(draft: Draft, found: Release) -> Iterator[Check]:
    template, count = found.template, 0
    if found.workload is not None and found.kind == "create-green":
        count = found.workload.replicas
    elif found.workload is not None and isinstance(found.replicas, int):
        template, count = found.workload.template, found.replicas - found.workload.replicas
    if template is None or count <= 0:
        return
    pod, refused = pod_of(template, found.namespace), Counter[Unfit]()
    placement, placed = _placement(draft), 0
    for _ in range(count):
        where = placement.place(pod)
        if not isinstance(where, str):
            refused = where
            break
        placed += 1
    if placed < count:
        evidence = _shortage(pod, count, placed, refused)
        yield _block(draft, "room", "no-place", evidence, remedy="make-room", waivable_by=APPROVER)


def _shortage(pod: FullPod, count: int, placed: int, refused: Counter[Unfit]) -> Facts:
    why: Facts = tuple((f"nodes-{reason}", nodes) for reason, nodes in refused.most_common())
    return (("gpus", gpus(pod)), ("pods", count), ("placed", placed), *why)


def _rolled(draft: Draft, found: Release, rolled: Rolled, template: Json) -> Iterator[Check]:
    limits = rollouts.bounds_of(rolled)
    if limits is None or not (replicas := limits.min_available + limits.unavailable):
        return
    pod, mine = (
        pod_of(template, found.namespace),
        draft.facts.of_owner.get(found.workload.key if found.workload else "", []),
    )
    if not gpus(pod):
        return
    ground = Ground(
        replicas=replicas,
        gpus=gpus(pod),
        old_gpus=max(map(gpus, mine), default=0),
        free=strategy.surveyed(_places(draft), pod, gpus(pod), replicas),
        old=Counter(
            one.spec.node_name for one in mine if one.spec.node_name and one.metadata.deletion_timestamp is None
        ),
        present=limits,
    )
    advice = strategy.advise(ground)
    present = advice.strategies[-1]
    if not present.finishes:
        evidence: Facts = (
            ("gpus", ground.gpus),
            ("pods", replicas),
            ("placed", present.placed),
            ("surge", present.surge),
            ("unavailable", present.unavailable),
            ("more_gpus", present.more_gpus),
            ("largest", advice.largest),
        )
        remedy = "surge-none" if advice.best is Kind.REPLACE_ONE else "make-room"
        yield _block(draft, "room", "no-surge", evidence, remedy=remedy, waivable_by=APPROVER)


def _places(draft: Draft) -> list[Place]:
    """Nodes that another action empties take nobody."""
    facts, by_node = draft.facts, dict[str, list[FullPod]]()
    emptied = {other.target for other in facts.running}
    for pod in facts.pods:
        by_node.setdefault(pod.spec.node_name, []).append(pod)
    return [
        Place(node, by_node.get(node.metadata.name, ()), degraded=node.metadata.name in facts.degraded)
        for node in facts.nodes
        if node.metadata.name not in emptied
    ]


def _placement(draft: Draft) -> Placement:
    """Pods that still look for a node come first."""
    placement = Placement(_places(draft), draft.facts.claims, draft.facts.storage)
    placement.place_all([pod for pod in draft.facts.pods if waiting(pod)])
    return placement


def rolling(draft: Draft) -> Iterator[Check]:
    """Another rollout is under way: what comes now begins it anew."""
    found = draft.facts.release
    rolled = found.rolled if found else None
    if rolled is None:
        return
    now = rollouts.progress(rolled)
    if now.verdict in {Verdict.ROLLING, Verdict.FAILED, Verdict.NOT_OBSERVED}:
        yield _warn(draft, "rolling", now.verdict, (("step", now.step), ("have", now.have), ("want", now.want)))


def accepted(draft: Draft) -> Iterator[Check]:
    """The API server's own answer to the change, in a dry run."""
    found = draft.facts.release
    if found is not None and found.refusal:
        yield _block(draft, "accepted", "refused", (("message", found.refusal),), remedy="see-message")


def _budgets(draft: Draft) -> Iterator[Budget]:
    namespace = draft.facts.release.namespace if draft.facts.release else ""
    return (budget for budget in draft.facts.budgets or () if budget.metadata.namespace == namespace)


def _block(
    draft: Draft, guard: str, reason: str, evidence: Facts = (), remedy: str = "", waivable_by: str = ""
) -> Check:
    return Check(guard, Outcome.BLOCK, reason, draft.facts.target, evidence, remedy, waivable_by)


def _warn(draft: Draft, guard: str, reason: str, evidence: Facts = ()) -> Check:
    return Check(guard, Outcome.WARN, reason, draft.facts.target, evidence)
