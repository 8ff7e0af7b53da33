"""What the API server fills in: defaults of the kinds, the service account's volume, priority, QoS, binding.

Owns values only the server or its admission sets. Changes the object it is given. Must not refuse anything.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fleet.simulation.resources import Resource

Object = dict[str, Any]
Suffix = Callable[[], str]

ZONE_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 (a path)
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def fill(resource: Resource, obj: Object, suffix: Suffix, priority_classes: Mapping[str, Object]) -> None:
    """Complete an object that is being created."""
    complete = _ON_CREATE.get(resource.plural)
    if resource.plural == "pods":
        _pod(obj, suffix, priority_classes)
    elif complete is not None:
        complete(obj)
    if resource.plural in _FIRST_STATUS:
        obj["status"] = dict(_FIRST_STATUS[resource.plural])


def fill_update(resource: Resource, old: Object, new: Object) -> None:
    """Complete an object that replaces `old`, whose allotted values stay unless the new one names others."""
    complete = _ON_UPDATE.get(resource.plural)
    if complete is not None:
        complete(new)
    if resource.plural == "services":
        for field in ("clusterIP", "clusterIPs"):
            if field in old.get("spec", {}):
                new["spec"].setdefault(field, old["spec"][field])


def allot_address(service: Object, address: str) -> None:
    """Give a service its cluster IP, unless it has one, wants none, or stands for another name."""
    spec = service["spec"]
    if spec["type"] != "ExternalName":
        _defaulted(spec, clusterIP=address)
        _defaulted(spec, clusterIPs=[spec["clusterIP"]])


def bind(pod: Object, node: str, node_object: Object | None, at: str) -> None:
    """Put a pod on a node, as the binding subresource does; `at` is an RFC 3339 time."""
    pod["spec"]["nodeName"] = node
    place(pod, node_object)
    conditions = [c for c in pod["status"].get("conditions") or () if c["type"] != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": at}
    pod["status"]["conditions"] = [*conditions, scheduled]


def place(pod: Object, node: Object | None) -> None:
    """Label a pod with the region and zone of its node."""
    labels = node["metadata"].get("labels", {}) if node else {}
    for label in ZONE_LABELS:
        if label in labels:
            pod["metadata"].setdefault("labels", {}).setdefault(label, labels[label])


def _defaulted(target: Object, **values: Any) -> None:
    for field, value in values.items():
        if target.get(field) is None:
            target[field] = value


def pull_policy(image: str) -> str:
    """Always for no tag or :latest, as the server decides it."""
    name = image.rpartition("/")[2]
    tag = "" if "@" in name else name.partition(":")[2]
    return "IfNotPresent" if "@" in name or tag not in {"", "latest"} else "Always"


def _container(container: Object, *, in_template: bool) -> None:
    _defaulted(
        container,
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy=pull_policy(container.get("image") or ""),
        resources={},
    )
    for port in container.get("ports") or ():
        _defaulted(port, protocol="TCP")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe):
            _probe(container[probe])
    limits = (container.get("resources") or {}).get("limits")
    if limits and not in_template:
        requests = container["resources"].setdefault("requests", {})
        for name, value in limits.items():
            requests.setdefault(name, value)


def _probe(probe: Object) -> None:
    _defaulted(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    if probe.get("httpGet"):
        _defaulted(probe["httpGet"], path="/", scheme="HTTP")


def pod_spec(spec: Object, *, in_template: bool = True) -> None:
    """Defaults of a pod spec; requests follow limits only in a pod itself, not in a template."""
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            _container(container, in_template=in_template)
    _defaulted(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for volume in spec.get("volumes") or ():
        for source in ("configMap", "secret", "projected", "downwardAPI"):
            if isinstance(volume.get(source), dict):
                _defaulted(volume[source], defaultMode=420)
        if isinstance(volume.get("hostPath"), dict):
            _defaulted(volume["hostPath"], type="")


def _pod(pod: Object, suffix: Suffix, priority_classes: Mapping[str, Object]) -> None:
    spec = pod.setdefault("spec", {})
    _defaulted(spec, serviceAccountName="default", enableServiceLinks=True)
    _priority(spec, priority_classes)
    if spec.get("automountServiceAccountToken") is not False and spec.get("containers"):
        _mount_token(spec, suffix)
    pod_spec(spec, in_template=False)
    _tolerate(spec)
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}


def _priority(spec: Object, priority_classes: Mapping[str, Object]) -> None:
    name = spec.get("priorityClassName", "")
    known = priority_classes.get(name, {})
    spec["priority"] = known.get("value", SYSTEM_PRIORITIES.get(name, spec.get("priority", 0)))
    _defaulted(spec, preemptionPolicy=known.get("preemptionPolicy", "PreemptLowerPriority"))


def _mount_token(spec: Object, suffix: Suffix) -> None:
    """The projected service-account token that admission mounts into every container without one."""
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    if any(m.get("mountPath") == TOKEN_MOUNT for c in containers for m in c.get("volumeMounts") or ()):
        return
    name = f"kube-api-access-{suffix()}"
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    volume = {"name": name, "projected": {"sources": sources, "defaultMode": 420}}
    spec["volumes"] = [*(spec.get("volumes") or ()), volume]
    for container in containers:
        mount = {"name": name, "readOnly": True, "mountPath": TOKEN_MOUNT}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _tolerate(spec: Object) -> None:
    """The DefaultTolerationSeconds admission: 300 s on nodes that are not ready or unreachable."""
    have = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(t, key) for t in have):
            have.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def _tolerates(toleration: Object, key: str) -> bool:
    same_key = toleration.get("key") == key or (not toleration.get("key") and toleration.get("operator") == "Exists")
    return same_key and toleration.get("effect") in {None, "", "NoExecute"}


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, by cpu and memory of all containers."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    kinds = {_container_class(c.get("resources") or {}) for c in containers}
    return kinds.pop() if len(kinds) == 1 else "Burstable"


def _container_class(resources: Object) -> str:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    computing = ("cpu", "memory")
    if not any(n in requests or n in limits for n in computing):
        return "BestEffort"
    guaranteed = all(n in limits and requests.get(n, limits[n]) == limits[n] for n in computing)
    return "Guaranteed" if guaranteed else "Burstable"


def _template(obj: Object) -> None:
    template = obj.setdefault("spec", {}).setdefault("template", {})
    pod_spec(template.setdefault("spec", {}))


def _deployment(obj: Object) -> None:
    _template(obj)
    spec = obj["spec"]
    _defaulted(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy={})
    _defaulted(spec["strategy"], type="RollingUpdate")
    if spec["strategy"]["type"] == "RollingUpdate":
        _defaulted(spec["strategy"], rollingUpdate={})
        _defaulted(spec["strategy"]["rollingUpdate"], maxUnavailable="25%", maxSurge="25%")


def _replica_set(obj: Object) -> None:
    _template(obj)
    _defaulted(obj["spec"], replicas=1)
    labels = obj["spec"]["template"].get("metadata", {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _stateful_set(obj: Object) -> None:
    _template(obj)
    spec = obj["spec"]
    keep = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    _defaulted(spec, replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady", updateStrategy={})
    _defaulted(spec, persistentVolumeClaimRetentionPolicy=keep)
    _defaulted(spec["updateStrategy"], type="RollingUpdate")
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        _defaulted(spec["updateStrategy"], rollingUpdate={})
        _defaulted(spec["updateStrategy"]["rollingUpdate"], partition=0)


def _daemon_set(obj: Object) -> None:
    _template(obj)
    spec = obj["spec"]
    _defaulted(spec, revisionHistoryLimit=10, updateStrategy={})
    _defaulted(spec["updateStrategy"], type="RollingUpdate")
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        _defaulted(spec["updateStrategy"], rollingUpdate={})
        _defaulted(spec["updateStrategy"]["rollingUpdate"], maxUnavailable=1, maxSurge=0)


def _job_update(obj: Object) -> None:
    _template(obj)
    spec = obj["spec"]
    indexed = spec.get("completionMode") == "Indexed"
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    _defaulted(spec, parallelism=1, backoffLimit=6, completionMode="NonIndexed", suspend=False)
    replacement = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    _defaulted(spec, podReplacementPolicy=replacement, manualSelector=False)
    if indexed:
        spec["completionMode"] = "Indexed"
    for rule in (spec.get("podFailurePolicy") or {}).get("rules", ()):
        for condition in rule.get("onPodConditions") or ():
            _defaulted(condition, status="True")


def _job(obj: Object) -> None:
    """A new Job gets its selector and the labels that it finds its pods by."""
    _job_update(obj)
    metadata, spec = obj["metadata"], obj["spec"]
    if spec.get("manualSelector"):
        return
    uid, name = metadata["uid"], metadata["name"]
    own = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels.update(own)
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _service(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _defaulted(spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster")
    for port in spec.get("ports") or ():
        _defaulted(port, protocol="TCP", targetPort=port.get("port"))
    if spec["type"] == "ExternalName":
        return
    if spec.get("clusterIP"):
        _defaulted(spec, clusterIPs=[spec["clusterIP"]])
    _defaulted(spec, ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")


def _namespace(obj: Object) -> None:
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    obj["spec"] = {"finalizers": ["kubernetes"]}
    obj["status"] = {"phase": "Active"}


def _node(obj: Object) -> None:
    obj.setdefault("spec", {})
    obj.setdefault("status", {})


_ON_CREATE: dict[str, Callable[[Object], None]] = {
    "deployments": _deployment,
    "replicasets": _replica_set,
    "statefulsets": _stateful_set,
    "daemonsets": _daemon_set,
    "jobs": _job,
    "services": _service,
    "namespaces": _namespace,
    "nodes": _node,
}
_ON_UPDATE: dict[str, Callable[[Object], None]] = {
    "deployments": _deployment,
    "replicasets": _replica_set,
    "statefulsets": _stateful_set,
    "daemonsets": _daemon_set,
    "jobs": _job_update,
    "services": _service,
    "nodes": _node,
}

# A new object's status: fields that Go writes even when they are zero.
_FIRST_STATUS: dict[str, Object] = {
    "deployments": {},
    "replicasets": {"replicas": 0},
    "statefulsets": {"replicas": 0, "availableReplicas": 0},
    "daemonsets": dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    ),
    "jobs": {},
    "services": {"loadBalancer": {}},
    "resourcequotas": {},
    "poddisruptionbudgets": dict.fromkeys(
        ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0
    ),
}
