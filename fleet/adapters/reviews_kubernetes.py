"""What a Kubernetes cluster says about the tokens of its service accounts.

Owns the two requests: TokenReview, and one pod by its name. Must not judge the answers, and never puts a token into a log or an
error.
"""

from typing import Any

import msgspec
from msgspec import Struct

from fleet.adapters.cluster_kubernetes import ApiServer
from fleet.adapters.cluster_streams import Patience, decoded, refusal
from fleet.domain import kube
from fleet.domain.callers import Review
from fleet.ports import PortError

WITHIN_S = 3.0


class _User(Struct, frozen=True):
    username: str = ""
    extra: dict[str, list[str]] | None = None


class _Status(Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()
    audiences: tuple[str, ...] | None = None
    error: str = ""


class _Reviewed(Struct, frozen=True):
    status: _Status = _Status()


class _Spec(Struct, frozen=True):
    node: str = msgspec.field(default="", name="nodeName")


class _Pod(Struct, frozen=True):
    spec: _Spec = _Spec()


_REVIEWED = msgspec.json.Decoder(_Reviewed)
_POD = msgspec.json.Decoder(_Pod)


class KubernetesReviews:
    """`fleet.ports.TokenReviews` for the context `name` of a kubeconfig, or for the cluster that this pod runs in (None)."""

    def __init__(self, name: str, kubeconfig: str | None) -> None:
        self._server = ApiServer(name, kubeconfig, Patience())

    def review(self, token: str, audience: str) -> Review:
        """See `fleet.ports.TokenReviews`."""
        spec = {"token": token, "audiences": [audience]}
        body: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        reply = self._server.send("POST", path, msgspec.json.encode(body), within_s=WITHIN_S)
        if not 200 <= reply.status < 300:
            raise refusal(reply.status, _said(reply.body), reply.retry_after)
        found = decoded(_REVIEWED.decode, reply.body).status
        extra = found.user.extra or {}
        return Review(found.authenticated, found.user.username, found.audiences or (), extra, found.error)

    def node_of_pod(self, namespace: str, name: str) -> str:
        """See `fleet.ports.TokenReviews`."""
        try:
            body = self._server.read(f"/api/v1/namespaces/{namespace}/pods/{name}", within_s=WITHIN_S)
        except PortError as error:
            if error.status == 404:
                return ""
            raise
        return decoded(_POD.decode, body).spec.node


def _said(body: bytes) -> kube.Status:
    try:
        return kube.status(body)
    except kube.Unreadable:  # a proxy's page: the code says enough
        return kube.Status()
