"""Guards about a workload that is changed and a Service that is switched: can it be done, will it last, does the new side work,
does somebody go on answering?

Owns one function per guard, from a draft to what it found. A guard that finds nothing passes. Must not know which actions run it.
"""

from collections.abc import Iterator

from fleet.domain import rollouts
from fleet.domain.blue_green import SYNCED, Live, selects
from fleet.domain.facts import place
from fleet.domain.green_sides import labels_of, overlaps, shared_budgets, single_volumes
from fleet.domain.losses import Draft
from fleet.domain.objects import Budget
from fleet.domain.outages import outages
from fleet.domain.plans import Check, Facts, Outcome
from fleet.domain.releases import SCALES, UNDECLARED, Release
from fleet.domain.revisions import ChangeError, Json, Patch
from fleet.domain.rollouts import Verdict
from fleet.domain.smoke import RequestError
from fleet.domain.switching import Fault

APPROVER = "approver"
OPERATOR = "operator"

SWITCHES = frozenset({"switch", "way-back"})
WRITTEN = frozenset({"undo", "set-image", "scale"})  # kinds that write what a package's next upgrade writes as well
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
    elif found.going:
        yield _block(draft, "subject-known", "going", (("what", found.going),), remedy="check-name")


def pools(draft: Draft) -> tuple[str, ...]:
    """Of the nodes on which the workload's pods run, as far as nodes were read."""
    found = draft.facts.release
    key = found.workload.key if found and found.workload else ""
    nodes = {pod.spec.node_name for pod in (found.pods.get(key, ()) if found else ())}
    return tuple(sorted({place(node)[0] for node in draft.facts.nodes if node.metadata.name in nodes} - {""}))


def freeze(draft: Draft) -> Iterator[Check]:
    """In a freeze nothing is changed but what makes things safe."""
    now, policy = draft.facts.now, draft.facts.policy
    found = next(filter(None, (policy.frozen(pool, now) for pool in ("", *pools(draft)))), None)
    if draft.facts.release is not None and found is not None:
        evidence: Facts = (("until_at", found.end.timestamp()), ("why", found.reason or None))
        yield _block(draft, "freeze", "frozen", evidence, remedy="wait-for-window", waivable_by=APPROVER)


def change_possible(draft: Draft) -> Iterator[Check]:
    """The change can be made at all, and changes something."""
    found = draft.facts.release
    for error in (found.change, found.copy) if found else ():
        if isinstance(error, ChangeError):
            yield _block(draft, "change", error.why, tuple(error.facts.items()), remedy="change-choice")
    if found is not None and isinstance(found.copy, dict) and found.workload is not None:
        yield from _copied(draft, found, found.copy)


def _copied(draft: Draft, found: Release, copy: Json) -> Iterator[Check]:
    """A copy is nobody's yet: no Service sends it requests, no other workload has its labels, no budget its name."""
    labels, name = labels_of(copy), copy["metadata"]["name"]
    if found.service is not None and selects(found.service.spec.selector, labels):
        yield _block(draft, "change", "serves-at-once", (("service", found.service.key),), remedy="selector-tells")
    for service in draft.facts.services or ():
        mine = found.service is not None and service.key == found.service.key
        if not mine and service.metadata.namespace == found.namespace and selects(service.spec.selector, labels):
            yield _warn(draft, "change", "serves-too", (("service", service.key),))
    sides = found.pair.sides if found.pair else ()
    for other in (side for side in sides if side.selector and side.key != (found.to.key if found.to else "")):
        if selects(other.selector, labels):
            yield _block(draft, "change", "version-taken", (("side", other.name),), remedy="change-choice")
    if found.workload is not None and overlaps(found.workload, copy):
        yield _warn(draft, "change", "overlap", (("workload", found.workload.key),))
    over = shared_budgets(_budgets(draft), copy)
    if over:
        yield _warn(draft, "change", "shared-budget", (("budgets", ", ".join(over)),))
    elif name in {budget.metadata.name for budget in _budgets(draft)}:
        yield _block(draft, "change", "budget-exists", (("name", name),), remedy="change-choice")
    claims = {
        key.rpartition("/")[2]: c
        for key, c in (draft.facts.claims or {}).items()
        if key.startswith(f"{found.namespace}/")
    }
    if held := single_volumes(copy, claims):
        yield _warn(draft, "change", "one-node-volume", (("claims", ", ".join(held)),))


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
    yield from _owned(draft, found, workload.metadata, workload.key)


def _owned(draft: Draft, found: Release, meta: Json, key: str) -> Iterator[Check]:
    above = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), None)
    if above is not None:
        evidence: Facts = (("by", f"{above.get('kind')} {above.get('name')}"), ("workload", key))
        yield _block(draft, "owner", "operator", evidence, remedy="change-owner", waivable_by=APPROVER)
    marks = {*(meta.get("annotations") or {}), *(meta.get("labels") or {})}
    if (by := next((name for name in SYNCED if name in marks), "")) and found.kind not in SWITCHES:
        yield _warn(draft, "owner", "synced", (("by", by),))
    elif found.kind in WRITTEN and (package := _package(meta)):
        yield _warn(draft, "owner", "packaged", (("by", package),))


def _package(meta: Json) -> str:
    """The release of a package manager that has made it; "" none that we can see."""
    release = (meta.get("annotations") or {}).get("meta.helm.sh/release-name", "")
    named = str((meta.get("labels") or {}).get("app.kubernetes.io/managed-by", "")) == "Helm"
    return f"Helm {release}".strip() if release or named else ""


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
    elif found.pair is not None and found.to is None and len(found.pair.sides) == 1:
        yield _block(draft, "sides", "alone", remedy="make-side")
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
    if found.to.key in found.pair.live or found.pair.state is Live.BOTH:
        yield _block(draft, "spare", "serves", evidence, remedy="switch-first")
    elif found.pair.state is Live.NEITHER:
        yield _block(draft, "spare", "none-serves", evidence, remedy="switch-first")
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
    elif len(found.tested) < len(found.candidates):
        yield _warn(draft, "smoke", "not-all", (("asked", len(found.tested)), ("ready", len(found.candidates))))


def outage(draft: Draft) -> Iterator[Check]:
    """No Service loses its last Ready pod: a smaller scale takes pods away for good, an update that may go without all of them
    for as long as new ones start."""
    found = draft.facts.release
    if found is None or not draft.going or not (found.kind in SCALES or _all_at_once(found)):
        return
    if draft.facts.services is None:
        yield _block(draft, "outage", "unreadable", remedy="grant", waivable_by=APPROVER)
        return
    lost = outages(draft.facts.services, draft.facts.pods, (pod.metadata.uid for pod in draft.going))
    if lost:
        evidence: Facts = (("services", ", ".join(lost)), ("pods", len(draft.going)))
        yield _block(draft, "outage", "none-left", evidence, remedy="keep-one", waivable_by=APPROVER)


def _all_at_once(found: Release) -> bool:
    """Whether a rollout may leave no pod that is available."""
    limits = rollouts.bounds_of(found.rolled) if found.rolled is not None else None
    return isinstance(found.change, Patch) and limits is not None and not limits.min_available


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
