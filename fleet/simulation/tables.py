"""Server-side tables: what `kubectl get` shows of each kind, as the API server prints it.

Owns columns and cells of the workload kinds and the Table document; columns.py has the remaining kinds. Must not read
the store.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fleet.simulation.resources import Resource

Object = dict[str, Any]
Row = Callable[[Object, float], list[Any]]
NONE = "<none>"
UNSET = "<unset>"


@dataclass(frozen=True)
class Column:
    """`priority` 1 shows only in wide output."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0

    def definition(self) -> Object:
        shown = {"name": self.name, "type": self.type, "format": self.format, "description": ""}
        return {**shown, "priority": self.priority}


@dataclass(frozen=True)
class Printer:
    columns: tuple[Column, ...]
    row: Row


def columns(*names: str, wide: Iterable[str] = ()) -> tuple[Column, ...]:
    """ "Name" is the name column; "#Desired" a number; what is in `wide` shows only in wide output."""
    found = []
    for name, priority in [*((n, 0) for n in names), *((n, 1) for n in wide)]:
        if name == "Name":
            found.append(Column(name, format="name", priority=priority))
        elif name.startswith("#"):
            found.append(Column(name[1:], type="integer", priority=priority))
        else:
            found.append(Column(name, priority=priority))
    return tuple(found)


# Ages


def seconds_of(text: str | None) -> float | None:
    """RFC 3339 with or without a fraction → seconds since 1970."""
    return datetime.fromisoformat(text).timestamp() if text else None


