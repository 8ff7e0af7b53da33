"""What a Deployment says of its rollout: counts and the conditions Available, Progressing and ReplicaFailure.

Follows kubernetes/pkg/controller/deployment (sync.go, progress.go). Pure: objects and a time in, a status out.
"""

from typing import Any

from fleet.simulation.clock import parse_stamp, stamp
from fleet.simulation.ownership import without_zeros
from fleet.simulation.rollout_steps import available, size, surge_and_unavailable

Object = dict[str, Any]

NO_DEADLINE = 2**31 - 1


def condition(status: Object, kind: str) -> Object | None:
    found: Object | None = next((c for c in status.get("conditions") or () if c["type"] == kind), None)
    return found


def new_condition(kind: str, value: str, reason: str, message: str, at: float) -> Object:
    now = stamp(at)
    return {
        "type": kind,
        "status": value,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def set_condition(status: Object, made: Object) -> None:
    """Replace the condition of the same type, unless it says the same; a lasting status keeps its transition time."""
    old = condition(status, made["type"])
    if old is not None:
        if old["status"] == made["status"] and old["reason"] == made["reason"]:
            return
        if old["status"] == made["status"]:
            made["lastTransitionTime"] = old["lastTransitionTime"]
    drop_condition(status, made["type"])
    status.setdefault("conditions", []).append(made)


def drop_condition(status: Object, kind: str) -> None:
    left = [c for c in status.get("conditions") or () if c["type"] != kind]
    if left:
        status["conditions"] = left
    else:
        status.pop("conditions", None)


def deadline_s(deployment: Object) -> int | None:
    """progressDeadlineSeconds; None when there is none."""
    deadline: int = deployment["spec"].get("progressDeadlineSeconds", 600)
    return None if deadline == NO_DEADLINE else deadline


def counted(deployment: Object, every: list[Object], newest: Object | None, at: float) -> Object:
    """The status without progress: counts, what there was of conditions, and Available."""
    statuses = [r["status"] for r in every]
    updated = newest["status"].get("replicas", 0) if newest else 0
    ready = sum(s.get("readyReplicas", 0) for s in statuses)
    usable = sum(available(r) for r in every)
    counts = {
        "replicas": sum(s.get("replicas", 0) for s in statuses),
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": usable,
        "unavailableReplicas": max(0, sum(size(r) for r in every) - usable),
    }
    status: Object = {"observedGeneration": deployment["metadata"]["generation"], **without_zeros(counts)}
    status["terminatingReplicas"] = sum(s.get("terminatingReplicas", 0) for s in statuses)
    if deployment["status"].get("collisionCount"):
        status["collisionCount"] = deployment["status"]["collisionCount"]
    if deployment["status"].get("conditions"):
        status["conditions"] = [dict(c) for c in deployment["status"]["conditions"]]
    _, unavailable = surge_and_unavailable(deployment)
    if usable >= size(deployment) - unavailable:
        reason, value, message = "MinimumReplicasAvailable", "True", "Deployment has minimum availability."
    else:
        reason, value = "MinimumReplicasUnavailable", "False"
        message = "Deployment does not have minimum availability."
    set_condition(status, new_condition("Available", value, reason, message, at))
    return status


def is_complete(deployment: Object, status: Object) -> bool:
    wanted = size(deployment)
    counts = (status.get(f, 0) for f in ("updatedReplicas", "replicas", "availableReplicas"))
    return (
        all(c == wanted for c in counts) and status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    )


def has_progressed(old: Object, new: Object) -> bool:
    def outdated(status: Object) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return outdated(new) < outdated(old) or any(new.get(f, 0) > old.get(f, 0) for f in grown)


def has_timed_out(deployment: Object, status: Object, at: float) -> bool:
    found, deadline = condition(status, "Progressing"), deadline_s(deployment)
    if found is None or deadline is None or found["reason"] == "NewReplicaSetAvailable":
        return False
    if found["reason"] == "ProgressDeadlineExceeded":
        return True
    return parse_stamp(found["lastUpdateTime"]) + deadline < at


def with_progress(deployment: Object, status: Object, newest: Object | None, at: float) -> Object:
    """`status` (as counted) with its condition Progressing brought up to date."""
    if deadline_s(deployment) is None:
        drop_condition(status, "Progressing")
        return status
    before = condition(deployment["status"], "Progressing")
    settled = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    if settled and before is not None and before["reason"] == "NewReplicaSetAvailable":
        return status
    subject = f'ReplicaSet "{newest["metadata"]["name"]}"' if newest else f'Deployment "{_name(deployment)}"'
    if is_complete(deployment, status):
        message = f"{subject} has successfully progressed."
        set_condition(status, new_condition("Progressing", "True", "NewReplicaSetAvailable", message, at))
    elif has_progressed(deployment["status"], status):
        made = new_condition("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.", at)
        if before is not None and before["status"] == "True":
            made["lastTransitionTime"] = before["lastTransitionTime"]
        drop_condition(status, "Progressing")
        set_condition(status, made)
    elif has_timed_out(deployment, status, at):
        message = f"{subject} has timed out progressing."
        set_condition(status, new_condition("Progressing", "False", "ProgressDeadlineExceeded", message, at))
    return status


def with_failures(status: Object, every: list[Object], newest: Object | None) -> Object:
    """`status` with ReplicaFailure as the new ReplicaSet (else any) has it."""
    told = (newest and condition(newest["status"], "ReplicaFailure")) or next(
        (c for r in every if (c := condition(r["status"], "ReplicaFailure"))), None
    )
    if told:
        moment = told["lastTransitionTime"]
        failed = {"type": "ReplicaFailure", "status": told["status"], "lastUpdateTime": moment}
        failed |= {k: told[k] for k in ("lastTransitionTime", "reason", "message")}
        set_condition(status, failed)
    else:
        drop_condition(status, "ReplicaFailure")
    return status


def _name(deployment: Object) -> str:
    return str(deployment["metadata"]["name"])
