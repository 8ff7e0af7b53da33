"""A Kubernetes cluster, read afresh for decisions and changed.

Owns the requests of the write path: lists without a watch, access reviews, node patches, evictions, and GET through the pod
proxy. Must not decide whether anything is wise, never deletes a pod, and never shortens its grace.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from fleet.adapters.cluster_hooks import HookRequests
from fleet.adapters.cluster_kubernetes import Reply
from fleet.adapters.cluster_requests import MANAGER, WRITE_WITHIN_S, refused, status_of, within
from fleet.adapters.cluster_streams import decoded
from fleet.adapters.cluster_workloads import WorkloadChanges
from fleet.domain import draining, kube, objects
from fleet.domain.facts import Permission, Right
from fleet.domain.kube import Kind
from fleet.domain.objects import Budget, Node, Object, Service
from fleet.domain.specs import Claim, FullPod, Storage
from fleet.ports import PortError

PROXY_WITHIN_S = 2.0
MOST_PROXIED_BYTES = 1024 * 1024
MERGE_PATCH = "application/merge-patch+json"

_CONTROLLERS = (Kind.DEPLOYMENT, Kind.REPLICA_SET, Kind.STATEFUL_SET, Kind.DAEMON_SET, Kind.JOB)


class _ReviewStatus(Struct):
    allowed: bool = False
    reason: str = ""


class _Review(Struct):
    status: _ReviewStatus = field(default_factory=_ReviewStatus)


_REVIEW = msgspec.json.Decoder(_Review)


class KubernetesChanges(WorkloadChanges, HookRequests):
    """`fleet.ports.Changer` over one API server's connection."""

    # Reading

    def read_nodes(self) -> tuple[Node, ...]:
        return self._list("/api/v1/nodes", Node)

    def read_node(self, name: str) -> Node | None:
        return self._get(f"/api/v1/nodes/{quote(name, safe='')}", Node)

    def read_pods(self, node: str = "", namespace: str = "") -> tuple[FullPod, ...]:
        query = {"fieldSelector": f"spec.nodeName={node}"} if node else {}
        return self._list(within("/api/v1/pods", namespace), FullPod, query)

    def read_pod(self, namespace: str, name: str) -> FullPod | None:
        return self._get(_pod_path(namespace, name), FullPod)

    def read_controllers(self, namespace: str = "") -> tuple[Object, ...]:
        paths = {kind: within(kube.RESOURCES[kind].path, namespace) for kind in _CONTROLLERS}
        return tuple(found for kind, path in paths.items() for found in self._list(path, _TYPES[kind]))

    def read_daemon_sets(self) -> frozenset[str]:
        return frozenset(found.key for found in self._list(kube.RESOURCES[Kind.DAEMON_SET].path, objects.DaemonSet))

    def read_budgets(self, namespace: str = "") -> tuple[Budget, ...]:
        return self._list(within(kube.RESOURCES[Kind.BUDGET].path, namespace), Budget)

    def read_services(self, namespace: str = "") -> tuple[Service, ...]:
        return self._list(within("/api/v1/services", namespace), Service)

    def read_claims(self) -> tuple[Claim, ...]:
        return self._list("/api/v1/persistentvolumeclaims", Claim)

    def read_storage(self) -> tuple[Storage, ...]:
        return self._list("/api/v1/persistentvolumes", Storage)

    def may(self, rights: Sequence[Right]) -> tuple[Permission, ...]:
        return tuple(self._may(right) for right in rights)

    def _may(self, right: Right) -> Permission:
        named, _, subresource = right.resource.partition("/")
        resource, _, group = named.partition(".")
        attributes = {
            "verb": right.verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "namespace": right.namespace,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        reply = self._write("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
        status = decoded(_REVIEW.decode, reply.body).status
        return Permission(right.verb, right.resource, right.namespace, status.allowed, status.reason)

    # Changing

    def change_node(self, node: Node, *, unschedulable: bool | None, annotations: Mapping[str, str | None]) -> Node:
        metadata = {
            "uid": node.metadata.uid,
            "resourceVersion": node.metadata.resource_version,
            "annotations": dict(annotations),
        }
        patch: dict[str, Any] = {"metadata": metadata}
        if unschedulable is not None:
            patch["spec"] = {"unschedulable": unschedulable or None}
        path = f"/api/v1/nodes/{quote(node.metadata.name, safe='')}"
        reply = self._write("PATCH", path, patch, kind=MERGE_PATCH)
        return decoded(msgspec.json.Decoder(Node).decode, reply.body)

    def evict(self, namespace: str, name: str, uid: str, *, dry_run: bool) -> draining.Reply:
        options: dict[str, Any] = {"preconditions": {"uid": uid}}
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        path = f"{_pod_path(namespace, name)}/eviction"
        reply = self._server.send(
            "POST", path, msgspec.json.encode(body), query={"fieldManager": MANAGER}, within_s=WRITE_WITHIN_S
        )
        if reply.status == 401:
            raise refused(reply)
        found = _eviction(reply)
        if not any(cause.reason == "NamespaceTerminating" for cause in found.causes):
            return found
        pod = self.read_pod(
            namespace, name
        )  # with its namespace it may be going already, which the refusal does not tell
        going = pod is not None and pod.metadata.uid == uid and pod.metadata.deletion_timestamp is not None
        return replace(found, terminating=going)

    def get_from_pod(self, namespace: str, name: str, port: int, path: str) -> bytes:
        # Our HTTP client resolves dots, so that whoever annotates a pod would choose what we ask of the API server.
        if any(unquote(part) in {".", ".."} for part in path.partition("?")[0].split("/")):
            raise PortError("the path leads out of the pod", retryable=False, reason="path")
        proxied = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}:{port}/proxy"
        return self._server.read(
            f"{proxied}/{path.lstrip('/')}", within_s=PROXY_WITHIN_S, most_bytes=MOST_PROXIED_BYTES
        )


_TYPES: Mapping[Kind, type[Object]] = {
    Kind.DEPLOYMENT: objects.Deployment,
    Kind.REPLICA_SET: objects.ReplicaSet,
    Kind.STATEFUL_SET: objects.StatefulSet,
    Kind.DAEMON_SET: objects.DaemonSet,
    Kind.JOB: objects.Job,
}


def _pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"


def _eviction(reply: Reply) -> draining.Reply:
    status = status_of(reply)
    causes = tuple(draining.Cause(cause.reason, cause.message) for cause in status.details.causes)
    after = reply.retry_after.strip()
    return draining.Reply(
        reply.status,
        status.reason,
        status.message[:300],
        causes,
        float(after) if re.fullmatch(r"\d{1,6}(\.\d+)?", after) else None,
    )
