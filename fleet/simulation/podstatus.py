"""The status of a pod at each step of its life, as a kubelet writes it.

Owns the shape and the order of conditions and container statuses. Pure: a pod and a time in, a new status out; what is
not a kubelet's business (PodScheduled, DisruptionTarget) is carried over.
"""

import hashlib
from typing import Any

from fleet.simulation.clock import stamp

Object = dict[str, Any]

UNREADY = "ContainersNotReady"
LIFE_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def image_id(image: str) -> str:
    """A repository digest that stays the same for the same image."""
    repository = image.partition("@")[0].rpartition(":")[0] or image
    return f"{repository}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"


def container_id(pod: Object, container: str, restarts: int) -> str:
    digest = hashlib.sha256(f"{pod['metadata']['uid']}/{container}/{restarts}".encode()).hexdigest()
    return f"containerd://{digest}"


def condition(status: Object, kind: str) -> Object | None:
    found: Object | None = next((c for c in status.get("conditions") or () if c["type"] == kind), None)
    return found


def is_ready(pod: Object) -> bool:
    found = condition(pod["status"], "Ready")
    return found is not None and found["status"] == "True"


def is_terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_finished(pod: Object) -> bool:
    return pod["status"].get("phase") in {"Succeeded", "Failed"}


def creating(pod: Object, host_ip: str, at: float) -> Object:
    """Bound, its containers not yet started."""
    status = _with_conditions(pod, at, started=False, ready=False, reason=UNREADY)
    if condition(status, "PodScheduled") is None:  # bound from the start: no scheduler has said so
        scheduled = _condition(pod, "PodScheduled", "True", None, "", at)
        status["conditions"] = [*status["conditions"], scheduled]
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    containers = [_container(pod, c, waiting, ready=False) for c in pod["spec"]["containers"]]
    status |= {"phase": "Pending", "hostIP": host_ip, "hostIPs": [{"ip": host_ip}], "startTime": stamp(at)}
    return _finish(pod, status, containers)


def not_pulled(pod: Object, reason: str, message: str) -> Object:
    """Waiting for its images, which cannot be had."""
    waiting = {"waiting": {"reason": reason, "message": message}}
    containers = [_container(pod, c, waiting, ready=False) for c in pod["spec"]["containers"]]
    return _finish(pod, dict(pod["status"]), containers)


def running(pod: Object, ip: str, at: float, *, ready: bool, ready_at: float | None = None) -> Object:
    """Its containers run since `at` (or since they were started); `ready` since `ready_at`, default `at`."""
    status = _with_conditions(pod, at, started=True, ready=ready, reason=UNREADY, changed_at=ready_at)
    containers = []
    for container in pod["spec"]["containers"]:
        old = _old_container(pod, container["name"])
        state = old.get("state", {})
        if "running" not in state:
            state = {"running": {"startedAt": stamp(at)}}
        containers.append(_container(pod, container, state, ready=ready))
    status |= {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}
    return _finish(pod, status, containers)


def stopping(pod: Object, at: float) -> Object:
    """Asked to stop: still running, no longer ready."""
    status = _with_conditions(pod, at, started=True, ready=False, reason=UNREADY)
    containers = [{**c, "ready": False} for c in pod["status"].get("containerStatuses") or ()]
    return _finish(pod, status, containers)


def finished(pod: Object, at: float, exit_code: int) -> Object:
    """All its containers have ended with `exit_code`."""
    failed = exit_code != 0
    reason = "PodFailed" if failed else "PodCompleted"
    status = _with_conditions(pod, at, started=False, ready=False, reason=reason)
    state = {"exitCode": exit_code, "reason": "Error" if failed else "Completed"}
    containers = []
    for container in pod["spec"]["containers"]:
        old = _old_container(pod, container["name"])
        begun = old.get("state", {}).get("running", {}).get("startedAt", stamp(at))
        ended = {**state, "startedAt": begun, "finishedAt": stamp(at)}
        if old.get("containerID"):
            ended["containerID"] = old["containerID"]
        containers.append(_container(pod, container, {"terminated": ended}, ready=False, started=False))
    status["phase"] = "Failed" if failed else "Succeeded"
    return _finish(pod, status, containers)


def backing_off(pod: Object, at: float, exit_code: int, delay_s: int) -> Object:
    """Its containers ended and will be started again after `delay_s`."""
    status = _with_conditions(pod, at, started=True, ready=False, reason=UNREADY)
    metadata = pod["metadata"]
    ended_pod = finished(pod, at, exit_code)
    containers = []
    for ended in ended_pod["containerStatuses"]:
        name = f"pod={metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        message = f"back-off {delay_s}s restarting failed container={ended['name']} {name}"
        waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        containers.append({**ended, "state": waiting, "lastState": ended["state"]})
    status["phase"] = "Running"
    return _finish(pod, status, containers)


