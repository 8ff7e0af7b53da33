"""The dcgm-exporter pods of a Kubernetes cluster: which they are, and their pages.

Owns finding them, the two ways to reach them (through the API server's proxy, or at their own addresses), and what is remembered
of each from one page to the next. Must not know what a page says (`gpus_dcgm` does), nor when to ask.
"""

import threading
import time
from collections.abc import Callable
from urllib.parse import quote

import msgspec
import urllib3
from msgspec import Struct, field

from fleet.adapters.cluster_kubernetes import ApiServer, bounded
from fleet.adapters.cluster_streams import BREAKS, Patience, broken, decoded
from fleet.adapters.gpus_dcgm import Origin, Seen, reading
from fleet.domain.gpus import Reading
from fleet.ports import Exporter, PortError

# The GPU operator's label, dcgm-exporter's own chart's, and the one of its plain manifests.
SELECTORS = ("app in (nvidia-dcgm-exporter,dcgm-exporter)", "app.kubernetes.io/name=dcgm-exporter")
PORT_NAME, PORT = "metrics", 9400
PAGE = 500
LIST_WITHIN_S = 15.0
PAGE_WITHIN_S = 5.0
MOST_BYTES = 8 * 1024 * 1024
MOST_LIST_BYTES = 64 * 1024 * 1024
AT_ONCE = 16  # connections that are kept, to addresses of pods


class _Metadata(Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Port(Struct, rename="camel"):
    name: str = ""
    container_port: int = 0


class _Container(Struct, rename="camel"):
    name: str = ""
    ports: list[_Port] | None = None


class _Spec(Struct, rename="camel"):
    node_name: str = ""
    containers: list[_Container] = field(default_factory=list)


class _ContainerStatus(Struct):
    name: str = ""
    container_id: str = field(default="", name="containerID")


class _Status(Struct):
    pod_ip: str = field(default="", name="podIP")
    statuses: list[_ContainerStatus] | None = field(default=None, name="containerStatuses")


class _Pod(Struct):
    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)


class _ListMetadata(Struct):
    token: str = field(default="", name="continue")


class _Pods(Struct):
    metadata: _ListMetadata = field(default_factory=_ListMetadata)
    items: list[_Pod] | None = None


_PODS = msgspec.json.Decoder(_Pods)


class KubernetesExporters:
    """`fleet.ports.Exporters` for the context `name` of a kubeconfig, or for the cluster that this pod runs in (None). `direct`:
    at the pods' own addresses, where the proxy is forbidden or too slow."""

    def __init__(
        self, name: str, kubeconfig: str | None, *, direct: bool = False, within_s: float = PAGE_WITHIN_S
    ) -> None:
        self._server = ApiServer(name, kubeconfig, Patience())
        self._within_s = within_s
        self._fetch: Callable[[Exporter], bytes] = self._fetch_direct if direct else self._fetch_proxied
        self._pool = urllib3.PoolManager(num_pools=AT_ONCE, retries=False)
        self._lock = threading.Lock()
        self._seen: dict[str, Seen] = {}  # by node

    def find(self) -> tuple[Exporter, ...]:
        """See `fleet.ports.Exporters`."""
        pods = {pod.metadata.uid: pod for selector in SELECTORS for pod in self._list(selector)}
        ordered = sorted(pods.values(), key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
        found: dict[str, Exporter] = {}
        for pod in ordered:
            if pod.spec.node_name:
                found.setdefault(pod.spec.node_name, _exporter(pod))
        with self._lock:
            self._seen = {node: seen for node, seen in self._seen.items() if node in found}
        return tuple(found.values())

    def read(self, exporter: Exporter, boot_id: str) -> Reading:
        """See `fleet.ports.Exporters`."""
        page = self._fetch(exporter).decode(errors="replace")
        with self._lock:
            seen = self._seen.get(exporter.node)
        found, now = reading(page, Origin(exporter.node, boot_id, exporter.start), seen, time.time())
        with self._lock:
            self._seen[exporter.node] = now
        return found

    def _list(self, selector: str) -> list[_Pod]:
        """The running ones that a selector finds."""
        query = {"labelSelector": selector, "fieldSelector": "status.phase=Running", "limit": str(PAGE)}
        found: list[_Pod] = []
        while True:
            body = self._server.read("/api/v1/pods", query, LIST_WITHIN_S, MOST_LIST_BYTES)
            page = decoded(_PODS.decode, body)
            found += page.items or []
            if not page.metadata.token:
                return found
            query["continue"] = page.metadata.token

    def _fetch_proxied(self, exporter: Exporter) -> bytes:
        name = f"http:{quote(exporter.pod, safe='')}:{exporter.port}"
        path = f"/api/v1/namespaces/{quote(exporter.namespace, safe='')}/pods/{name}/proxy/metrics"
        return self._server.read(path, within_s=self._within_s, most_bytes=MOST_BYTES)

    def _fetch_direct(self, exporter: Exporter) -> bytes:
        """Whoever holds a pod's address may answer anything: no redirect is followed, and nothing is unpacked."""
        if not exporter.address:
            raise PortError("the pod has no address", retryable=True, reason="no-address")
        host = f"[{exporter.address}]" if ":" in exporter.address else exporter.address
        url, until = f"http://{host}:{exporter.port}/metrics", time.monotonic() + self._within_s
        timeout = urllib3.Timeout(total=self._within_s)
        try:
            response = self._pool.request("GET", url, timeout=timeout, redirect=False, preload_content=False)
            try:
                if response.status != 200:
                    raise PortError(f"HTTP {response.status}", retryable=True, status=response.status, reason="http")
                return bounded(response, until, MOST_BYTES)
            finally:
                response.close()
        except BREAKS as error:
            raise broken(error) from None


def _exporter(pod: _Pod) -> Exporter:
    """Its metrics port by name, else the usual one; which start of it this is, by its container."""
    named = [(container, port) for container in pod.spec.containers for port in container.ports or ()]
    chosen = next(((c, p) for c, p in named if p.name == PORT_NAME), None)
    chosen = chosen or next(((c, p) for c, p in named if p.container_port == PORT), None)
    statuses = {status.name: status.container_id for status in pod.status.statuses or ()}
    container = statuses.get(chosen[0].name if chosen else "", "") or next(iter(statuses.values()), "")
    return Exporter(
        node=pod.spec.node_name,
        namespace=pod.metadata.namespace,
        pod=pod.metadata.name,
        start=(container.rpartition("/")[2] or pod.metadata.uid)[:16],
        address=pod.status.pod_ip,
        port=chosen[1].container_port if chosen else PORT,
    )
