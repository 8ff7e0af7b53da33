"""The model servers that stories put on the fleet: small Deployments of their own, beside the teams' workloads.

Pure: names and sizes in, manifests out.
"""

from typing import Any

from fleet.simulation.hardware import GPU
from fleet.simulation.manifests import TEAM
from fleet.simulation.scenarios.scene import PRODUCT

Object = dict[str, Any]

NAMESPACE = "serving"
LIMITED = "sandbox"  # where a quota disturbs no other story


def server(
    name: str,
    replicas: int,
    product: str = "",
    gpus: int = 1,
    *,
    image: str = "",
    labels: dict[str, str] | None = None,
    namespace: str = NAMESPACE,
    **more: Any,
) -> Object:
    """A Deployment; without `product` it needs no GPU. `more` goes into its spec; its pods are named by the label app."""
    carried = {"app": name, TEAM: "Voice", **(labels or {})}
    amounts = {"cpu": "4", "memory": "16Gi", **({GPU: str(gpus)} if product else {})}
    container = {
        "name": "server",
        "image": image or f"par-prod/{name}:1.0",
        "ports": [{"name": "http", "containerPort": 8000}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 5},
        "resources": {"requests": amounts, "limits": amounts},
    }
    spec: Object = {"containers": [container], "terminationGracePeriodSeconds": 15}
    if product:
        spec["nodeSelector"] = {PRODUCT: product}
    template = {"metadata": {"labels": carried, "annotations": {"sim/warmup-seconds": "6"}}, "spec": spec}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": carried},
        "spec": {"replicas": replicas, "selector": {"matchLabels": carried}, "template": template, **more},
    }


def rolling(surge: int | str, unavailable: int | str) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def release(deployment: Object, image: str, annotations: dict[str, str] | None = None, **more: Any) -> Object:
    """The merge patch of a new version: `annotations` of its pods, `more` of the Deployment's spec."""
    container = {**deployment["spec"]["template"]["spec"]["containers"][0], "image": image}
    template: Object = {"spec": {"containers": [container]}}
    if annotations:
        template["metadata"] = {"annotations": annotations}
    return {"spec": {"template": template, **more}}


def budget(name: str, labels: dict[str, str], **rule: int | str) -> Object:
    """A PodDisruptionBudget: budget("a", {"app": "a"}, minAvailable=1)."""
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": labels}, **rule},
    }


def service(name: str, selector: dict[str, str], **annotations: str) -> Object:
    noted: Object = {"annotations": annotations} if annotations else {}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}, **noted},
        "spec": {"selector": selector, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }
