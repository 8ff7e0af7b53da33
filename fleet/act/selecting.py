"""The steps that send a Service's requests to the other side: test it, write the selector, prove it.

Owns how each is done once more without harm after a crash, and what counts as its evidence. Must not know the order of steps. A
Service has no generation: what was shown is its version.
"""

from collections.abc import Mapping

from fleet.act import plan_of, release_facts
from fleet.act.asking import ask
from fleet.act.release_facts import GONE, SERVICE_GONE, forbidden
from fleet.act.steps import CONFLICT_S, Done, Failed, Outcome, Skipped, Wait, Work
from fleet.domain import revisions, smoke, switching
from fleet.domain.objects import Service
from fleet.domain.pods import is_ready
from fleet.domain.releases import UNDECLARED, Release, parts
from fleet.domain.revisions import Workload
from fleet.domain.specs import FullPod
from fleet.ports import PortError

ENDPOINTS_LOOK_S = 0.2  # a slice follows its Service within 0.04-0.12 s


def test(work: Work) -> Outcome:
    """Ask every Ready pod of the side that shall serve once more: minutes may lie between the plan and now."""
    service, found = release_facts.service(work), _side(work)
    if service is None:
        return SERVICE_GONE
    if isinstance(found, Failed):
        return found
    release = Release(
        "switch", work.action.target, release_facts.options(work), work.now(), workload=found, service=service
    )
    if isinstance(release.asked, smoke.RequestError):
        lifted = release.asked.why == UNDECLARED and work.waived(f"smoke:{work.action.target}", UNDECLARED)
        told = {"reason": release.asked.why}
        return Skipped(told) if lifted else Failed("smoke-failed", told)
    return _asked(work, release.asked, [pod for pod in _of_side(work, found) if is_ready(pod)])


def _asked(work: Work, asked: smoke.Request, pods: list[FullPod]) -> Outcome:
    verdicts = ask(work.site.changer, pods, asked)
    namespace = parts(work.action.target)[1]
    bad = [v for v in verdicts if not (v.passed or work.waived(f"smoke:{namespace}/{v.pod}", v.fault))]
    evidence = {
        "answered": len(verdicts),
        "passed": sum(v.passed for v in verdicts),
        "slowest_s": round(max((v.latency_s for v in verdicts), default=0.0), 3),
        "faults": [{"pod": v.pod, "fault": v.fault, "status": v.status, "found": v.found} for v in bad],
    }
    return Failed("smoke-failed", evidence) if bad or not verdicts else Done(evidence)


def switch(work: Work) -> Outcome:
    """Write the selector on exactly the version of the Service that was shown; on any other one the plan is void."""
    service, wanted = release_facts.service(work), release_facts.wanted(work)
    if service is None:
        return SERVICE_GONE
    note = switching.noted(service)
    ours = note is not None and note.action == work.action.name
    if note is not None and ours and service.spec.selector == wanted:
        return Done({"version": service.metadata.resource_version, "was": note.was})
    if service.metadata.resource_version != work.step.facts.get("version"):
        found = {"by": note.action if note else "", "selector": dict(service.spec.selector)}
        return Failed("overwritten" if ours else "superseded", found)
    return forbidden(work) or _not_ready(work, wanted) or _select(work, service, wanted)


def _select(work: Work, service: Service, wanted: Mapping[str, str]) -> Outcome:
    if work.late:
        return Wait(CONFLICT_S)
    was, back = dict(service.spec.selector), work.action.kind == "way-back"
    note = switching.note(was, wanted, work.now(), work.action.name, back=back)
    work.claim.check()
    try:
        done = work.site.changer.select(service, wanted, note)
    except PortError as error:
        # By somebody, or by our own request of before, which nobody answered: the next look tells.
        if error.status == 409:
            return Wait(CONFLICT_S)
        raise
    return Done({"version": done.metadata.resource_version, "was": was})


def _not_ready(work: Work, wanted: Mapping[str, str]) -> Failed | None:
    """Whether a pod of the side has lost Ready since the confirmation, or others came under the selector. What was waived is
    waived for as many Ready pods as were shown."""
    found = _side(work)
    if isinstance(found, Failed):
        return found
    everybody = release_facts.reached(work, wanted)
    mine = release_facts.owned(work, found, everybody)
    ready, strays = sum(map(is_ready, mine)), sum(map(is_ready, everybody)) - sum(map(is_ready, mine))
    evidence = {"ready": ready, "wants": found.replicas, "others": strays}
    if not ready:
        return Failed("not-ready", evidence)
    if strays and not work.waived(f"sides:{work.action.target}", switching.Fault.MIXED):
        return Failed("mixed", evidence)
    fewer = ready < found.replicas or ready + strays < len(everybody)
    return Failed("not-ready", evidence) if fewer and not _accepted(work, ready) else None


def _accepted(work: Work, ready: int) -> bool:
    """Whether somebody has accepted so few Ready pods."""
    check, fewer = f"sides:{work.action.target}", switching.Fault.FEWER
    shown = [dict(c.evidence).get("ready") for c in plan_of(work.action).blocks if (c.key, c.reason) == (check, fewer)]
    return work.waived(check, fewer) and any(ready >= int(count or 0) for count in shown)


def endpoints(work: Work) -> Outcome:
    """The slices of the Service have Ready pods of the side alone: that, and no answer to a patch, is the switch."""
    _, namespace, name = parts(work.action.target)
    service, wanted = release_facts.service(work), release_facts.wanted(work)
    if service is None:
        return SERVICE_GONE
    if service.spec.selector != wanted:
        return Failed("overwritten", {"selector": dict(service.spec.selector)})
    pods = release_facts.reached(work, wanted)
    served = switching.served(work.site.changer.read_slices(namespace, name))
    proof = switching.proof(served, {pod.metadata.uid for pod in pods})
    evidence = {"right": proof.right, "wrong": proof.wrong}
    ready = sum(map(is_ready, pods))
    return Done(evidence) if proof.whole and proof.right >= ready else Wait(ENDPOINTS_LOOK_S, evidence)


def _side(work: Work) -> Workload | Failed:
    """The workload that shall serve, by the step that switches: the one that was shown, and as long as nothing but time presses
    of the very template."""
    found = release_facts.workload(work, release_facts.fact(work, "side"))
    if found is None or found.uid != (release_facts.fact(work, "side_uid") or found.uid):
        return GONE
    template = release_facts.fact(work, "side_template")
    if template and template != revisions.digest(found.template):
        return Failed("changed", {"generation": found.generation})
    return found


def _of_side(work: Work, found: Workload) -> list[FullPod]:
    return release_facts.owned(work, found, release_facts.reached(work, release_facts.wanted(work)))
