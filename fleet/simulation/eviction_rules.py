"""Whether a pod may be evicted now: the rules of the eviction subresource, without any I/O.

Follows kubernetes/pkg/registry/core/pod/storage/eviction.go (1.36). Owns the decision, its texts, and what a charge does to
a budget's status. Must not read or write the store, nor know HTTP; eviction.py does both.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from fleet.simulation import podstatus
from fleet.simulation.deletion import timestamp
from fleet.simulation.label_selectors import LabelSelector
from fleet.simulation.refusals import ApiError

Object = dict[str, Any]

MOST_DISRUPTED = 2000
RETRY_AFTER_S = 10
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class Way(StrEnum):
    """How an eviction that is allowed goes on."""

    DELETE = "delete"
    DELETE_UNCHANGED = "delete if the pod is still as it was when this was decided"
    CHARGE = "charge the budget, then delete"


class Decision(msgspec.Struct, frozen=True):
    way: Way
    budget: Object | None = None


def decide(pod: Object, budgets: Iterable[Object]) -> Decision:
    """What to do with `pod`, given every budget of its namespace; ApiError 500 when two of them select it.

    A CHARGE may still be refused: see `charged`.
    """
    if ignores_budgets(pod):
        pending = pod["status"].get("phase") == "Pending" and not podstatus.is_terminating(pod)
        return Decision(Way.DELETE_UNCHANGED if pending else Way.DELETE)
    mine = [b for b in budgets if selects(b, pod)]
    if len(mine) > 1:
        raise ApiError(500, "", TWO_BUDGETS)
    if not mine:
        return Decision(Way.DELETE)
    return Decision(_way(pod, mine[0]), mine[0])


def ignores_budgets(pod: Object) -> bool:
    """Pods that have ended, not begun, or are already going protect nothing."""
    return pod["status"].get("phase") in {"Succeeded", "Failed", "Pending"} or podstatus.is_terminating(pod)


def selects(budget: Object, pod: Object) -> bool:
    """A budget without a selector selects nothing, one with an empty selector every pod of its namespace."""
    metadata, selector = pod["metadata"], budget["spec"].get("selector")
    if selector is None or budget["metadata"]["namespace"] != metadata["namespace"]:
        return False
    return LabelSelector.from_object(selector).matches(metadata.get("labels") or {})


def _way(pod: Object, budget: Object) -> Way:
    """An unready pod costs nothing where the policy says so, or while enough others are healthy."""
    if podstatus.is_ready(pod):
        return Way.CHARGE
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return Way.DELETE_UNCHANGED
    status = budget.get("status", {})
    enough = status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0
    return Way.DELETE_UNCHANGED if enough else Way.CHARGE


def charged(budget: Object, pod: str, at: float) -> Object:
    """The budget with one disruption less, for the pod of that name; ApiError 429 or 403 when it allows none."""
    status = budget.get("status", {})
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise still_processed(name)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise _forbidden(name, why)
    if allowed == 0:
        raise _refused(_why_not(name, status))
    new = {**status, "disruptionsAllowed": allowed - 1}
    new["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: timestamp(at)}
    if allowed == 1:
        new["conditions"] = _insufficient(status.get("conditions") or [], status, at)
    return {**budget, "status": new}


def _why_not(name: str, status: Object) -> str:
    condition = podstatus.condition(status, "DisruptionAllowed") or {}
    told = condition.get("message", "") if condition.get("status") == "False" else ""
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    not_now = f"The disruption budget {name} does not allow evicting pods currently"
    if told and condition["reason"] == "SyncFailed":  # the counts mean nothing then
        return f"{not_now} because it failed sync: {told}"
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return f"{not_now} ({condition['reason']}): {told}" if told else not_now


def _insufficient(conditions: list[Object], status: Object, at: float) -> list[Object]:
    """The condition as the last disruption leaves it."""
    old: Object = next((c for c in conditions if c["type"] == "DisruptionAllowed"), {})
    since = old["lastTransitionTime"] if old.get("status") == "False" else timestamp(at)
    made: Object = {"type": "DisruptionAllowed", "status": "False"}
    if status.get("observedGeneration"):
        made["observedGeneration"] = status["observedGeneration"]
    made |= {"lastTransitionTime": since, "reason": "InsufficientPods", "message": ""}
    return [*(c for c in conditions if c["type"] != "DisruptionAllowed"), made]


def _refused(cause: str, retry_after_s: int = 0) -> ApiError:
    """429. There is a Retry-After only where the server knows one."""
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    headers = {}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
        headers = {"retry-after": str(retry_after_s)}
    return ApiError(429, "TooManyRequests", REFUSED, details, headers)


def still_processed(budget: str) -> ApiError:
    """429 for a budget whose controller has not seen its present form, or whose pod changed meanwhile."""
    return _refused(f"The disruption budget {budget} is still being processed by the server.", RETRY_AFTER_S)


def too_many_conflicts(budget: str) -> ApiError:
    """504 when the charge could not be written, however often it was tried."""
    message = f'Timeout: couldn\'t update PodDisruptionBudget "{budget}" due to conflicts'
    details = {"retryAfterSeconds": RETRY_AFTER_S}
    return ApiError(504, "Timeout", message, details, {"retry-after": str(RETRY_AFTER_S)})


def _forbidden(budget: str, why: str) -> ApiError:
    details = {"name": budget, "group": "policy", "kind": "poddisruptionbudget"}
    return ApiError(403, "Forbidden", f'poddisruptionbudget.policy "{budget}" is forbidden: {why}', details)


def targeted(pod: Object, at: float) -> Object:
    """The pod's status with the condition that says who ended it; the first time it was said stays."""
    status = pod["status"]
    old: Object = podstatus.condition(status, "DisruptionTarget") or {}
    since = old["lastTransitionTime"] if old.get("status") == "True" else timestamp(at)
    made: Object = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None, "lastTransitionTime": since}
    made |= {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
    kept = status.get("conditions") or []
    if old:
        return {**status, "conditions": [made if c is old else c for c in kept]}
    return {**status, "conditions": [*kept, made]}


def check_preconditions(pod: Object, wanted: Object) -> None:
    """ApiError 409 when the pod is not the one, or not the version, that the caller means."""
    metadata = pod["metadata"]
    for field, name, guess in (
        ("uid", "UID", "The object might have been deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "The object might have been modified"),
    ):
        asked, found = wanted.get(field), metadata[field]
        if asked and asked != found:
            why = f"the {name} in the precondition ({asked}) does not match the {name} in record ({found}). {guess}"
            message = f'Operation cannot be fulfilled on Pod "{metadata["name"]}": {why}'
            raise ApiError(409, "Conflict", message, {"name": metadata["name"], "kind": "Pod"})
