"""Exporter pods: how they are found and reached, on the rehearsal cluster and on servers that answer badly."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.adapters.exporters_kubernetes import MOST_BYTES, KubernetesExporters
from fleet.domain.gpus import DriverStatus
from fleet.ports import Exporter, PortError
from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from tests.fleet.scripted import Request, Scripted, Wire, chunk, failure, reply, silence

PAGE = b'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1"} 40\n'
EXPORTER = Exporter("node-1", "gpu-operator", "dcgm-exporter-x", "start", "127.0.0.1", 9400)
WITHIN_S = 1.0


def text(body: bytes) -> Wire:
    return reply(body, headers={"Content-Type": "text/plain; version=0.0.4"})


def pod(name: str, node: str = "node-1", **over: Any) -> dict[str, Any]:
    status = {
        "podIP": "10.0.0.7",
        "containerStatuses": [{"name": "exporter", "containerID": "containerd://0123456789abcdef0123"}],
    }
    port = {"name": "metrics", "containerPort": 9400}
    spec = {"nodeName": node, "containers": [{"name": "exporter", "ports": [port]}]}
    metadata = {"name": name, "namespace": "gpu-operator", "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": spec | over.get("spec", {}), "status": status | over.get("status", {})}


def listed(*pods: dict[str, Any], token: str = "") -> Wire:
    return reply({"metadata": {"continue": token}, "items": list(pods)})


class Pods:
    """An API server: `lists` by what is in the selector, `page` for everybody's metrics."""

    def __init__(self, page: Callable[[Request], Wire] | None = None, *lists: Wire) -> None:
        self.page = page or (lambda _: text(PAGE))
        self.lists = list(lists)
        self.server = Scripted(self._answer)

    def _answer(self, request: Request) -> Wire:
        if request.path.endswith("/proxy/metrics"):
            return self.page(request)
        return self.lists.pop(0) if self.lists else listed()


@pytest.fixture
def reach(tmp_path: Path) -> Iterator[Callable[..., tuple[Pods, KubernetesExporters]]]:
    servers = []

    def made(page: Any = None, *lists: Wire) -> tuple[Pods, KubernetesExporters]:
        pods = Pods(page, *lists)
        servers.append(pods.server)
        return pods, KubernetesExporters("scripted", pods.server.kubeconfig(tmp_path), within_s=WITHIN_S)

    yield made
    for server in servers:
        server.close()


# Which they are


def test_they_are_found_by_the_labels_of_both_charts_one_of_each_node(reach: Any) -> None:
    pods, exporters = reach(
        None,
        listed(pod("b"), pod("a"), pod("c", "node-2"), token="more"),
        listed(pod("d", "node-3"), pod("nowhere", "")),
        listed(pod("c", "node-2"), pod("e", "node-4")),
    )
    assert [(e.node, e.pod) for e in exporters.find()] == [
        ("node-1", "a"),
        ("node-2", "c"),
        ("node-3", "d"),
        ("node-4", "e"),
    ]
    selectors = [request.query["labelSelector"] for request in pods.server.requests]
    assert selectors == [*["app in (nvidia-dcgm-exporter,dcgm-exporter)"] * 2, "app.kubernetes.io/name=dcgm-exporter"]
    assert {request.query["fieldSelector"] for request in pods.server.requests} == {"status.phase=Running"}


@pytest.mark.parametrize(
    ("over", "start", "address", "port"),
    [
        ({}, "0123456789abcdef", "10.0.0.7", 9400),
        ({"status": {"containerStatuses": None, "podIP": ""}}, "uid-a", "", 9400),
        ({"spec": {"containers": [{"name": "x", "ports": None}]}}, "0123456789abcdef", "10.0.0.7", 9400),
        (
            {"spec": {"containers": [{"name": "x", "ports": [{"name": "metrics", "containerPort": 9401}]}]}},
            "0123456789abcdef",
            "10.0.0.7",
            9401,
        ),
    ],
)
def test_what_a_pod_says_about_itself(reach: Any, over: Any, start: str, address: str, port: int) -> None:
    _, exporters = reach(None, listed(pod("a", **over)))
    (found,) = exporters.find()
    assert (found.start, found.address, found.port) == (start, address, port)


def test_a_cluster_that_forbids_the_list_says_so(reach: Any) -> None:
    _, exporters = reach(None, reply(failure(403, "Forbidden"), 403))
    with pytest.raises(PortError) as caught:
        exporters.find()
    assert caught.value.reason == "Forbidden"


# Their pages


def test_a_page_comes_through_the_proxy(reach: Any) -> None:
    pods, exporters = reach()
    found = exporters.read(EXPORTER, "boot-1")
    assert (found.node, found.boot_id, found.source, found.gpus[0].temperature_c) == ("node-1", "boot-1", "dcgm", 40)
    (request,) = pods.server.requests
    assert request.path == "/api/v1/namespaces/gpu-operator/pods/http:dcgm-exporter-x:9400/proxy/metrics"


