"""What an edge must offer: one Protocol per port, and the one error that they raise.

Owns the vocabulary between the stories (`observe`, `act`) and the adapters. Must not know any technology.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from fleet.domain import draining, smoke
from fleet.domain.callers import Review
from fleet.domain.checkpoint_files import File, Listing
from fleet.domain.endpoints import EndpointSlice
from fleet.domain.facts import Permission, Right
from fleet.domain.gpus import Reading
from fleet.domain.kube import Event, Kind
from fleet.domain.manifests import Manifest
from fleet.domain.objects import Budget, Node, Object, Service
from fleet.domain.readiness_loads import SeenPod
from fleet.domain.revisions import Json, Patch, Workload
from fleet.domain.specs import Claim, FullPod, Storage
from fleet.domain.training import Signal

OWN = "pod"  # `reason` of a PortError: what a pod itself has answered, not the API server in front of it


class PortError(Exception):
    """An edge could not do what was asked.

    `retryable` tells whether the same call may succeed later; `status` is the HTTP status where there is one; `reason` is the
    edge's own token (Kubernetes' `reason`, or a transport word such as "silent"); `retry_after_s` is how long the other side
    asked us to wait, 0 when it did not. The message never contains credentials.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool,
        status: int | None = None,
        reason: str = "",
        retry_after_s: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s


class Stopping(Protocol):
    """The part of `threading.Event` that a waiting edge honours."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class Cluster(Protocol):
    """One Kubernetes cluster, read."""

    name: str

    def version(self) -> str:
        """`gitVersion` of the server, asked with a deadline of 2 s. Raises PortError."""

    def follow(self, kind: Kind, since: str | None, stopping: Stopping) -> Iterator[Event]:
        """List (when `since` is None) and watch one kind until `stopping`; never raises for trouble on the way.

        Yields `Listed`, then `Changed`, `Deleted`, `Bookmark`, each with the resourceVersion to resume from, and `Lost` with the
        cause and the pause whenever the stream broke. A version too old, or a server that came back as another, gives `Listed`
        again. Blocks between events; `close()` wakes it.
        """

    def close(self) -> None:
        """End every open stream at once, also one that is silent, from any thread and as often as needed.

        Streams whose `stopping` is not set go on with a new connection; one that is just connecting may miss the call.
        """


class Changer(Protocol):
    """One Kubernetes cluster, read afresh for a decision, and changed. Every method has a deadline of its own and raises
    PortError; `status` 403 means that Vigie's account may not."""

    def read_nodes(self) -> tuple[Node, ...]: ...

    def read_node(self, name: str) -> Node | None:
        """None: there is none of that name."""

    def read_pods(self, node: str = "", namespace: str = "") -> tuple[FullPod, ...]:
        """The pods bound to `node` or in `namespace`, or all of them."""

    def read_pod(self, namespace: str, name: str) -> FullPod | None: ...

    def read_controllers(self, namespace: str = "") -> tuple[Object, ...]:
        """Every Deployment, ReplicaSet, StatefulSet, DaemonSet and Job, of all namespaces or one."""

    def read_daemon_sets(self) -> frozenset[str]:
        """Their keys."""

    def read_budgets(self, namespace: str = "") -> tuple[Budget, ...]: ...

    def read_services(self, namespace: str = "") -> tuple[Service, ...]: ...

    def read_claims(self) -> tuple[Claim, ...]: ...

    def read_storage(self) -> tuple[Storage, ...]: ...

    def may(self, rights: Sequence[Right]) -> tuple[Permission, ...]:
        """Whether Vigie's own account has each right, in the same order: access reviews, which change nothing."""

    def change_node(self, node: Node, *, unschedulable: bool | None, annotations: Mapping[str, str | None]) -> Node:
        """Write on exactly the node that was read: a node of another version is refused with status 409. `unschedulable` None
        leaves it as it is; an annotation None is taken away."""

    def evict(self, namespace: str, name: str, uid: str, *, dry_run: bool) -> draining.Reply:
        """Ask for the eviction of exactly this pod. Never a deletion, and always with the pod's own grace."""

    def get_from_pod(self, namespace: str, name: str, port: int, path: str) -> bytes:
        """A pod's answer to GET, through the API server's proxy, at most 1 MiB within 2 s."""

    def post_to_pod(self, namespace: str, name: str, port: int, path: str) -> None:
        """An empty POST to a pod through the API server's proxy, answered with success within 10 s. An error without a status
        does not tell whether the pod heard it; one with `reason` OWN is the pod's own answer."""

    def signal_pod(self, namespace: str, name: str, container: str, signal: Signal) -> None:
        """`kill -<signal> 1` in a container, ended with success within 10 s. An error that is retryable and has no status does
        not tell whether it was carried out."""

    def read_workload(self, kind: str, namespace: str, name: str) -> Workload | None:
        """A Deployment, StatefulSet or DaemonSet, whole."""

    def read_holders(self, workload: Workload) -> tuple[Json, ...]:
        """Whatever may keep its revisions, whole: ReplicaSets or ControllerRevisions that its labels select."""

    def read_service(self, namespace: str, name: str) -> Service | None: ...

    def read_slices(self, namespace: str, service: str) -> tuple[EndpointSlice, ...]: ...

    def read_selected(self, namespace: str, selector: Mapping[str, str]) -> tuple[FullPod, ...]:
        """The pods with all of these labels; none for no label."""

    def read_autoscalers(self, namespace: str) -> tuple[Json, ...]:
        """The HorizontalPodAutoscalers, whole."""

    def change_workload(self, workload: Workload, patch: Patch, *, dry_run: bool = False) -> Workload | None:
        """Write on exactly the version that was read: another one is refused with status 409. None: a subresource was written."""

    def select(
        self,
        service: Service,
        selector: Mapping[str, str],
        annotations: Mapping[str, str | None],
        *,
        dry_run: bool = False,
    ) -> Service:
        """Make exactly this the selector of exactly the Service that was read: one of another version is refused with status
        409. An annotation None is taken away."""

    def create(self, kind: str, namespace: str, body: Json, *, dry_run: bool = False) -> Json:
        """A new Deployment or PodDisruptionBudget. Status 409 when there is one of that name."""

    def ask_pod(self, namespace: str, name: str, port: int, path: str, within_s: float) -> smoke.Answer:
        """A pod's answer to GET through the API server's proxy, whatever its status, at most 1 MiB. No answer is an answer too;
        raises smoke.RequestError for a path or a port that may not be asked."""


