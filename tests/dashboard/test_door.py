"""The door for readings: who may hand in what, over HTTP and with the rehearsal's token reviews; and what hostile bodies meet."""

import asyncio
import gzip
import http.client
import json
import threading
import time
import zlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dashboard import door as door_module
from dashboard.door import BURST, MOST_ASKING, MOST_BYTES, Door
from fleet import live, wiring
from fleet.adapters.cluster_kubernetes import ApiServer
from fleet.adapters.cluster_streams import Patience
from fleet.adapters.reviews_kubernetes import KubernetesReviews
from fleet.domain.callers import AUDIENCE, NODE, POD, Review
from fleet.domain.gpus import Reading
from fleet.live import MemoryGpus, Received
from fleet.ports import PortError
from fleet.recognition import Recognition
from fleet.simulation.rehearsal import Rehearsal, serving
from tests.fleet import readings

ACCOUNT = "vigie:vigie-agent"


class FakeReviews:
    """`fleet.ports.TokenReviews`: a token is a node's name; `asked` holds what was reviewed."""

    def __init__(self, **changes) -> None:
        self.asked: list[str] = []
        self.changes = changes
        self.pods: dict[tuple[str, str], str] = {}
        self.error: PortError | None = None

    def review(self, token: str, audience: str) -> Review:
        self.asked.append(token)
        if self.error is not None:
            raise self.error
        found = Review(True, f"system:serviceaccount:{ACCOUNT}", (audience,), {NODE: [token]})
        return replace(found, **self.changes)

    def node_of_pod(self, namespace: str, name: str) -> str:
        return self.pods.get((namespace, name), "")


@pytest.fixture
def store(monkeypatch) -> MemoryGpus:
    found = MemoryGpus()
    monkeypatch.setattr(live, "gpus", lambda: found)
    return found


@pytest.fixture
def one_cluster(settings, tmp_path) -> str:
    (tmp_path / "kubeconfig").write_text("contexts: [{name: lab, context: {}}]")
    settings.VIGIE_KUBECONFIG, settings.VIGIE_CONTEXTS = str(tmp_path / "kubeconfig"), ()
    return "lab"


def make(found: FakeReviews | None = None) -> Door:
    port = found or FakeReviews()
    return Door(Recognition(lambda _: port, ACCOUNT))


async def ask(door: Door, body=b"", *, token="n", method="POST", headers=(), pieces=None):
    """(status, headers, body) of one request, given to the application as a server does."""
    head = [(b"authorization", f"Bearer {token}".encode())] if token else []
    parts = pieces if pieces is not None else [body]
    waiting = [{"type": "http.request", "body": part, "more_body": i < len(parts) - 1} for i, part in enumerate(parts)]
    sent = []

    async def receive():
        if not waiting:
            await asyncio.sleep(3600)
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": door_module.PATH, "headers": [*head, *headers]}
    await door(scope, receive, send)
    if not sent:
        return None, {}, b""
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, sent[1]["body"]


GZIP = (b"content-encoding", b"gzip")


# What is accepted


async def test_a_reading_is_accepted_and_waits(store, one_cluster):
    door = make()
    before = time.time()
    assert (await ask(door, readings.body(readings.reading("n")), headers=[GZIP]))[0] == 202
    received = msgspec.msgpack.decode(store.take("lab", 1)[0][1], type=Received)
    assert received.reading == readings.reading("n")
    assert before <= received.at <= time.time()
    assert door.accepted == {"lab": 1}


async def test_plain_bodies_are_accepted_in_pieces(store, one_cluster):
    body = readings.body(readings.reading("n"), packed=False)
    assert (await ask(make(), pieces=[body[:100], b"", body[100:]]))[0] == 202


async def test_with_several_clusters_the_header_names_one(store, clusters):
    body = readings.body(readings.reading("n"), packed=False)
    assert (await ask(make(), body, headers=[(b"vigie-cluster", clusters[1].encode())]))[0] == 202
    assert store.waiting(clusters[1]) == 1
    assert (await ask(make(), body))[0] == 400
    assert (await ask(make(), body, headers=[(b"vigie-cluster", b"elsewhere")]))[0] == 400


