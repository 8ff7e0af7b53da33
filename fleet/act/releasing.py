"""The steps of releases: change a workload, wait for its rollout, test, switch and prove a Service, make the other side.

Owns how each is done once more without harm after a crash, and what counts as its evidence. Must not know the order of steps. A
workload's version changes with its status: what was shown is its generation. A Service has none: what was shown is its version.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fleet.act import plan_of
from fleet.act.asking import ask
from fleet.act.steps import CONFLICT_S, Done, Failed, Outcome, Skipped, Wait, Work
from fleet.domain import blue_green, green_sides, kube, releases, revisions, rollouts, smoke, switching
from fleet.domain.capacity import finished
from fleet.domain.objects import Service
from fleet.domain.pods import is_ready
from fleet.domain.release_kinds import TO
from fleet.domain.releases import TYPES, UNDECLARED, Release, parts
from fleet.domain.revisions import ChangeError, Patch, Workload
from fleet.domain.rollouts import Verdict
from fleet.domain.specs import FullPod
from fleet.ports import PortError

LOOK_S = 1.0
ENDPOINTS_LOOK_S = 0.2  # a slice follows its Service within 0.04-0.12 s
STALE_S = 15.0  # so long the condition of the rollout before may still stand
SAFE = frozenset({"pause"})

GONE = Failed("workload-gone")


def change(work: Work) -> Outcome:
    """Write the patch on exactly the spec that was shown."""
    found = _workload(work, work.step.subject)
    if found is None or found.uid != work.step.facts.get("uid"):
        return GONE
    release = _release(work, found)
    if _achieved(work, release, found):
        return Done({"generation": found.generation})
    if refused := _changed(work, release, found) or _stopped(work):
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
    return Done({"generation": done.generation if done else found.generation + 1})


def _release(work: Work, found: Workload) -> Release:
    op = str(work.step.facts.get("op") or work.action.kind)
    holders = work.site.changer.read_holders(found) if op == "undo" else ()
    options = {name: str(value) for name, value in plan_of(work.action).options}
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


def _stopped(work: Work) -> Failed | None:
    """A freeze that began since the confirmation; for a side that is retired, that it serves again."""
    if work.action.kind in SAFE:
        return None
    freeze = work.site.policy.frozen("", work.now())
    if freeze is not None and not work.waived(f"freeze:{work.action.target}", "frozen"):
        return Failed("frozen", {"why_frozen": freeze.reason})
    if work.action.kind == "retire":
        service, found = _service(work), _workload(work, work.step.subject)
        labels = (found.template.get("metadata") or {}).get("labels") or {} if found else {}
        if service is not None and blue_green.selects(service.spec.selector, labels):
            return Failed("serves-again")
    return None


def rollout(work: Work) -> Outcome:
    """Until `kubectl rollout status` would call it done. A controller that gave up goes on trying all the same; we say so."""
    found = _workload(work, work.step.subject)
    if found is None:
        return GONE
    rolled = msgspec.convert(kube.without_nulls(found.raw), TYPES[found.kind])
    uid = next(
        (s.facts.get("uid", "") for s in work.action.steps.all() if s.subject == work.step.subject and "op" in s.facts),
        "",
    )
    now = rollouts.progress(rolled, str(uid))
    evidence = {"waits_for": now.step.value, "have": now.have, "want": now.want}
    fresh = work.now() - (work.step.started_at or 0.0) <= STALE_S
    ends: Mapping[Verdict, Outcome] = {
        Verdict.DONE: Done(evidence),
        Verdict.MANUAL: Skipped({"manual": True}),
        Verdict.GONE: GONE,
        Verdict.PAUSED: Failed("paused", evidence),
        Verdict.FAILED: Wait(LOOK_S, evidence) if fresh else Failed("rollout-stuck", evidence),
    }
    return ends.get(now.verdict, Wait(LOOK_S, evidence))


# Services


def test(work: Work) -> Outcome:
    """Ask every Ready pod of the side that shall serve once more: minutes may lie between the plan and now."""
    side = _side(work)
    service, found = _service(work), _workload(work, side)
    if service is None or found is None:
        return GONE
    options = {name: str(value) for name, value in plan_of(work.action).options}
    release = Release("switch", work.action.target, options, work.now(), workload=found, service=service)
    if isinstance(release.asked, smoke.RequestError):
        lifted = release.asked.why == UNDECLARED and work.waived(f"smoke:{work.action.target}", UNDECLARED)
        told = {"reason": release.asked.why}
        return Skipped(told) if lifted else Failed("smoke-failed", told)
    pods = [pod for pod in _selected(work, _wanted(work), found) if is_ready(pod)]
    verdicts = ask(work.site.changer, pods, release.asked)
    namespace = parts(work.action.target)[1]
    bad = [v for v in verdicts if not (v.passed or work.waived(f"smoke:{namespace}/{v.pod}", v.fault))]
    evidence = {
        "pods": len(verdicts),
        "passed": sum(v.passed for v in verdicts),
        "slowest_s": round(max((v.latency_s for v in verdicts), default=0.0), 3),
        "faults": [{"pod": v.pod, "fault": v.fault, "status": v.status, "found": v.found} for v in bad],
    }
    return Failed("smoke-failed", evidence) if bad or not verdicts else Done(evidence)


def switch(work: Work) -> Outcome:
    """Write the selector on exactly the version of the Service that was shown; on any other one the plan is void."""
    service, wanted = _service(work), _wanted(work)
    if service is None:
        return Failed("service-gone")
    back = switching.way_back(service)
    if service.spec.selector == wanted and back is not None and back.action == work.action.name:
        return Done({"version": service.metadata.resource_version, "was": back.was})
    if service.metadata.resource_version != work.step.facts.get("version"):
        return Failed("superseded", {"by": back.action if back else "", "selector": dict(service.spec.selector)})
    stopped = _stopped(work) if work.action.kind == "switch" else None
    return stopped or _not_ready(work, wanted) or _select(work, service, wanted)


def _select(work: Work, service: Service, wanted: Mapping[str, str]) -> Outcome:
    if work.late:
        return Wait(CONFLICT_S)
    was = dict(service.spec.selector)
    work.claim.check()
    try:
        done = work.site.changer.select(service, wanted, switching.note(was, wanted, work.now(), work.action.name))
    except PortError as error:
        if error.status == 409:
            return Failed("superseded", {"by": ""})
        raise
    return Done({"version": done.metadata.resource_version, "was": was})


def _not_ready(work: Work, wanted: Mapping[str, str]) -> Failed | None:
    """Whether a pod of the side has lost Ready since the confirmation, or others came under the selector."""
    found = _workload(work, _side(work))
    if found is None:
        return GONE
    everybody = _reached(work, wanted)
    mine = _owned(work, found, everybody)
    ready, strays = sum(map(is_ready, mine)), len(everybody) - len(mine)
    evidence = {"ready": ready, "wants": found.replicas, "others": strays}
    target = f"sides:{work.action.target}"
    if not ready:
        return Failed("not-ready", evidence)
    if strays and not work.waived(target, switching.Fault.MIXED):
        return Failed("mixed", evidence)
    if (ready < found.replicas or ready < len(mine)) and not work.waived(target, switching.Fault.FEWER):
        return Failed("not-ready", evidence)
    return None


def endpoints(work: Work) -> Outcome:
    """The slices of the Service have Ready pods of the side alone: that, and no answer to a patch, is the switch."""
    _, namespace, name = parts(work.action.target)
    service, wanted = _service(work), _wanted(work)
    if service is None:
        return Failed("service-gone")
    if service.spec.selector != wanted:
        return Failed("superseded", {"selector": dict(service.spec.selector)})
    pods = _reached(work, wanted)
    served = switching.served(work.site.changer.read_slices(namespace, name))
    proof = switching.proof(served, {pod.metadata.uid for pod in pods})
    evidence = {"right": proof.right, "wrong": proof.wrong}
    ready = sum(map(is_ready, pods))
    return Done(evidence) if proof.whole and proof.right >= ready else Wait(ENDPOINTS_LOOK_S, evidence)


# The other side


def create(work: Work) -> Outcome:
    """Make the Deployment, once: one of that name which is not ours stays as it is."""
    there = _workload(work, work.step.subject)
    if there is not None:
        ours = (there.metadata.get("annotations") or {}).get(green_sides.CREATED) == work.action.name
        return Done({"uid": there.uid}) if ours else Failed("exists", {"name": there.metadata.get("name")})
    blue = _workload(work, str(work.step.facts.get("of")))
    if blue is None or blue.uid != work.step.facts.get("uid"):
        return GONE
    if blue.generation != work.step.facts.get("generation"):
        return Failed("changed", {"generation": blue.generation})
    return _stopped(work) or _copied(work, blue)


def _copied(work: Work, blue: Workload) -> Outcome:
    _, namespace, name = parts(work.step.subject)
    try:
        made = _copy(work, blue, name)
    except ChangeError as error:
        return Failed("refused", {"reason": error.why})
    if work.late:
        return Wait(CONFLICT_S)
    work.claim.check()
    return _made(work, "Deployment", namespace, made)


def _copy(work: Work, blue: Workload, name: str) -> revisions.Json:
    options = {key: str(value) for key, value in plan_of(work.action).options}
    labels = str(work.step.facts.get("labels") or "").split(",")
    chosen = releases.images(blue, options["image"]) if options.get("image") else {}
    return green_sides.green(blue, labels, options.get("version", ""), chosen, name, work.action.name)


def budget(work: Work) -> Outcome:
    """Its own budget, unless one is over its pods already: with two of them no pod could be evicted."""
    _, namespace, name = parts(work.step.subject)
    made = _workload(work, work.step.subject)
    if made is None:
        return GONE
    blue = _workload(work, str(work.step.facts.get("of")))
    budgets = work.site.changer.read_budgets(namespace=namespace)
    over = green_sides.shared_budgets(budgets, made.raw)
    if over:
        own = over == (name,)
        return Done({"budget": name}) if own else Skipped({"shared": ", ".join(over)})
    names = green_sides.shared_budgets(budgets, blue.raw) if blue else ()
    wanted = green_sides.budget(made.raw, [b for b in budgets if b.metadata.name in names], work.action.name)
    if work.late:
        return Wait(CONFLICT_S)
    work.claim.check()
    return _made(work, "PodDisruptionBudget", namespace, wanted)


def _made(work: Work, kind: str, namespace: str, body: revisions.Json) -> Outcome:
    """Created; or somebody was faster with that name, which the next look will tell."""
    try:
        made = work.site.changer.create(kind, namespace, body)
    except PortError as error:
        if error.status == 409:
            return Wait(CONFLICT_S)
        raise
    return Done({"uid": made["metadata"]["uid"]})


# Reading


def _workload(work: Work, key: str) -> Workload | None:
    kind, namespace, name = parts(key)
    return work.site.changer.read_workload(kind, namespace, name) if kind in TYPES else None


def _service(work: Work) -> Service | None:
    """The target as it is now; None when it is gone, or another Service has its name."""
    _, namespace, name = parts(work.action.target)
    found = work.site.changer.read_service(namespace, name)
    return found if found is not None and found.metadata.uid == work.action.target_uid else None


def _side(work: Work) -> str:
    """The workload that shall serve, by the step that switches."""
    return next((str(s.facts["side"]) for s in work.action.steps.all() if s.facts.get("side")), "")


def _wanted(work: Work) -> dict[str, str]:
    """The selector that shall be, by the step that switches."""
    found = (s.facts for s in work.action.steps.all() if any(name.startswith(TO) for name in s.facts))
    facts: Mapping[str, Any] = next(found, {})
    return {name.removeprefix(TO): str(value) for name, value in facts.items() if name.startswith(TO)}


def _reached(work: Work, selector: Mapping[str, str]) -> list[FullPod]:
    """The pods that would be endpoints."""
    found = work.site.changer.read_selected(parts(work.action.target)[1], selector)
    return [pod for pod in found if pod.metadata.deletion_timestamp is None and not finished(pod)]


def _selected(work: Work, selector: Mapping[str, str], workload: Workload) -> list[FullPod]:
    return _owned(work, workload, _reached(work, selector))


def _owned(work: Work, workload: Workload, pods: Iterable[FullPod]) -> list[FullPod]:
    """Those of this workload, by the chain of controllers."""
    uids = {workload.uid}
    if workload.kind == "Deployment":
        for holder in work.site.changer.read_holders(workload):
            owners = holder["metadata"].get("ownerReferences") or ()
            if any(one.get("uid") == workload.uid for one in owners):
                uids.add(holder["metadata"]["uid"])
    return [pod for pod in pods if pod.controller is not None and pod.controller.uid in uids]


def _noted(work: Work, evidence: Mapping[str, Any]) -> None:
    """Written down before the request, for whoever takes over."""
    work.step.evidence = {**work.step.evidence, **evidence}
    work.step.save(update_fields=["evidence"])
