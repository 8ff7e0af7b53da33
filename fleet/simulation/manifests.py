"""The objects that people write for the workloads of the catalogue: controllers' specs, Services, budgets.

Pure: a row of the catalogue in, manifests out, as they would be applied. What the server and controllers add is theirs.
"""

from typing import Any

from fleet.simulation import local_disks, training_manifests
from fleet.simulation.catalogue import AGENT_AUDIENCE, Daemon, Kind, Workload
from fleet.simulation.gpu_work import BUSY
from fleet.simulation.hardware import GPU, MODELS

Object = dict[str, Any]

TEAM = "vigie.dev/team"
CONTAINERS = {Kind.JOB: "batch", Kind.DEPLOYMENT: "server", Kind.STATEFUL_SET: "main", Kind.POD: "shell"}


def template(workload: Workload, image: str) -> Object:
    """The pod template."""
    labels = {"app": workload.name, TEAM: workload.team}
    metadata: Object = {"labels": labels}
    if notes := _notes(workload):
        metadata["annotations"] = notes
    spec: Object = {
        "containers": [_container(workload, image)],
        "terminationGracePeriodSeconds": workload.grace_s,
    }
    if workload.gpus:
        spec["nodeSelector"] = {"nvidia.com/gpu.product": MODELS[workload.product].product}
    if workload.scratch:
        spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    if workload.disk_gib:
        claimed = {"claimName": local_disks.claim_name(workload)}
        spec["volumes"] = [*spec.get("volumes", ()), {"name": "data", "persistentVolumeClaim": claimed}]
    if workload.saving:
        training_manifests.equip(workload, workload.saving, spec)
    if workload.kind in {Kind.JOB, Kind.POD}:
        spec["restartPolicy"] = "Never"
    return {"metadata": metadata, "spec": spec}


def _notes(workload: Workload) -> dict[str, str]:
    """The annotations of its pods."""
    notes = dict(workload.annotations)
    if workload.run_s is not None:
        notes |= {"sim/run-seconds": f"{workload.run_s:g}", "sim/run-spread": "0.5"}
    if workload.busy is not None:
        notes[BUSY] = f"{workload.busy:g}"
    if workload.saving:
        notes |= training_manifests.notes(workload, workload.saving)
    return notes


def _container(workload: Workload, image: str) -> Object:
    amounts = {"cpu": str(workload.cores), "memory": f"{workload.memory_gib}Gi"}
    if workload.gpus:
        amounts[GPU] = str(workload.gpus)
    container: Object = {
        "name": CONTAINERS[workload.kind],
        "image": image,
        "resources": {"limits": amounts, "requests": amounts},
    }
    if workload.kind not in {Kind.JOB, Kind.POD}:
        container["ports"] = [{"name": "http", "containerPort": workload.port}]
    if workload.kind is Kind.DEPLOYMENT:
        probe = {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 5}
        container["readinessProbe"] = probe
    if workload.scratch:
        container["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    if workload.disk_gib:
        container["volumeMounts"] = [*container.get("volumeMounts", ()), {"name": "data", "mountPath": "/data"}]
    return container


def controller(workload: Workload, image: str, replicas: int) -> Object:
    """The Deployment, StatefulSet, Job, or the pod itself."""
    labels = {"app": workload.name, TEAM: workload.team}
    metadata: Object = {"name": workload.name, "namespace": workload.namespace, "labels": labels}
    inner = template(workload, image)
    spec: Object = {"template": inner}
    match workload.kind:
        case Kind.POD:
            return {"metadata": {**inner["metadata"], **metadata}, "spec": inner["spec"]}
        case Kind.JOB:
            completions = workload.completions or replicas
            spec |= {"parallelism": replicas, "completions": completions, "ttlSecondsAfterFinished": 90}
            spec["backoffLimit"] = 20
        case Kind.STATEFUL_SET:
            spec |= {"replicas": replicas, "serviceName": workload.name, "selector": _selector(workload)}
        case Kind.DEPLOYMENT:
            rolling = {"maxSurge": workload.surge, "maxUnavailable": workload.unavailable}
            spec |= {"replicas": replicas, "selector": _selector(workload)}
            spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return {"metadata": metadata, "spec": spec}


def _selector(workload: Workload) -> Object:
    return {"matchLabels": {"app": workload.name}}


def service(workload: Workload, cluster_ip: str) -> Object | None:
    """A server's Service, a StatefulSet's headless one; Jobs and pods have none."""
    if workload.kind in {Kind.JOB, Kind.POD}:
        return None
    headless = workload.kind is Kind.STATEFUL_SET
    port = workload.port if headless else 80
    return {
        "metadata": {
            "name": workload.name,
            "namespace": workload.namespace,
            "labels": {"app": workload.name},
        },
        "spec": {
            "clusterIP": "None" if headless else cluster_ip,
            "selector": {"app": workload.name},
            "ports": [{"name": "http", "port": port, "targetPort": "http"}],
        },
    }


def budgets(workload: Workload) -> list[Object]:
    """None, one, or one too many."""
    found = [(workload.name, *workload.budget)] if workload.budget else []
    found += [(f"{workload.name}-at-night", "minAvailable", 1)] if workload.night_budget else []
    return [
        {
            "metadata": {"name": name, "namespace": workload.namespace},
            "spec": {field: value, "selector": _selector(workload)},
        }
        for name, field, value in found
    ]


def autoscaler(workload: Workload) -> Object | None:
    if workload.autoscale is None:
        return None
    least, most = workload.autoscale
    target = {"type": "Utilization", "averageUtilization": 70}
    return {
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload.name},
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


# A reader of the driver is away while the GPU operator changes the driver or MIG: its clients are paused by these labels.
UNPAUSED: Object = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {
                            "key": "nvidia.com/gpu.deploy.dcgm-exporter",
                            "operator": "NotIn",
                            "values": ["paused-for-driver-upgrade", "paused-for-mig-change"],
                        }
                    ]
                }
            ]
        }
    }
}


def daemon_set(daemon: Daemon) -> Object:
    amounts = {"cpu": "100m", "memory": "256Mi"}
    container: Object = {
        "name": daemon.name,
        "image": daemon.image,
        "resources": {"requests": amounts, "limits": {"memory": "512Mi"}},
    }
    if daemon.port:
        container["ports"] = [{"name": "metrics", "containerPort": daemon.port}]
    spec: Object = {
        "containers": [container],
        "priorityClassName": "system-node-critical",
        "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
    }
    if daemon.host_network:
        spec["hostNetwork"] = True
    if daemon.account:
        spec |= {"serviceAccountName": daemon.account, "hostPID": True, "affinity": UNPAUSED}
        token = {"audience": AGENT_AUDIENCE, "expirationSeconds": 3600, "path": "token"}
        spec["volumes"] = [{"name": "token", "projected": {"sources": [{"serviceAccountToken": token}]}}]
        container["volumeMounts"] = [{"name": "token", "mountPath": "/var/run/secrets/vigie", "readOnly": True}]
    return {
        "metadata": {
            "name": daemon.name,
            "namespace": daemon.namespace,
            "labels": {"app": daemon.name},
            "annotations": {"deprecated.daemonset.template.generation": "1"},
        },
        "spec": {
            "selector": {"matchLabels": {"app": daemon.name}},
            "template": {"metadata": {"labels": {"app": daemon.name, TEAM: "Platform"}}, "spec": spec},
        },
    }