async def test_a_token_is_reviewed_once_a_minute(store, one_cluster):
    port = FakeReviews()
    now = [1000.0]
    door = Door(Recognition(lambda _: port, ACCOUNT, now=lambda: now[0]))
    for sequence in range(1, 4):
        await ask(door, readings.body(readings.reading("n", sequence)), headers=[GZIP])
    assert port.asked == ["n"]
    now[0] += 61
    await ask(door, readings.body(readings.reading("n", 9)), headers=[GZIP])
    assert port.asked == ["n", "n"]


async def test_an_older_cluster_names_the_pod_alone(store, one_cluster):
    port = FakeReviews(extra={POD: ["agent-x"]})
    port.pods["vigie", "agent-x"] = "n"
    assert (await ask(make(port), readings.body(readings.reading("n")), headers=[GZIP]))[0] == 202


# What is refused: each with its status, counted by its reason


REFUSED = {
    "no-token": (401, {"token": ""}, {}),
    "bad-token": (401, {}, {"authenticated": False, "error": "expired"}),
    "wrong-audience": (401, {}, {"audiences": ("https://kubernetes.default.svc",)}),
    "wrong-account": (403, {}, {"user": "system:serviceaccount:ml:trainer"}),
    "no-node": (403, {}, {"extra": {}}),
    "other-node": (403, {"token": "another"}, {}),
    "encoding": (415, {"headers": [(b"content-encoding", b"br")]}, {}),
    "too-large": (413, {"headers": [(b"content-length", str(MOST_BYTES + 1).encode())]}, {}),
    "method": (405, {"method": "GET"}, {}),
    "cluster": (400, {"headers": [(b"vigie-cluster", b"elsewhere")]}, {}),
    "broken": (400, {"body": b"{"}, {}),
}


@pytest.mark.parametrize("reason", REFUSED)
async def test_refusals(store, one_cluster, reason):
    status, request, review = REFUSED[reason]
    door = make(FakeReviews(**review))
    body = readings.body(readings.reading("n"), packed=False)
    found = await ask(door, **{"body": body, **request})
    assert found[0] == status
    assert found[1]["content-type"] == "application/problem+json"
    assert json.loads(found[2])["status"] == status
    cluster = "" if reason in {"method", "encoding", "too-large", "cluster"} else "lab"
    assert dict(door.refused) == {(cluster, reason): 1}
    assert store.waiting("lab") == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sequence": -1}, "sequence"),
        ({"sent_at": -5.0}, "sent_at"),
        ({"boot_id": "x" * 65}, "boot_id"),
        ({"agent": ""}, "agent"),
        ({"agent": "a\nb"}, "agent"),
        ({"count": 1 << 70}, "count"),
        ({"gpus": tuple(readings.gpu("n", i) for i in range(65))}, "at most 64"),
        ({"gpus": (readings.gpu("n", 0, uuid="GPU/../x"),)}, "gpus[0]"),
        ({"gpus": (readings.gpu("n", 0, power_w=1e300),)}, "gpus[0]"),
        ({"gpus": (readings.gpu("n", 0, name="a\x00b"),)}, "gpus[0]"),
        ({"faults": (replace(readings.xid(79, "n", 1, 1.0), at=-1.0),)}, "faults[0]"),
    ],
)
async def test_a_reading_that_no_machine_makes_is_named(store, one_cluster, changes, words):
    status, _, body = await ask(make(), readings.body(readings.reading("n", **changes)), headers=[GZIP])
    assert status == 400
    assert words in json.loads(body)["detail"]


async def test_a_replay_is_a_conflict(store, one_cluster):
    door = make()
    for sequence, status in ((5, 202), (5, 409), (4, 409), (6, 202)):
        assert (await ask(door, readings.body(readings.reading("n", sequence)), headers=[GZIP]))[0] == status
    assert door.refused == {("lab", "replayed"): 2}


async def test_a_bomb_is_unpacked_only_as_far_as_may_be(store, one_cluster):
    bomb = gzip.compress(b" " * 50_000_000, 9)
    assert len(bomb) < MOST_BYTES
    assert (await ask(make(), bomb, headers=[GZIP]))[0] == 413


@pytest.mark.parametrize(
    "body",
    [b"", b"not gzip", gzip.compress(b"{}")[:-3], gzip.compress(b"{}") + gzip.compress(b"{}")],
    ids=["empty", "plain", "cut", "two"],  # bytes would bear the time of their packing, other in each worker
)
async def test_what_is_no_gzip_is_broken(store, one_cluster, body):
    assert (await ask(make(), body, headers=[GZIP]))[0] == 400


