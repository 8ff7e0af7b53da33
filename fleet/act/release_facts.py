"""What a step of a release stands on, read again before its request: workload, Service, pods, and what forbids it now.

Owns how they are read, and which change of others ends an action. Must not change anything.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fleet.act import plan_of
from fleet.act.steps import Failed, Work
from fleet.domain.capacity import finished
from fleet.domain.objects import Service
from fleet.domain.outages import outages
from fleet.domain.plans import StepKind
from fleet.domain.release_kinds import POOLS, TO
from fleet.domain.releases import TYPES, parts
from fleet.domain.revisions import Workload
from fleet.domain.specs import FullPod
from fleet.ports import PortError

GONE = Failed("workload-gone")
SERVICE_GONE = Failed("service-gone")
SAFE = frozenset({"pause", "way-back"})  # what makes things safe is not held up by a freeze


def workload(work: Work, key: str) -> Workload | None:
    """As it is now; None when it is gone or going."""
    kind, namespace, name = parts(key)
    found = work.site.changer.read_workload(kind, namespace, name) if kind in TYPES else None
    return found if found is not None and not found.metadata.get("deletionTimestamp") else None


def service(work: Work) -> Service | None:
    """The target as it is now; None when it is gone or going, or another Service has its name."""
    _, namespace, name = parts(work.action.target)
    found = work.site.changer.read_service(namespace, name)
    if found is None or found.metadata.uid != work.action.target_uid or found.metadata.deletion_timestamp is not None:
        return None
    return found


def fact(work: Work, name: str) -> str:
    """What the plan says under `name`, in whichever of its steps; "" nothing."""
    return next((str(step.facts[name]) for step in work.action.steps.all() if step.facts.get(name)), "")


def wanted(work: Work) -> dict[str, str]:
    """The selector that shall be, by the step that switches."""
    found = (s.facts for s in work.action.steps.all() if any(name.startswith(TO) for name in s.facts))
    facts: Mapping[str, Any] = next(found, {})
    return {name.removeprefix(TO): str(value) for name, value in facts.items() if name.startswith(TO)}


def options(work: Work) -> dict[str, str]:
    return {name: str(value) for name, value in plan_of(work.action).options}


def reached(work: Work, selector: Mapping[str, str]) -> list[FullPod]:
    """The pods that would be endpoints."""
    found = work.site.changer.read_selected(parts(work.action.target)[1], selector)
    return [pod for pod in found if pod.metadata.deletion_timestamp is None and not finished(pod)]


def pods_of(work: Work, found: Workload) -> list[FullPod]:
    """All that it owns and that have not finished, those that stop as well: they hold their GPUs."""
    namespace = str(found.metadata.get("namespace", ""))
    labels = (found.spec.get("selector") or {}).get("matchLabels") or {}
    changer = work.site.changer
    pods = changer.read_selected(namespace, labels) if labels else changer.read_pods(namespace=namespace)
    return [pod for pod in owned(work, found, pods) if not finished(pod)]


def owned(work: Work, found: Workload, pods: Iterable[FullPod]) -> list[FullPod]:
    """Those of this workload, by the chain of controllers."""
    uids = {found.uid}
    if found.kind == "Deployment":
        for holder in work.site.changer.read_holders(found):
            owners = holder["metadata"].get("ownerReferences") or ()
            if any(one.get("uid") == found.uid for one in owners):
                uids.add(holder["metadata"]["uid"])
    return [pod for pod in pods if pod.controller is not None and pod.controller.uid in uids]


def forbidden(work: Work, emptied: Workload | None = None) -> Failed | None:
    """A freeze that began since the confirmation; of a workload that is scaled to 0, that requests would fail by now."""
    if work.action.kind not in SAFE:
        policy, pools = work.site.policy, ("", *fact(work, POOLS).split(","))
        freeze = next(filter(None, (policy.frozen(pool, work.now()) for pool in pools)), None)
        if freeze is not None and not work.waived(f"freeze:{work.action.target}", "frozen"):
            return Failed("frozen", {"why_frozen": freeze.reason})
    return _serves(work, emptied) if emptied is not None else None


def _serves(work: Work, emptied: Workload) -> Failed | None:
    """Whether a Service sends requests to nobody else. What was waived with its plan stays waived; what came since, nobody knew
    of."""
    namespace, mine = str(emptied.metadata.get("namespace", "")), pods_of(work, emptied)
    try:
        services = work.site.changer.read_services(namespace=namespace)
    except PortError as error:
        if error.status == 403 and work.waived(f"outage:{work.action.target}", "unreadable"):
            return None
        raise
    found = outages(services, work.site.changer.read_pods(namespace=namespace), [pod.metadata.uid for pod in mine])
    known = work.waived(f"outage:{work.action.target}", "none-left")
    new = [key for key in found if not (known and key in _shown(work))]
    return Failed("last-one", {"services": new}) if new else None


def _shown(work: Work) -> set[str]:
    """The Services that the plan has told of."""
    told = (dict(check.evidence).get("services") for check in plan_of(work.action).blocks if check.guard == "outage")
    return {key for text in told for key in str(text or "").split(", ")}


def held(work: Work) -> Failed | None:
    """Why the change that comes later would not be made any more: others have changed its workload, or a freeze has begun."""
    step = next((one for one in work.action.steps.all() if one.kind == StepKind.CHANGE), None)
    if step is None:
        return None
    found = workload(work, step.subject)
    if found is None or found.uid != step.facts.get("uid"):
        return GONE
    if found.generation != step.facts.get("generation"):
        return Failed("changed", {"generation": found.generation})
    return forbidden(work)
