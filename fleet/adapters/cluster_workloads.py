"""Workloads and Services of a cluster, read whole for a decision and changed as they were read.

Owns the requests of rollouts and switches: one workload with its revisions, a Service with its slices, patches that name the
version they are meant for, and a pod's whole answer through the API server's proxy. Must not decide whether anything is wise, and
deletes nothing.
"""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from fleet.adapters.cluster_requests import Requests, status_of
from fleet.adapters.cluster_streams import decoded
from fleet.domain import smoke, switching
from fleet.domain.endpoints import EndpointSlice
from fleet.domain.objects import Service
from fleet.domain.revisions import Form, Json, Patch, Workload
from fleet.domain.specs import FullPod
from fleet.ports import PortError

PATHS: Mapping[str, str] = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "ControllerRevision": "/apis/apps/v1/namespaces/{}/controllerrevisions",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
}
FORMS: Mapping[Form, str] = {
    Form.MERGE: "application/merge-patch+json",
    Form.STRATEGIC: "application/strategic-merge-patch+json",
}
# What the API server itself says when the pod did not answer.
NOT_REACHED = frozenset({502, 503, 504})


class WorkloadChanges(Requests):
    """The part of `fleet.ports.Changer` that rollouts and switches need."""

    # Reading

    def read_workload(self, kind: str, namespace: str, name: str) -> Workload | None:
        found = self._get(f"{_path(kind, namespace)}/{quote(name, safe='')}", dict[str, Any])
        return None if found is None else Workload(kind, found)

    def read_holders(self, workload: Workload) -> tuple[Json, ...]:
        kind = "ReplicaSet" if workload.kind == "Deployment" else "ControllerRevision"
        labels = (workload.spec.get("selector") or {}).get("matchLabels") or {}
        query = {"labelSelector": ",".join(f"{name}={value}" for name, value in labels.items())} if labels else {}
        return self._list(_path(kind, str(workload.metadata.get("namespace", ""))), dict[str, Any], query)

    def read_service(self, namespace: str, name: str) -> Service | None:
        return self._get(_service_path(namespace, name), Service)

    def read_slices(self, namespace: str, service: str) -> tuple[EndpointSlice, ...]:
        path = _path("EndpointSlice", namespace)
        return self._list(path, EndpointSlice, {"labelSelector": f"{switching.SERVICE_NAME}={service}"})

    def read_selected(self, namespace: str, selector: Mapping[str, str]) -> tuple[FullPod, ...]:
        labels = ",".join(f"{name}={value}" for name, value in selector.items())
        path = f"/api/v1/namespaces/{_part(namespace)}/pods"
        return self._list(path, FullPod, {"labelSelector": labels}) if labels else ()

    def read_autoscalers(self, namespace: str) -> tuple[Json, ...]:
        return self._list(_path("HorizontalPodAutoscaler", namespace), dict[str, Any])

    # Changing

    def change_workload(self, workload: Workload, patch: Patch, *, dry_run: bool = False) -> Workload | None:
        meta = workload.metadata
        path = f"{_path(workload.kind, str(meta.get('namespace', '')))}/{_part(str(meta.get('name', '')))}"
        if patch.subresource:
            self._write("PATCH", f"{path}/{patch.subresource}", patch.body, FORMS[patch.form], dry_run=dry_run)
            return None
        reply = self._write("PATCH", path, patch.body, FORMS[patch.form], dry_run=dry_run)
        return Workload(workload.kind, decoded(msgspec.json.Decoder(dict[str, Any]).decode, reply.body))

    def select(
        self,
        service: Service,
        selector: Mapping[str, str],
        annotations: Mapping[str, str | None],
        *,
        dry_run: bool = False,
    ) -> Service:
        meta = service.metadata
        patch = switching.patch(service.spec.selector, selector, meta.resource_version, annotations)
        path = _service_path(meta.namespace, meta.name)
        reply = self._write("PATCH", path, patch, FORMS[Form.MERGE], dry_run=dry_run)
        return decoded(msgspec.json.Decoder(Service).decode, reply.body)

    def create(self, kind: str, namespace: str, body: Json, *, dry_run: bool = False) -> Json:
        reply = self._write("POST", _path(kind, namespace), body, dry_run=dry_run)
        found: Json = decoded(msgspec.json.Decoder(dict[str, Any]).decode, reply.body)
        return found

    # Asking

    def ask_pod(self, namespace: str, name: str, port: int, path: str, within_s: float) -> smoke.Answer:
        smoke.checked(smoke.Request(path, port))
        proxied = f"/api/v1/namespaces/{_part(namespace)}/pods/{_part(name)}:{port}/proxy"
        began_at = time.monotonic()
        try:
            reply = self._server.ask(f"{proxied}{path}", within_s=within_s, most_bytes=smoke.MOST_BYTES)
        except PortError as error:
            return smoke.Answer(None, latency_s=time.monotonic() - began_at, trouble=error.reason or str(error))
        latency_s, status = time.monotonic() - began_at, status_of(reply)
        if reply.status >= 400 and status.code == reply.status:  # the API server's own words, not the pod's
            return smoke.Answer(None, latency_s=latency_s, trouble=status.message[:300])
        return smoke.Answer(reply.status, reply.body, latency_s)


def _part(text: str) -> str:
    return quote(text, safe="")


def _path(kind: str, namespace: str) -> str:
    return PATHS[kind].format(_part(namespace))


def _service_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{_part(namespace)}/services/{_part(name)}"