def test_what_an_exporter_showed_is_remembered_until_it_is_gone(reach: Any) -> None:
    _, exporters = reach(
        lambda _: text(PAGE + b'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1"} 31\n'),
        listed(pod("dcgm-exporter-x")),
        listed(),
        listed(),
        listed(),
    )
    told = [len(exporters.read(EXPORTER, "boot-1").faults) for _ in range(2)]
    exporters.find()
    told.append(len(exporters.read(EXPORTER, "boot-1").faults))
    exporters.find()
    told.append(len(exporters.read(EXPORTER, "boot-1").faults))
    assert told == [1, 0, 0, 1]


def dripping(pods: Pods) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    while not pods.server.over.wait(0.1):
        yield chunk(PAGE)


def endless(_: Pods) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for _piece in range(MOST_BYTES // 65536 + 2):
        yield chunk(b"#" * 65536)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda pods: silence(pods.server), "silent"),
        (lambda pods: silence(pods.server, b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", PAGE), "silent"),
        (dripping, "silent"),
        (endless, "too-long"),
        (lambda _: [b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + PAGE], "cut off"),
        (lambda _: reply(failure(503, "ServiceUnavailable"), 503), "ServiceUnavailable"),
        (lambda _: reply(failure(403, "Forbidden"), 403), "Forbidden"),
        (lambda _: reply(b"not found", 404), "HTTP 404"),
        (lambda _: reply(b"", 302, {"Location": "http://127.0.0.1:1/"}), "HTTP 302"),
    ],
)
def test_a_bad_answer_is_a_reason_within_the_deadline(reach: Any, answer: Any, reason: str) -> None:
    pods, exporters = reach()
    pods.page = lambda _: answer(pods)
    ended, caught = threading.Event(), []

    def read() -> None:
        try:
            exporters.read(EXPORTER, "boot-1")
        except PortError as error:
            caught.append(error)
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    assert ended.wait(30), "it waits for ever"
    assert [error.reason for error in caught] == [reason]


@pytest.mark.parametrize("body", [b"", b"<html>sign in</html>", b"\xff\xfe\x00", b"go_goroutines 8\n", b"x" * 100_000])
def test_a_page_about_nothing_is_an_error_of_the_source(reach: Any, body: bytes) -> None:
    _, exporters = reach(lambda _: text(body))
    found = exporters.read(EXPORTER, "boot-1")
    assert (found.status, found.gpus, found.faults) == (DriverStatus.ERROR, (), ())


# At their own addresses


@pytest.fixture
def direct(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    servers = []

    def made(answer: Callable[[Request], Wire]) -> tuple[Scripted, KubernetesExporters, Exporter]:
        pods, own = Pods(), Scripted(answer)
        servers.extend((pods.server, own))
        exporters = KubernetesExporters("scripted", pods.server.kubeconfig(tmp_path), direct=True, within_s=WITHIN_S)
        return own, exporters, Exporter("node-1", "gpu-operator", "x", "start", "127.0.0.1", int(own.url.split(":")[2]))

    yield made
    for server in servers:
        server.close()


def test_a_page_comes_from_the_pod_itself(direct: Any) -> None:
    own, exporters, exporter = direct(lambda _: text(PAGE))
    assert exporters.read(exporter, "boot-1").gpus[0].temperature_c == 40
    (request,) = own.requests
    assert request.path == "/metrics"
    assert "authorization" not in request.headers, "a pod is not told who we are"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda _: reply(b"", 302, {"Location": "http://169.254.169.254/"}), "http"),
        (lambda _: reply(b"", 500), "http"),
        (silence, "silent"),
        (lambda _: [b"rubbish\r\n\r\n"], "cut off"),
    ],
)
def test_a_pod_that_answers_badly(direct: Any, answer: Any, reason: str) -> None:
    own, exporters, exporter = direct(lambda _: answer(own))
    with pytest.raises(PortError) as caught:
        exporters.read(exporter, "boot-1")
    assert caught.value.reason == reason
    assert len(own.requests) == 1, "no redirect is followed"


def test_a_pod_that_is_not_there(direct: Any) -> None:
    own, exporters, exporter = direct(lambda _: text(PAGE))
    own.close()
    with pytest.raises(PortError) as caught:
        exporters.read(exporter, "boot-1")
    assert caught.value.reason == "refused"
    with pytest.raises(PortError) as caught:
        exporters.read(Exporter("node-1", "ns", "x", "start", "", 9400), "boot-1")
    assert caught.value.reason == "no-address"


# The rehearsal cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(Rehearsal(nodes=3, pace=0), tmp_path_factory.mktemp("cluster")) as found:
        yield found


def test_the_rehearsal_s_exporters_answer_through_its_api_server(cluster: Serving) -> None:
    exporters = KubernetesExporters("rehearsal", str(cluster.kubeconfig))
    found = exporters.find()
    machines = cluster.rehearsal.machines
    assert {exporter.node for exporter in found} == cluster.call(lambda: set(machines))
    began = time.time()
    for exporter in found:
        reading = exporters.read(exporter, "boot-1")
        true = cluster.call(lambda node=exporter.node: machines.gpus(node))
        assert [(g.uuid, g.pci, g.memory_used_bytes) for g in reading.gpus] == [
            (g.uuid, g.pci, g.memory_used_bytes) for g in true
        ]
        assert (reading.node, reading.status) == (exporter.node, DriverStatus.OK)
        assert reading.sent_at >= began