async def test_more_than_was_announced_is_cut_off(store, one_cluster):
    pieces = [b" " * 100_000] * 4
    assert (await ask(make(), pieces=pieces))[0] == 413


async def test_a_slow_body_is_given_up(store, one_cluster, monkeypatch):
    monkeypatch.setattr(door_module, "BODY_WITHIN_S", 0.05)
    scope = {"method": "POST", "path": door_module.PATH, "headers": [(b"authorization", b"Bearer n")]}
    sent, door = [], make()

    async def receive():
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message):
        sent.append(message)

    await door(scope, receive, send)
    assert sent[0]["status"] == 408


async def test_a_caller_that_hangs_up_gets_no_answer(store, one_cluster):
    scope = {"method": "POST", "path": door_module.PATH, "headers": [(b"authorization", b"Bearer n")]}
    sent, door = [], make()

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    await door(scope, receive, send)
    assert sent == []
    assert door.refused == {("lab", "broken-off"): 1}


async def test_a_node_that_posts_too_often_has_to_wait(store, one_cluster):
    door = make()
    statuses = [
        (await ask(door, readings.body(readings.reading("n", n + 1)), headers=[GZIP]))[0] for n in range(int(BURST) + 2)
    ]
    assert statuses[: int(BURST)] == [202] * int(BURST)
    assert statuses[-1] == 429
    _, headers, _ = await ask(door, b"")
    assert int(headers["retry-after"]) > 0
    assert (await ask(door, readings.body(readings.reading("m")), token="m", headers=[GZIP]))[0] == 202, "others do not"


async def test_a_full_buffer_says_when_to_come_back(monkeypatch, one_cluster):
    full = MemoryGpus(most=1)
    monkeypatch.setattr(live, "gpus", lambda: full)
    door = make()
    await ask(door, readings.body(readings.reading("n", 1)), headers=[GZIP])
    status, headers, _ = await ask(door, readings.body(readings.reading("n", 2)), headers=[GZIP])
    assert (status, door.refused["lab", "full"]) == (429, 1)
    assert int(headers["retry-after"]) > 0


async def test_a_cluster_that_cannot_be_asked_is_not_asked_again_at_once(store, one_cluster):
    port = FakeReviews()
    port.error = PortError("nobody is there", retryable=True, reason="refused")
    door = make(port)
    for token in ("a", "b", "c"):
        status, headers, _ = await ask(door, b"", token=token)
        assert status == 503
        assert int(headers["retry-after"]) > 0
    assert port.asked == ["a"]


async def test_a_flood_of_new_tokens_waits_on_few_threads(store, one_cluster):
    release = threading.Event()

    class Slow(FakeReviews):
        def review(self, token, audience):
            release.wait(20)
            return super().review(token, audience)

    door = make(Slow())
    flood = [asyncio.create_task(ask(door, b"", token=f"t{i}")) for i in range(MOST_ASKING)]
    while door._asking < MOST_ASKING:  # noqa: ASYNC110 - the others have to run
        await asyncio.sleep(0)
    assert (await ask(door, b"", token="one more"))[0] == 503
    release.set()
    await asyncio.gather(*flood)


async def test_over_plain_http_no_token_is_looked_at(store, one_cluster, settings):
    settings.VIGIE_SECURE = True
    port = FakeReviews()
    body = readings.body(readings.reading("n"))
    assert (await ask(make(port), body, headers=[GZIP]))[0] == 403
    assert port.asked == []
    assert (await ask(make(port), body, headers=[GZIP, (b"x-forwarded-proto", b"https")]))[0] == 202


async def test_no_token_is_in_the_log(store, one_cluster, caplog):
    port = FakeReviews(authenticated=False)
    await ask(make(port), b"", token="very-secret")
    port.error = PortError("nobody is there", retryable=True)
    await ask(make(port), b"", token="very-secret-too")
    assert caplog.records
    assert "very-secret" not in caplog.text


async def test_tokens_that_a_site_gave_out_by_hand(store, one_cluster, tmp_path):
    path = readings.fixed_tokens(tmp_path / "tokens", "lab", ["n", "m"])
    port = FakeReviews(authenticated=False)
    door = Door(Recognition(lambda _: port, ACCOUNT, path))
    body = readings.body(readings.reading("n"))
    assert (await ask(door, body, token=readings.token("n"), headers=[GZIP]))[0] == 202
    assert (await ask(door, body, token=readings.token("m"), headers=[GZIP]))[0] == 403
    assert (await ask(door, body, token="unknown", headers=[GZIP]))[0] == 401
    assert port.asked == ["unknown"]


