"""What a real API server does to us, one fault after another: nothing wrong is shown as fresh, and it recovers by itself.

A writer follows a scripted server through the real adapter; the server turns bad, stays so for a while, and turns good again.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.adapters.cluster_streams import Patience
from fleet.domain.kube import RESOURCES, Kind
from fleet.live import Loss, MemoryPicture
from fleet.observe import Pace, Writer
from tests.fleet.clusters import wait_for
from tests.fleet.scripted import STREAM, Request, Scripted, Wire, chunk, failure, item, line, namespace, page, reply

QUICK = Patience(
    first_pause_s=0.01, longest_pause_s=0.1, answer_s=0.5, version_s=0.3, connect_s=0.5, short_s=0.0, credentials_s=0.0
)
PACE = Pace(tick_s=0.01, gather_s=0.02, gather_most_s=0.05, probe_s=0.05, pulse_s=0.05, renew_s=0.5, lease_s=5.0)

Fault = Callable[["Server", Request], Wire | None]  # None: answer as usual


@dataclass
class Server:
    """An API server with one node, whose watches end when it turns bad or good."""

    nodes: dict[str, int] = field(default_factory=lambda: {"node-0": 3})  # name → resourceVersion
    extra: dict = field(default_factory=dict)  # of every node
    version: int = 10
    fault: Fault | None = None
    changed: threading.Event = field(default_factory=threading.Event)
    scripted: Scripted | None = None

    def turn(self, fault: Fault | None) -> None:
        self.fault = fault
        before, self.changed = self.changed, threading.Event()
        before.set()

    def __call__(self, request: Request) -> Wire:
        if self.fault is not None and (answer := self.fault(self, request)) is not None:
            return answer
        if request.path == "/version":
            return reply({"gitVersion": "v1.36.2"})
        if request.path.endswith("/kube-system"):
            return reply(namespace())
        return self.watch() if request.watch else reply(self.page(request))

    def page(self, request: Request) -> dict:
        is_nodes = request.path.endswith("/nodes")
        return page([self.item(name) for name in self.nodes] if is_nodes else [], self.version)

    def item(self, name: str) -> dict:
        found = item(name, self.nodes[name], "Node") | self.extra
        del found["metadata"]["namespace"]
        return found

    def watch(self) -> Iterator[bytes]:
        changed = self.changed
        yield STREAM
        changed.wait(30)

    def silence(self) -> Iterator[bytes]:
        self.changed.wait(30)
        yield b""


@dataclass
class World:
    server: Server
    picture: MemoryPicture
    writer: Writer

    @property
    def pulse(self):
        found = self.picture.read("scripted")
        return found.pulse if found else self.picture.last_pulse("scripted")

    @property
    def loss(self) -> Loss:
        return self.pulse.loss(time.time())

    @property
    def reasons(self) -> dict[str, str]:
        return {what: reason for what, reason, _ in self.pulse.trouble} if self.pulse else {}

    @property
    def names(self) -> set[str]:
        found = self.picture.read("scripted")
        return set(found.snapshot.nodes) if found else set()

    def fresh(self) -> bool:
        return bool(self.names) and not self.pulse.trouble and time.time() - self.pulse.at < 1.0

    def stays(self, at: float, for_s: float = 0.4) -> None:
        """The picture does not get truer."""
        end = time.monotonic() + for_s
        while time.monotonic() < end:
            assert self.pulse.at == at
            time.sleep(0.02)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    server = Server()
    scripted = server.scripted = Scripted(server)
    picture = MemoryPicture(lambda _: None)
    cluster = KubernetesCluster("scripted", scripted.kubeconfig(tmp_path), QUICK)
    writer, stopping = Writer(cluster, picture, PACE), threading.Event()
    thread = threading.Thread(target=lambda: writer.run(stopping), daemon=True)
    found = World(server, picture, writer)
    found.start = thread.start
    try:
        yield found
    finally:
        stopping.set()
        server.turn(None)
        scripted.close()
        if thread.ident:
            thread.join(5)
        assert not thread.is_alive()


def everything(code: int, reason: str = "", headers: dict | None = None) -> Fault:
    return lambda _server, _request: reply(failure(code, reason), code, headers)


def hangs(server: Server, _request: Request) -> Wire:
    return server.silence()


def page_of_a_proxy(_server: Server, _request: Request) -> Wire:
    return reply(b"<html>Bad gateway</html>", 502)


def something_else(_server: Server, _request: Request) -> Wire:
    return reply(b"<html>Welcome to nginx</html>", 200)


def closes(_server: Server, _request: Request) -> Wire:
    return []


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (hangs, "silent"),
        (closes, "cut off"),
        (everything(500, "InternalError"), "InternalError"),
        (everything(503, "ServiceUnavailable"), "ServiceUnavailable"),
        (everything(429, "TooManyRequests", {"Retry-After": "1"}), "TooManyRequests"),
        (everything(401, "Unauthorized"), "Unauthorized"),
        (page_of_a_proxy, "HTTP 502"),
        (something_else, "unreadable"),
    ],
    ids=["hangs", "closes", "500", "503", "429", "401", "proxy", "another server"],
)
def test_a_server_that_turns_bad_is_a_known_loss_until_it_turns_good(world, fault, reason):
    world.start()
    wait_for(world.fresh)
    world.server.turn(fault)
    wait_for(lambda: world.reasons.get("server") == reason and world.reasons.get("pods") == reason)
    assert world.loss is Loss.SERVER
    world.stays(world.pulse.at)
    assert world.names == {"node-0"}, "what was known stays, with its age"
    del world.server.nodes["node-0"]
    world.server.nodes["node-1"], world.server.version = 20, 30
    world.server.turn(once(expired))
    wait_for(lambda: world.names == {"node-1"}, 10)
    wait_for(world.fresh)
    assert world.loss is Loss.NONE


def once(fault: Fault) -> Fault:
    """Only the first watch of nodes."""
    done = threading.Event()

    def first(server: Server, request: Request) -> Wire | None:
        if not (request.watch and request.path.endswith("/nodes")) or done.is_set():
            return None
        done.set()
        return fault(server, request)

    return first


def expired(_server: Server, _request: Request) -> Wire:
    """410 in mid-watch."""
    return [STREAM, chunk(line("ERROR", failure(410, "Expired", "too old resource version: 1 (2)")))]


def cut_in_a_line(server: Server, _request: Request) -> Wire:
    whole = line("MODIFIED", server.item("node-0"))
    return [STREAM, chunk(whole[: len(whole) // 2])]


@pytest.mark.parametrize(("fault", "reason"), [(expired, "Expired"), (cut_in_a_line, "cut off")])
def test_one_stream_that_breaks_is_marked_until_it_is_whole_again(world, fault, reason):
    """What comes after it is slow, so that we see what is said meanwhile."""
    world.start()
    wait_for(world.fresh)
    broken, never = threading.Event(), threading.Event()
    first = once(lambda server, request: broken.set() or fault(server, request))

    def breaks(server: Server, request: Request) -> Wire | None:
        if broken.is_set() and request.path.endswith("/nodes") and not request.watch:
            never.wait(0.4)
        return first(server, request)

    world.server.turn(breaks)
    wait_for(lambda: broken.is_set() and world.reasons == {"nodes": reason})
    assert world.loss is Loss.NONE, "the server answers"
    world.stays(world.pulse.at, 0.1)
    wait_for(world.fresh)
    assert world.names == {"node-0"}


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.NODE, Kind.POD}))
def test_any_other_kind_may_be_forbidden_and_the_rest_works(world, kind):
    forbidden = reply(failure(403, "Forbidden", "no"), 403)
    path = RESOURCES[kind].path
    world.server.fault = lambda _server, request: forbidden if request.path == path else None
    world.start()
    wait_for(lambda: world.names == {"node-0"})
    wait_for(lambda: time.time() - world.pulse.at < 1.0 and not set(world.reasons) - {kind.value})
    assert world.pulse.hidden == [kind.value]
    assert world.loss is Loss.NONE


BARE = {"metadata": {"name": "node-0", "resourceVersion": "3"}}
NULLS = {"spec": None, "status": None, "metadata": {"name": "node-0", "labels": None, "annotations": None}}
MORE = {"spec": {"unheardOf": [{"a": 1}]}, "status": {"capacity": {"nvidia.com/gpu": "8"}, "new": 3}}
HOSTILE = {
    "metadata": {
        "name": "node-0",
        "resourceVersion": "3",
        "labels": {
            "topology.kubernetes.io/zone": "<script>alert(1)</script>\u202e\x00'\"",
            "nvidia.com/gpu.product": "{{ 7 * 7 }}",
        },
        "annotations": {"x": "\ud83d\ude80" * 1000},
    },
    "status": {
        "capacity": {"nvidia.com/gpu": "-8", "amd.com/gpu": "1e400", "x/gpu": "many"},
        "nodeInfo": {"kernelVersion": "x" * 9000},
    },
}


@pytest.mark.parametrize("extra", [BARE, NULLS, MORE, HOSTILE], ids=["bare", "nulls", "more", "hostile"])
def test_an_object_without_the_fields_that_we_expect_is_shown_as_far_as_it_goes(world, extra):
    world.server.extra = extra
    world.server.item = lambda name: {**item(name, 3, "Node"), **extra}
    world.start()
    wait_for(lambda: {name.rpartition("/")[2] for name in world.names} == {"node-0"})
    wait_for(world.fresh)


@pytest.mark.parametrize("broken", [{"spec": "text"}, {"metadata": [1]}, {"status": {"capacity": 8}}])
def test_an_object_that_is_none_is_trouble_and_never_half_a_picture(world, broken):
    world.start()
    wait_for(world.fresh)
    good = world.server.item
    world.server.item = lambda name: {**good(name), **broken}
    world.server.turn(once(lambda server, _: [STREAM, chunk(line("MODIFIED", server.item("node-0")))]))
    wait_for(lambda: world.reasons.get("nodes") == "unreadable" or world.fresh())
    assert world.names == {"node-0"}
    world.server.item = good
    world.server.turn(None)
    wait_for(world.fresh)
