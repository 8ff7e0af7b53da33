"""The objects that people write for the workloads of the catalogue: controllers' specs, Services, budgets.

Pure: a row of the catalogue in, manifests out, as they would be applied. What the server and controllers add is theirs.
"""

from typing import Any

from fleet.simulation.catalogue import AGENT_AUDIENCE, Daemon, Kind, Workload
from fleet.simulation.gpu_work import BUSY
from fleet.simulation.hardware import GPU, MODELS

Object = dict[str, Any]

TEAM = "vigie.dev/team"
CONTAINERS = {Kind.JOB: "batch", Kind.DEPLOYMENT: "server", Kind.STATEFUL_SET: "main"}


def template(workload: Workload, image: str) -> Object:
    """The pod template."""
    labels = {"app": workload.name, TEAM: workload.team}
    metadata: Object = {"labels": labels}
    if workload.run_s is not None:
        metadata["annotations"] = {"sim/run-seconds": f"{workload.run_s:g}", "sim/run-spread": "0.5"}
    if workload.busy is not None:
        metadata.setdefault("annotations", {})[BUSY] = f"{workload.busy:g}"
    spec: Object = {
        "containers": [_container(workload, image)],
        "terminationGracePeriodSeconds": workload.grace_s,
    }
    if workload.gpus:
        spec["nodeSelector"] = {"nvidia.com/gpu.product": MODELS[workload.product].product}
    if workload.scratch:
        spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    if workload.kind is Kind.JOB:
        spec["restartPolicy"] = "Never"
    return {"metadata": metadata, "spec": spec}


def _container(workload: Workload, image: str) -> Object:
    amounts = {"cpu": str(workload.cores), "memory": f"{workload.memory_gib}Gi"}
    if workload.gpus:
        amounts[GPU] = str(workload.gpus)
    container: Object = {
        "name": CONTAINERS[workload.kind],
        "image": image,
        "resources": {"limits": amounts, "requests": amounts},
    }
    if workload.kind is not Kind.JOB:
        container["ports"] = [{"name": "http", "containerPort": workload.port}]
    if workload.kind is Kind.DEPLOYMENT:
        probe = {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 5}
        container["readinessProbe"] = probe
    if workload.scratch:
        container["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    return container


def controller(workload: Workload, image: str, replicas: int) -> Object:
    """The Deployment, StatefulSet or Job."""
    labels = {"app": workload.name, TEAM: workload.team}
    metadata = {"name": workload.name, "namespace": workload.namespace, "labels": labels}
    spec: Object = {"template": template(workload, image)}
    match workload.kind:
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
    """A server's Service, a StatefulSet's headless one; Jobs have none."""
    if workload.kind is Kind.JOB:
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


def budget(workload: Workload) -> Object | None:
    if workload.budget is None:
        return None
    field, value = workload.budget
    return {
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {field: value, "selector": _selector(workload)},
    }


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
        spec |= {"serviceAccountName": daemon.account, "hostPID": True}
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