class Logs(Protocol):
    """What containers wrote."""

    def last_words(self, namespace: str, pod: str, container: str, lines: int) -> bytes:
        """The end of the last run of a container that has ended. Raises PortError; status 400 when no log of it is left."""


class Exporter(Struct, frozen=True):
    """A pod that measures the GPUs of its node for whoever asks. `start`: another one with each start of its container."""

    node: str
    namespace: str
    pod: str
    start: str
    address: str  # "" while it has none
    port: int


class Exporters(Protocol):
    """The GPU exporters of one cluster. Every method raises PortError."""

    def find(self) -> tuple[Exporter, ...]:
        """Those that run, one of each node."""

    def read(self, exporter: Exporter, boot_id: str) -> Reading:
        """What it says of its node, within 5 s. A page that says nothing about GPUs is a reading that says so."""


class CheckpointStore(Protocol):
    """A tree of files or objects, read with listings and ranged reads alone: nothing here can write.

    Both methods raise PortError, with one of these as `reason`: "denied", "gone", "changed", "outside" (a path or link that
    leaves the store), "too-many" (more files than asked for), "silent", "failed".
    """

    name: str  # where it is, for people; never with credentials

    def list(self, path: str, most: int) -> Listing:
        """Every file below `path`, a directory or one file relative to the store; "" is all of it. What cannot be listed or is
        no regular file stands in `omitted`; links to directories are not followed."""

    def read(self, file: File, offset: int, length: int) -> bytes:
        """Exactly these bytes, of exactly the version that was listed."""


class TokenReviews(Protocol):
    """What a cluster says about its service accounts' tokens. Both methods have a deadline of seconds, and raise PortError."""

    def review(self, token: str, audience: str) -> Review:
        """Whose token it is, and whether it is meant for `audience`."""

    def node_of_pod(self, namespace: str, name: str) -> str:
        """The node that a pod is bound to; "" when there is no such pod, or it is bound to none."""


class Declared(Struct, frozen=True):
    """What a cluster's objects say about restarts. `unread`: kinds that Vigie may not list, or that the cluster does not have."""

    manifests: tuple[Manifest, ...]
    pods: tuple[SeenPod, ...]
    unread: tuple[str, ...] = ()


class Manifests(Protocol):
    """The workloads of one cluster as people wrote them, with what is around them."""

    def read_manifests(self) -> Declared:
        """Lists, in pages, and nothing else. Raises PortError when the API server does not answer."""
