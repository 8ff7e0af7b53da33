"""The EndpointSlice controller: which pods a Service reaches, and whether each is ready, serving or terminating.

Follows kubernetes/pkg/controller/endpointslice. One slice per Service (up to the 1,000 endpoints that a slice may hold).
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation import podstatus
from fleet.simulation.controller import Controller, Keys, Process
from fleet.simulation.history import Change
from fleet.simulation.informer import key_of, split_key
from fleet.simulation.ownership import owner_reference

Object = dict[str, Any]

TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
MOST_ENDPOINTS = 1000


class EndpointSlices(Controller):
    """Keys are Services."""

    name = "endpoint-slice-controller"
    primary = "services"
    latency_s = (0.02, 0.06)

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._triggers: dict[str, dict[str, str]] = {}  # service → the times that its last slice was made for

    def watches(self) -> dict[str, Keys]:
        return {"services": _itself, "pods": self._pod_changed, "endpointslices": self._slice_gone}

    def _pod_changed(self, change: Change) -> Iterable[str]:
        """Services that select the pod, or did before the change."""
        sets = [o["metadata"].get("labels") or {} for o in (change.object, change.previous) if o is not None]
        namespace = change.object["metadata"]["namespace"]
        services = self.informers["services"].indexed("namespace", namespace)
        return [key_of(s) for s in services if any(_selects(s, labels) for labels in sets)]

    @staticmethod
    def _slice_gone(change: Change) -> Iterable[str]:
        service = (change.object["metadata"].get("labels") or {}).get("kubernetes.io/service-name")
        if change.type != "DELETED" or not service:
            return ()
        return (f"{change.object['metadata']['namespace']}/{service}",)

    def sync(self, key: str) -> float | None:
        service = self.informers["services"].get(key)
        if service is None or not service["spec"].get("selector"):
            return None
        uid = service["metadata"]["uid"]
        present = next(iter(self.informers["endpointslices"].indexed("controller", uid)), None)
        namespace = service["metadata"]["namespace"]
        pods = [
            p
            for p in self.informers["pods"].labelled(namespace, service["spec"]["selector"])
            if p["status"].get("podIP") and not podstatus.is_finished(p)
        ]
        endpoints = self._in_order(present, [self._endpoint(p) for p in pods])[:MOST_ENDPOINTS]
        content = {"endpoints": endpoints or None, "ports": _ports(service, pods) if pods else None}
        self._write(service, present, content, self._trigger(service, pods))
        return None

    def _trigger(self, service: Object, pods: list[Object]) -> str:
        """The earliest change of the service or of a pod's readiness that no slice has shown yet; empty when none."""
        uid = service["metadata"]["uid"]
        before = self._triggers.get(uid, {})
        now = {uid: service["metadata"]["creationTimestamp"]}
        for pod in pods:
            ready = podstatus.condition(pod["status"], "Ready")
            if ready is not None:
                now[pod["metadata"]["uid"]] = ready["lastTransitionTime"]
        self._triggers[uid] = now
        return min((at for of, at in now.items() if at > before.get(of, "")), default="")

    @staticmethod
    def _in_order(present: Object | None, endpoints: list[Object]) -> list[Object]:
        """Known endpoints keep their place, new ones come last."""
        known = {e["targetRef"]["uid"]: i for i, e in enumerate((present or {}).get("endpoints") or ())}
        return sorted(endpoints, key=lambda e: known.get(e["targetRef"]["uid"], len(known)))

    def _endpoint(self, pod: Object) -> Object:
        metadata, node_name = pod["metadata"], pod["spec"]["nodeName"]
        serving, terminating = podstatus.is_ready(pod), podstatus.is_terminating(pod)
        node = self.informers["nodes"].get(node_name)
        labels = (node["metadata"].get("labels") or {}) if node else {}
        zone = labels.get("topology.kubernetes.io/zone")
        reference = {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"]}
        return {
            "addresses": [pod["status"]["podIP"]],
            "conditions": {
                "ready": serving and not terminating,
                "serving": serving,
                "terminating": terminating,
            },
            "targetRef": {**reference, "uid": metadata["uid"]},
            "nodeName": node_name,
            **({"zone": zone} if zone else {}),
        }

    def _write(self, service: Object, present: Object | None, content: Object, trigger: str) -> None:
        metadata = service["metadata"]
        if present is None:
            made = {"metadata": self._metadata(service, trigger), "addressType": "IPv4", **content}
            self.store.create("endpointslices", made, manager=self.manager)
            return
        if all(present.get(field) == value for field, value in content.items()):
            return

        def change(draft: Object) -> None:
            draft.update(content)
            annotations = {k: v for k, v in (draft["metadata"].get("annotations") or {}).items() if k != TRIGGER}
            draft["metadata"]["annotations"] = {**annotations, TRIGGER: trigger} if trigger else annotations

        _, name = split_key(key_of(present))
        self.store.mutate("endpointslices", metadata["namespace"], name, change, manager=self.manager)

    def _metadata(self, service: Object, trigger: str) -> Object:
        metadata = service["metadata"]
        labels = dict(metadata.get("labels") or {})
        if service["spec"].get("clusterIP") == "None":
            labels["service.kubernetes.io/headless"] = ""
        return {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": {
                **labels,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "kubernetes.io/service-name": metadata["name"],
            },
            "annotations": {TRIGGER: trigger} if trigger else {},
            "ownerReferences": [owner_reference(service)],
        }


def _selects(service: Object, labels: dict[str, str]) -> bool:
    selector = service["spec"].get("selector") or {}
    return bool(selector) and selector.items() <= labels.items()


def _ports(service: Object, pods: list[Object]) -> list[Object]:
    """The ports on the pods: a named target port is looked up in the first pod that has it."""
    shown = []
    for port in service["spec"].get("ports") or ():
        target = port.get("targetPort", port["port"])
        number = target if isinstance(target, int) else _named_port(pods, target)
        if number is not None:
            shown.append({"name": port.get("name", ""), "protocol": port.get("protocol", "TCP"), "port": number})
    return shown


def _named_port(pods: list[Object], name: str) -> int | None:
    for pod in pods:
        for container in pod["spec"]["containers"]:
            for port in container.get("ports") or ():
                if port.get("name") == name:
                    return int(port["containerPort"])
    return None


def _itself(change: Change) -> Iterable[str]:
    return (key_of(change.object),)
