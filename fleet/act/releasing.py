"""The steps that change a workload: write it, then wait for its rollout.

Owns how each is done once more without harm after a crash, and what counts as its evidence. Must not know the order of steps. A
workload's version changes with its status: what was shown is its generation.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from django.db import transaction

from fleet.act import release_facts
from fleet.act.release_facts import GONE, SERVICE_GONE, forbidden
from fleet.act.steps import CONFLICT_S, Done, Failed, Outcome, Skipped, Wait, Work
from fleet.domain import blue_green, kube, revisions, rollouts
from fleet.domain.plans import StepKind
from fleet.domain.releases import SCALES, TYPES, Release
from fleet.domain.revisions import ChangeError, Patch, Workload
from fleet.domain.rollouts import Verdict
from fleet.ports import PortError

LOOK_S = 1.0
STALE_S = 15.0  # so long the condition of the rollout before may still stand


def change(work: Work) -> Outcome:
    """Write the patch on exactly the spec that was shown."""
    found = release_facts.workload(work, work.step.subject)
    if found is None or found.uid != work.step.facts.get("uid"):
        return GONE
    release = _release(work, found)
    if _achieved(work, release, found):
        return Done(_written_as(found))
    if refused := _changed(work, release, found) or _stopped(work, release, found):
        return refused
    patch = release.change
    if not isinstance(patch, Patch):
        return Failed("refused", {"reason": patch.why if isinstance(patch, ChangeError) else ""})
    return _written(work, found, patch, release.now)


def _changed(work: Work, release: Release, found: Workload) -> Failed | None:
    """Whether somebody has changed what was shown: the spec, or for an undo the revision."""
    facts = work.step.facts
    if found.generation != facts.get("generation"):
        return Failed("changed", {"generation": found.generation})
    if release.kind == "undo" and (release.revision is None or release.revision.digest != facts.get("template")):
        return Failed("changed", {"revision": facts.get("revision")})
    return None


def _written(work: Work, found: Workload, patch: Patch, at: float) -> Outcome:
    if work.late:
        return Wait(CONFLICT_S)
    _noted(work, {"at": at})
    work.claim.check()
    try:
        done = work.site.changer.change_workload(found, patch)
    except PortError as error:
        if error.status == 409:  # its status has changed: read again
            return Wait(CONFLICT_S)
        raise
    return Done(_written_as(done)) if done else Done({"generation": found.generation + 1})


def _written_as(found: Workload) -> Mapping[str, Any]:
    """What tells later whether somebody has changed it again."""
    return {"generation": found.generation, "template": revisions.digest(found.template)}


def _release(work: Work, found: Workload) -> Release:
    op = str(work.step.facts.get("op") or work.action.kind)
    holders = work.site.changer.read_holders(found) if op == "undo" else ()
    options = release_facts.options(work)
    if revision := work.step.facts.get("revision"):
        options["revision"] = str(revision)
    at = float(work.step.evidence.get("at") or work.now())
    return Release(op, work.action.target, options, at, workload=found, holders=holders)


def _achieved(work: Work, release: Release, found: Workload) -> bool:
    """Whether the workload is as it shall be, by our own hand before a crash or by anybody's."""
    facts = work.step.facts
    match release.kind:
        case "restart":
            marks = (found.template.get("metadata") or {}).get("annotations") or {}
            return "at" in work.step.evidence and marks.get(revisions.RESTARTED) == revisions.stamp(release.now)
        case "pause" | "resume":
            return found.paused is (release.kind == "pause")
        case "undo":
            return bool(revisions.digest(found.template) == facts.get("template"))
        case "scale" | "retire":
            return bool(found.replicas == facts.get("replicas"))
        case _:
            return isinstance(release.change, ChangeError) and release.change.why == "same-image"


def _stopped(work: Work, release: Release, found: Workload) -> Failed | None:
    """What has come since the confirmation: a freeze, or requests to what shall have no pod."""
    if release.kind == "retire":
        service = release_facts.service(work)
        if service is None:
            return SERVICE_GONE
        labels = (found.template.get("metadata") or {}).get("labels") or {}
        if blue_green.selects(service.spec.selector, labels):
            return Failed("serves-again")
    return forbidden(work, found if release.kind in SCALES and release.replicas == 0 else None)


def rollout(work: Work) -> Outcome:
    """Until `kubectl rollout status` would call it done, and of a smaller scale until nobody stops any more. A controller that
    gave up goes on trying all the same; we say so. Somebody else's change on top makes it another rollout than ours."""
    found, ours = release_facts.workload(work, work.step.subject), _before(work)
    if found is None:
        return GONE
    if _overtaken(ours, found):
        return Failed("overtaken", {"generation": found.generation, "replicas": found.replicas})
    rolled = msgspec.convert(kube.without_nulls(found.raw), TYPES[found.kind])
    now = rollouts.progress(rolled, str(ours.get("uid") or ""))
    evidence = {"waits_for": now.step.value, "have": now.have, "want": now.want}
    if now.verdict is Verdict.DONE or (now.verdict is Verdict.MANUAL and _scaled(ours)):
        return _left(work, found, evidence, ours)
    fresh = work.now() - (work.step.started_at or 0.0) <= STALE_S
    ends: Mapping[Verdict, Outcome] = {
        Verdict.MANUAL: Skipped({"manual": True}),
        Verdict.GONE: GONE,
        # A paused one is scaled all the same.
        Verdict.PAUSED: Wait(LOOK_S, evidence) if _scaled(ours) else Failed("paused", evidence),
        Verdict.FAILED: Wait(LOOK_S, evidence) if fresh else Failed("rollout-stuck", evidence),
    }
    return ends.get(now.verdict, Wait(LOOK_S, evidence))


def _before(work: Work) -> dict[str, Any]:
    """What the step before has been told and has written, of this workload."""
    kinds = {StepKind.CHANGE, StepKind.CREATE}
    step = next((s for s in work.action.steps.all() if s.subject == work.step.subject and s.kind in kinds), None)
    if step is None:
        return {}
    made = {"uid": step.evidence["uid"]} if step.kind == StepKind.CREATE and "uid" in step.evidence else {}
    return {**step.facts, **made, "written": step.evidence.get("template")}


def _scaled(ours: Mapping[str, Any]) -> bool:
    return ours.get("op") in SCALES


def _overtaken(ours: Mapping[str, Any], found: Workload) -> bool:
    if _scaled(ours):
        return bool(found.replicas != ours.get("replicas"))
    return bool(ours.get("written") and ours["written"] != revisions.digest(found.template))


def _left(work: Work, found: Workload, evidence: Mapping[str, Any], ours: Mapping[str, Any]) -> Outcome:
    """kubectl does not count pods that stop, and they hold their GPUs: told of a rollout, waited for of a smaller scale."""
    pods = release_facts.pods_of(work, found)
    leaving = sum(pod.metadata.deletion_timestamp is not None for pod in pods)
    told = {**evidence, "leaving": leaving}
    return Wait(LOOK_S, told) if _scaled(ours) and len(pods) > found.replicas else Done(told)


def _noted(work: Work, evidence: Mapping[str, Any]) -> None:
    """Written down before the request, for whoever takes over. Raises LostClaimError when somebody has: theirs counts."""
    work.step.evidence = {**work.step.evidence, **evidence}
    with transaction.atomic():
        work.claim.hold()
        work.step.save(update_fields=["evidence"])
