"""Asking a pod to save a checkpoint: a POST through the API server's proxy, or one of four signals to process 1 of a container.

Owns the only two ways into a pod that change something. Must not send anything else: no body, no header of ours, no command but
`kill -<signal> 1`.
"""

from urllib.parse import quote, unquote

from fleet.adapters import cluster_commands
from fleet.adapters.cluster_kubernetes import Reply
from fleet.adapters.cluster_requests import Requests, refused, status_of
from fleet.domain import kube
from fleet.domain.training import Signal
from fleet.ports import OWN, PortError

ASK_WITHIN_S = 10.0
LONGEST_ANSWER = 200


class HookRequests(Requests):
    """The part of `fleet.ports.Changer` that asks pods to save."""

    def post_to_pod(self, namespace: str, name: str, port: int, path: str) -> None:
        # Our HTTP client resolves dots, so that whoever annotates a pod would choose what we do to the API server.
        if any(unquote(part) in {".", ".."} for part in path.split("/")) or {*"?#"} & {*path}:
            raise PortError("the path leads out of the pod", retryable=False, reason="path")
        place = f"{_pod_path(namespace, name)}:{port}/proxy/{path.lstrip('/')}"
        reply = self._server.send("POST", place, b"", within_s=ASK_WITHIN_S)
        if not 200 <= reply.status < 300:
            raise _refused(reply)

    def signal_pod(self, namespace: str, name: str, container: str, signal: Signal) -> None:
        argv = ("kill", f"-{Signal(signal)}", "1")
        query = [*(("command", word) for word in argv), ("container", container), ("stderr", "true")]
        cluster_commands.run(self._server, f"{_pod_path(namespace, name)}/exec", query, ASK_WITHIN_S)


def _refused(reply: Reply) -> PortError:
    """What the pod said, with `reason` OWN, or the API server in its place."""
    if status_of(reply) != kube.Status():
        return refused(reply)
    said = reply.body[:LONGEST_ANSWER].decode(errors="replace").strip()
    message = f"the pod answered {reply.status}: {said}" if said else f"the pod answered {reply.status}"
    return PortError(message, retryable=reply.status >= 500, status=reply.status, reason=OWN)


def _pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