def restarted(pod: Object, at: float, exit_code: int = 137, reason: str = "Error") -> Object:
    """Started once more: after a back-off, or at once after it was killed (`exit_code`, `reason`) while it ran."""
    status = _with_conditions(pod, at, started=True, ready=False, reason=UNREADY)
    containers = []
    for container in pod["spec"]["containers"]:
        old = _old_container(pod, container["name"])
        again = _container(pod, container, {"running": {"startedAt": stamp(at)}}, ready=False)
        begun = old.get("state", {}).get("running", {}).get("startedAt")
        if begun:
            ended = {"exitCode": exit_code, "reason": reason, "startedAt": begun, "finishedAt": stamp(at)}
            again["lastState"] = {"terminated": {**ended, "containerID": old.get("containerID", "")}}
        again["restartCount"] += 1
        again["containerID"] = container_id(pod, container["name"], again["restartCount"])
        containers.append(again)
    status["phase"] = "Running"
    return _finish(pod, status, containers)


def _old_container(pod: Object, name: str) -> Object:
    statuses = pod["status"].get("containerStatuses") or ()
    found: Object = next((c for c in statuses if c["name"] == name), {})
    return found


def _container(pod: Object, container: Object, state: Object, *, ready: bool, started: bool | None = None) -> Object:
    old = _old_container(pod, container["name"])
    restarts = old.get("restartCount", 0)
    up = "waiting" not in state
    shown = {
        "name": container["name"],
        "state": state,
        "lastState": old.get("lastState", {}),
        "ready": ready,
        "restartCount": restarts,
        "image": container["image"],
        "imageID": image_id(container["image"]) if up else "",
    }
    if up:
        shown["containerID"] = old.get("containerID") or container_id(pod, container["name"], restarts)
    shown["started"] = up if started is None else started
    return shown


def _init_containers(pod: Object, status: Object) -> list[Object]:
    """Plain ones have ended before the others start, sidecars run along."""
    begun = status.get("startTime", "")
    shown = []
    for container in pod["spec"].get("initContainers") or ():
        sidecar = container.get("restartPolicy") == "Always"
        identity = container_id(pod, container["name"], 0)
        ended = {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": begun,
            "finishedAt": begun,
            "containerID": identity,
        }
        state = {"running": {"startedAt": begun}} if sidecar else {"terminated": ended}
        entry = _container(pod, container, state, ready=True, started=sidecar)
        shown.append({**entry, "containerID": identity})
    return shown


def _with_conditions(
    pod: Object,
    at: float,
    *,
    started: bool,
    ready: bool,
    reason: str,
    changed_at: float | None = None,
) -> Object:
    """The pod's status with the four conditions of a kubelet brought up to date and put first."""
    status = dict(pod["status"])
    unready = [c["name"] for c in pod["spec"]["containers"]]
    message = f"containers with unready status: [{' '.join(unready)}]"
    wanted = {
        "PodReadyToStartContainers": (started, None),
        "Initialized": (True, None),
        "Ready": (ready, None if ready else reason),
        "ContainersReady": (ready, None if ready else reason),
    }
    conditions = []
    for kind in LIFE_CONDITIONS:
        value, why = wanted[kind]
        conditions.append(_condition(pod, kind, str(value), why, message, at if changed_at is None else changed_at))
    others = [c for c in status.get("conditions") or () if c["type"] not in LIFE_CONDITIONS]
    generation = pod["metadata"].get("generation")
    conditions += [_observed(o, generation) if o["type"] == "PodScheduled" else o for o in others]
    status["conditions"] = conditions
    return status


def _condition(pod: Object, kind: str, value: str, why: str | None, message: str, at: float) -> Object:
    old = condition(pod["status"], kind)
    since = old["lastTransitionTime"] if old and old["status"] == value else stamp(at)
    made = {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": since}
    if why:
        made["reason"] = why
    told = message if why == UNREADY else (old or {}).get("message") if why else None
    if told:
        made["message"] = told
    return _observed(made, pod["metadata"].get("generation"))


def _observed(entry: Object, generation: int | None) -> Object:
    """The condition with observedGeneration right after its type, as the API server prints it."""
    rest = {k: v for k, v in entry.items() if k not in {"type", "observedGeneration"}}
    observed = {} if generation is None else {"observedGeneration": generation}
    return {"type": entry["type"], **observed, **rest}


ORDER = (
    "observedGeneration", "phase", "conditions", "message", "reason", "hostIP", "hostIPs", "podIP", "podIPs", "startTime",
    "initContainerStatuses", "containerStatuses", "qosClass",
)  # fmt: skip


def _finish(pod: Object, status: Object, containers: list[Object]) -> Object:
    if pod["metadata"].get("generation") is not None:
        status["observedGeneration"] = pod["metadata"]["generation"]
    status["containerStatuses"] = containers
    if pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = _init_containers(pod, status)
    ordered = {name: status[name] for name in ORDER if name in status}
    return ordered | {name: value for name, value in status.items() if name not in ordered}