# Hostile bodies


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_no_bytes_break_the_door(one_cluster_of_module, data, packed):
    found = MemoryGpus()
    body = zlib.compress(data, wbits=31) if packed else data
    status, _, _ = asyncio.run(_to(found, body, [GZIP] if packed else []))
    assert status == 400
    assert found.waiting("lab") == 0


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(Reading.__struct_fields__), _VALUES, max_size=6))
def test_a_reading_with_anything_in_it_is_taken_or_named(one_cluster_of_module, changes):
    found = MemoryGpus()
    whole = msgspec.to_builtins(readings.reading("n")) | changes
    status, _, body = asyncio.run(_to(found, json.dumps(whole).encode(), []))
    assert status in {202, 400, 403}
    assert found.waiting("lab") == (status == 202)
    assert status == 202 or json.loads(body)["detail"]


async def _to(found: MemoryGpus, body: bytes, headers):
    kept, live.gpus = live.gpus, lambda: found
    try:
        return await ask(make(), body, headers=headers)
    finally:
        live.gpus = kept


@pytest.fixture(scope="module")
def one_cluster_of_module():
    kept, door_module.clusters.names = door_module.clusters.names, lambda: ["lab"]
    yield
    door_module.clusters.names = kept


# Over HTTP, with the rehearsal's own tokens


def post(port: int, body: bytes, token: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {"Authorization": f"Bearer {token}", "Content-Encoding": "gzip"}
    connection.request("POST", door_module.PATH, body, headers)
    return connection.getresponse().status


def token(server: ApiServer, pod: dict, audience: str) -> str:
    """As the kubelet asks for the one that it puts into the pod."""
    reference = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [audience], "boundObjectRef": reference},
    }
    path = "/api/v1/namespaces/vigie/serviceaccounts/vigie-agent/token"
    reply = server.send("POST", path, json.dumps(body).encode(), within_s=10)
    assert reply.status == 201, reply.body
    return json.loads(reply.body)["status"]["token"]


@pytest.mark.db
@pytest.mark.broker
def test_agents_of_the_rehearsal_hand_in_what_is_their_own(served, settings, tmp_path):
    with serving(Rehearsal(pace=0), tmp_path) as cluster:
        settings.VIGIE_KUBECONFIG, settings.VIGIE_CONTEXTS = str(cluster.kubeconfig), ()
        wiring.site.cache_clear()
        wiring.recognition.cache_clear()
        name = wiring.sites()[0]

        server = ApiServer(name, str(cluster.kubeconfig), Patience())
        pods = json.loads(server.read("/api/v1/namespaces/vigie/pods"))["items"]
        pod = next(p for p in pods if p["metadata"]["name"].startswith("vigie-agent") and p["spec"].get("nodeName"))
        node = pod["spec"]["nodeName"]
        good, wrong = token(server, pod, AUDIENCE), token(server, pod, "https://elsewhere")
        body = readings.body(readings.reading(node, 1, agent="test"))
        assert post(served.port, body, good) == 202
        assert post(served.port, body, good) == 409
        assert post(served.port, readings.body(readings.reading("another", 2)), good) == 403
        assert post(served.port, readings.body(readings.reading(node, 2)), wrong) == 401
        assert post(served.port, b"nothing", good) == 400
        review = KubernetesReviews(name, str(cluster.kubeconfig)).review(good, AUDIENCE)
        assert review.extra[NODE] == [node]
        bound = review.extra[POD][0]
        assert KubernetesReviews(name, str(cluster.kubeconfig)).node_of_pod("vigie", bound) == node
        assert KubernetesReviews(name, str(cluster.kubeconfig)).node_of_pod("vigie", "nobody") == ""
    assert door_module.door.accepted[name] >= 1
    assert door_module.door.refused[name, "wrong-audience"] >= 1
    wiring.site.cache_clear()
    wiring.recognition.cache_clear()


@pytest.mark.db
def test_everything_beside_the_door_is_as_before(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    connection.request("GET", "/api/v1/readings/")
    assert connection.getresponse().status in {401, 404}
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