def human_duration(seconds: float) -> str:
    """As client-go's duration.HumanDuration writes it: 47s, 3m5s, 5h12m, 3d4h, 2y."""
    s = int(seconds)
    if s < -1:
        return "<invalid>"
    if s < 0:
        return "0s"
    minutes, hours, days = s // 60, s // 3600, s // 86_400
    steps = (
        (s < 120, s, "s", 0, ""),
        (minutes < 10, minutes, "m", s % 60, "s"),
        (minutes < 180, minutes, "m", 0, ""),
        (hours < 8, hours, "h", minutes % 60, "m"),
        (hours < 48, hours, "h", 0, ""),
        (days < 8, days, "d", hours % 24, "h"),
        (days < 730, days, "d", 0, ""),
        (days < 2920, days // 365, "y", days % 365, "d"),
        (True, days // 365, "y", 0, ""),
    )
    _, large, unit, small, small_unit = next(step for step in steps if step[0])
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def age(text: str | None, now: float) -> str:
    at = seconds_of(text)
    return "<unknown>" if at is None else human_duration(now - at)


def created_age(obj: Object, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


# Pieces that several kinds show


def joined(values: Iterable[str]) -> str:
    return ",".join(values) or NONE


def containers(obj: Object) -> tuple[str, str]:
    """Names and images of a pod template's containers."""
    found = obj["spec"].get("template", {}).get("spec", {}).get("containers") or ()
    return ",".join(c["name"] for c in found), ",".join(c.get("image", "") for c in found)


def selector(labels: Object | None) -> str:
    return joined(f"{k}={v}" for k, v in sorted((labels or {}).items()))


def label_selector(value: Object | None) -> str:
    """A LabelSelector as text; "<none>" when it is empty."""
    value = value or {}
    parts = [f"{k}={v}" for k, v in sorted((value.get("matchLabels") or {}).items())]
    for e in value.get("matchExpressions") or ():
        listed = f"({','.join(e.get('values') or ())})"
        words = {
            "In": f"{e['key']} in {listed}",
            "NotIn": f"{e['key']} notin {listed}",
            "Exists": e["key"],
            "DoesNotExist": f"!{e['key']}",
        }
        parts.append(words[e["operator"]])
    return joined(parts)


# Pods and nodes


def pod_status(pod: Object) -> str:
    """The STATUS column: the phase, or what hinders it most."""
    status = pod.get("status", {})
    words = status.get("reason") or status.get("phase", "")
    words = _gated(status) or words
    initialising, init_words = _init_status(pod, words)
    words = init_words
    if not initialising:
        words = _container_status(status, words)
    ended = status.get("phase") in {"Succeeded", "Failed"}
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        return words if ended else "Terminating"
    return words


def _gated(status: Object) -> str:
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return ""


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _sidecars(pod: Object) -> set[str]:
    inits = pod["spec"].get("initContainers") or ()
    return {c["name"] for c in inits if c.get("restartPolicy") == "Always"}


def _init_status(pod: Object, words: str) -> tuple[bool, str]:
    statuses = pod.get("status", {}).get("initContainerStatuses") or ()
    sidecars = _sidecars(pod)
    for index, status in enumerate(statuses):
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated and terminated.get("exitCode", 0) == 0:
            continue
        if status["name"] in sidecars and status.get("started"):
            continue
        if terminated:
            return True, f"Init:{_ended(terminated)}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return True, f"Init:{waiting['reason']}"
        return True, f"Init:{index}/{len(pod['spec'].get('initContainers') or ())}"
    return False, words


def _container_status(status: Object, words: str) -> str:
    running = False
    for container in reversed(status.get("containerStatuses") or ()):
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            words = state["waiting"]["reason"]
        elif state.get("terminated"):
            words = _ended(state["terminated"])
        elif container.get("ready") and state.get("running"):
            running = True
    if words == "Completed" and running:
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
        return "Running" if ready else "NotReady"
    return words


def _restarts(pod: Object, now: float) -> tuple[str, int, int]:
    """The RESTARTS cell, ready containers and all containers; sidecars count as containers."""
    status, sidecars = pod.get("status", {}), _sidecars(pod)
    inits = [s for s in status.get("initContainerStatuses") or () if s["name"] in sidecars]
    counted = [*inits, *(status.get("containerStatuses") or ())]
    restarts = sum(s.get("restartCount", 0) for s in counted)
    ended = [(s.get("lastState") or {}).get("terminated") or {} for s in counted]
    last = max((e["finishedAt"] for e in ended if e.get("finishedAt")), default=None)
    ready = sum(1 for s in counted if s.get("ready") and (s.get("state") or {}).get("running"))
    shown = f"{restarts} ({age(last, now)} ago)" if restarts and last else str(restarts)
    return shown, ready, len(pod["spec"].get("containers") or ()) + len(sidecars)


def _gates(pod: Object) -> str:
    gates = pod["spec"].get("readinessGates") or ()
    if not gates:
        return NONE
    true = {c["type"] for c in pod["status"].get("conditions") or () if c["status"] == "True"}
    return f"{sum(1 for g in gates if g['conditionType'] in true)}/{len(gates)}"


def _pod(pod: Object, now: float) -> list[Any]:
    restarts, ready, total = _restarts(pod, now)
    spec, status = pod["spec"], pod.get("status", {})
    ips = status.get("podIPs") or ()
    ip = ips[0]["ip"] if ips else status.get("podIP") or NONE
    where = [ip, spec.get("nodeName") or NONE, status.get("nominatedNodeName") or NONE, _gates(pod)]
    name = pod["metadata"]["name"]
    return [name, f"{ready}/{total}", pod_status(pod), restarts, created_age(pod, now), *where]


def _node_status(node: Object) -> str:
    ready = next((c for c in node["status"].get("conditions") or () if c["type"] == "Ready"), None)
    words = "Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"
    return f"{words},SchedulingDisabled" if node["spec"].get("unschedulable") else words


def _roles(node: Object) -> str:
    prefix, found = "node-role.kubernetes.io/", set()
    for label, value in (node["metadata"].get("labels") or {}).items():
        if label.startswith(prefix) and len(label) > len(prefix):
            found.add(label.removeprefix(prefix))
        elif label == "kubernetes.io/role" and value:
            found.add(value)
    return joined(sorted(found))


def _node(node: Object, now: float) -> list[Any]:
    status = node["status"]
    info = status.get("nodeInfo") or {}
    addresses = {a["type"]: a["address"] for a in reversed(status.get("addresses") or ())}
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        node["metadata"]["name"],
        _node_status(node),
        _roles(node),
        created_age(node, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


# Workloads


def _deployment(obj: Object, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    wide = [*containers(obj), label_selector(spec.get("selector"))]
    return [obj["metadata"]["name"], ready, *counts, created_age(obj, now), *wide]


def _replica_set(obj: Object, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    counts = [spec.get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0)]
    chosen = spec.get("selector")
    text = label_selector(chosen) if obj["kind"] == "ReplicaSet" else selector(chosen)
    return [obj["metadata"]["name"], *counts, created_age(obj, now), *containers(obj), text]


def _stateful_set(obj: Object, now: float) -> list[Any]:
    ready = f"{obj.get('status', {}).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 1)}"
    return [obj["metadata"]["name"], ready, created_age(obj, now), *containers(obj)]


def _daemon_set(obj: Object, now: float) -> list[Any]:
    status, spec = obj.get("status", {}), obj["spec"]
    names = (
        "desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled",
        "numberAvailable",
    )  # fmt: skip
    node_selector = selector(spec.get("template", {}).get("spec", {}).get("nodeSelector"))
    wide = [*containers(obj), label_selector(spec.get("selector"))]
    counts = [status.get(n, 0) for n in names]
    return [obj["metadata"]["name"], *counts, node_selector, created_age(obj, now), *wide]


def _job_words(status: Object, spec: Object, *, deleted: bool) -> str:
    true = {c["type"] for c in status.get("conditions") or () if c["status"] == "True"}
    for kind, words in (("Complete", "Complete"), ("Failed", "Failed")):
        if kind in true:
            return words
    if deleted:
        return "Terminating"
    if "Suspended" in true or spec.get("suspend"):
        return "Suspended"
    return next((w for w in ("FailureTarget", "SuccessCriteriaMet") if w in true), "Running")


def _job(obj: Object, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    done = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    else:
        parallel = spec.get("parallelism", 0)
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    started, ended = seconds_of(status.get("startTime")), seconds_of(status.get("completionTime"))
    took = "" if started is None else human_duration((now if ended is None else ended) - started)
    words = _job_words(status, spec, deleted="deletionTimestamp" in obj["metadata"])
    wide = [*containers(obj), label_selector(spec.get("selector"))]
    return [obj["metadata"]["name"], words, completions, took, created_age(obj, now), *wide]


_WIDE = ("Containers", "Images", "Selector")
_SCALED = columns("Name", "#Desired", "#Current", "#Ready", "Age", wide=_WIDE)
WORKLOADS: dict[str, Printer] = {
    "pods": Printer(
        columns(
            "Name", "Ready", "Status", "Restarts", "Age",
            wide=("IP", "Node", "Nominated Node", "Readiness Gates"),
        ),
        _pod,
    ),
    "nodes": Printer(
        columns(
            "Name", "Status", "Roles", "Age", "Version",
            wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    "deployments": Printer(columns("Name", "Ready", "Up-to-date", "Available", "Age", wide=_WIDE), _deployment),
    "replicasets": Printer(_SCALED, _replica_set),
    "replicationcontrollers": Printer(_SCALED, _replica_set),
    "statefulsets": Printer(columns("Name", "Ready", "Age", wide=("Containers", "Images")), _stateful_set),
    "daemonsets": Printer(
        columns(
            "Name", "#Desired", "#Current", "#Ready", "#Up-to-date", "#Available", "Node Selector", "Age", wide=_WIDE
        ),
        _daemon_set,
    ),
    "jobs": Printer(columns("Name", "Status", "Completions", "Duration", "Age", wide=_WIDE), _job),
}  # fmt: skip


def table(
    resource: Resource, objects: Iterable[Object], printer: Printer, now: float, include: str, *, head: bool = True
) -> Object:
    """A Table without metadata. `include` is the query's includeObject: None, Metadata (default) or Object."""
    rows = [{"cells": printer.row(o, now), "object": _embedded(resource, o, include)} for o in objects]
    for row in rows:
        if row["object"] is None:
            del row["object"]
    definitions = [c.definition() for c in printer.columns] if head else None
    return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": definitions, "rows": rows}


def _embedded(resource: Resource, obj: Object, include: str) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        return {**obj, "kind": resource.kind, "apiVersion": resource.api_version}
    return partial(obj)


def partial(obj: Object) -> Object:
    """PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def now_text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
