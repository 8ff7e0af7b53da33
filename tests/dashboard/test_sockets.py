"""The socket from end to end: a real web server, real WebSockets, the real channel layer and picture store."""

import contextlib
import json
import socket as sockets
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from dashboard import accounts, consumers
from dashboard.feeds import QUEUE_FRAMES
from fleet.domain.picture import NodeRow
from tests.dashboard.handshakes import Handshake
from tests.dashboard.pictures import Writer, nodes

pytestmark = [pytest.mark.db, pytest.mark.broker, pytest.mark.django_db(transaction=True)]

WITHIN_S = 10
FLEET = {"screen": "fleet"}


class Browser:
    """One page with its socket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def look(self, cluster: str, view: dict) -> None:
        self.say({"cluster": cluster, "view": view})

    def say(self, frame) -> None:
        self.connection.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    def hear(self, kind: str) -> dict:
        """The next frame that is not a pulse, unless a pulse is asked for."""
        while (frame := json.loads(self.connection.recv(WITHIN_S)))["t"] == "pulse" != kind:
            pass
        assert frame["t"] == kind, frame
        return frame

    def closed(self) -> int | None:
        """The code that the server closed with; frames before it are passed over."""
        try:
            while True:
                self.connection.recv(WITHIN_S)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None


@pytest.fixture
def browser(served, cookies):
    """Opens pages, each with its socket."""
    with contextlib.ExitStack() as pages:

        def opens(
            person: str | None = "viewer", *, cookie: str | None = None, origin: str | None = None, **options
        ) -> Browser:
            headers = {"Cookie": cookies[person] if cookie is None else cookie}
            opening = connect(served.socket, origin=origin or served.origin, additional_headers=headers, **options)
            return Browser(pages.enter_context(opening))

        yield opens


@pytest.fixture
def writer(served, clusters) -> Writer:
    """As everywhere, but it begins after the server, so that its notices go to the server's loop."""
    found = Writer(clusters[0])
    found.publish(nodes())
    return found


def test_a_page_gets_its_view_then_what_changes(browser, writer):
    page = browser()
    page.look(writer.cluster, FLEET)
    first = page.hear("snapshot")
    assert first["v"] == [writer.version.epoch, 1]
    assert len(first["tables"]["nodes"]) == 24
    assert abs(first["now"] - time.time()) < 5
    writer.publish(nodes(25))
    change = page.hear("delta")
    assert (change["prev"], change["v"]) == ([writer.version.epoch, 1], [writer.version.epoch, 2])
    assert change["tables"]["nodes"]["groups"][0]["ids"] == ["node-25"]


def test_two_pages_with_two_views(browser, writer):
    fleet, node = browser(), browser("operator")
    fleet.look(writer.cluster, FLEET)
    node.look(writer.cluster, {"screen": "node", "node": "node-02"})
    assert len(fleet.hear("snapshot")["tables"]["nodes"]) == 24
    assert list(node.hear("snapshot")["tables"]["nodes"]) == ["node-02"]
    writer.publish(nodes(25))
    assert "nodes" in fleet.hear("delta")["tables"]
    assert set(node.hear("delta")["tables"]) == {"fleet"}


def test_a_page_that_noticed_a_gap_gets_everything(browser, writer):
    page = browser()
    page.look(writer.cluster, FLEET)
    page.hear("snapshot")
    writer.publish(nodes(25))
    page.hear("delta")
    page.say({"t": "refetch"})
    assert page.hear("snapshot")["v"] == [writer.version.epoch, 2]


def test_pulses_are_forwarded_and_come_even_when_the_writer_is_silent(browser, writer):
    page = browser()
    page.look(writer.cluster, FLEET)
    page.hear("snapshot")
    writer.pulse(at=12.5, trouble=(("pods", "timeout", 3.0),))
    while (frame := page.hear("pulse"))["at"] != 12.5:
        pass
    assert frame["trouble"] == [["pods", "timeout", 3.0]]
    start = time.monotonic()
    assert page.hear("pulse")["at"] == 12.5
    assert time.monotonic() - start < 5.0


def test_a_page_that_opens_before_the_first_picture_gets_it(browser, served, clusters):
    page = browser()
    page.look(clusters[0], FLEET)
    Writer(clusters[0]).publish(nodes(2))
    assert len(page.hear("snapshot")["tables"]["nodes"]) == 2


def test_another_writer_takes_over(browser, writer):
    page = browser()
    page.look(writer.cluster, FLEET)
    page.hear("snapshot")
    writer.release()
    second = Writer(writer.cluster)
    assert second.version.epoch > writer.version.epoch
    second.publish(nodes(5))
    frame = page.hear("snapshot")
    assert (frame["v"], len(frame["tables"]["nodes"])) == ([second.version.epoch, 1], 5)


@pytest.mark.parametrize(("person", "reason", "code"), [(None, "signed-out", 4401), ("nobody", "forbidden", 4403)])
def test_who_may_not_look_is_told_why(browser, writer, person, reason, code):
    page = browser(person)
    assert page.hear("bye") == {"t": "bye", "reason": reason}
    assert page.closed() == code


def test_a_cluster_that_is_not_configured_is_unknown(browser, writer):
    page = browser()
    page.look("elsewhere", FLEET)
    assert page.hear("bye")["reason"] == "unknown-cluster"
    assert page.closed() == 4404


@pytest.mark.parametrize("origin", ["http://evil.example", "null"])
def test_another_sites_page_gets_no_socket(browser, writer, origin):
    with pytest.raises(InvalidStatus) as raised:
        browser(origin=origin)
    assert raised.value.response.status_code == 403


def test_there_is_no_socket_at_another_address(served, cookies):
    headers = {"Cookie": cookies["viewer"]}
    with (
        pytest.raises(InvalidStatus) as raised,
        connect(served.socket + "more/", origin=served.origin, additional_headers=headers),
    ):
        pass
    assert raised.value.response.status_code == 403


def end_by_signing_out(client, people) -> None:
    client.post("/logout/")


def end_by_disabling(client, people) -> None:
    accounts.disable(people["viewer"])


def end_by_another_password(client, people) -> None:
    people["viewer"].set_password("a new long password")
    people["viewer"].save()


def end_by_losing_the_role(client, people) -> None:
    people["viewer"].groups.clear()


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (end_by_signing_out, 4401),
        (end_by_disabling, 4401),
        (end_by_another_password, 4401),
        (end_by_losing_the_role, 4403),
    ],
)
def test_a_session_that_ends_closes_its_sockets_and_no_others(end, code, browser, as_person, people, served, writer):
    client = as_person("viewer")
    page, other = browser(cookie=f"vigie={client.session.session_key}"), browser("operator")
    for each in (page, other):
        each.look(writer.cluster, FLEET)
        each.hear("snapshot")
    end(client, people)

    async def check() -> None:
        await consumers.hub().check_people()

    served.run(check())
    assert page.closed() == code
    writer.publish(nodes(25))
    other.hear("delta")


def test_signing_out_closes_every_page_of_the_session_at_once(browser, as_person, writer):
    client = as_person("viewer")
    pages = [browser(cookie=f"vigie={client.session.session_key}") for _ in range(2)]
    for page in pages:
        page.look(writer.cluster, FLEET)
        page.hear("snapshot")
    began = time.monotonic()
    client.post("/logout/")
    assert [page.closed() for page in pages] == [4401, 4401]
    assert time.monotonic() - began < 4.5, "not only at the hub's next look"


def frames_until(page: Browser, last: list[int]) -> list[dict]:
    found = []
    while not found or found[-1]["v"] < last:
        found.append(json.loads(page.connection.recv(WITHIN_S)))
    return [frame for frame in found if frame["t"] != "pulse"]


def assert_unbroken(seen: list[dict], mine: list[int]) -> None:
    """Every frame can be applied by a page that has applied those before it."""
    for frame in seen:
        assert frame["t"] == "snapshot" or frame["prev"] <= mine < frame["v"]
        mine = frame["v"]


def test_a_page_that_does_not_read_gets_a_snapshot_once_it_reads(browser, served, writer):
    narrow = sockets.socket()
    narrow.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 65_536)
    narrow.connect(("127.0.0.1", served.port))
    slow, quick = browser(sock=narrow, compression=None, max_queue=1), browser(compression=None)
    for page in (slow, quick):
        page.look(writer.cluster, FLEET)
        mine = page.hear("snapshot")["v"]
    # Large enough that the pipes between us fill up.
    for i in range(QUEUE_FRAMES * 2):
        writer.publish(nodes(24, node_01=NodeRow(name="node-01", kernel=f"{i}" + "x" * 300_000)))
        quick.hear("delta")
    writer.publish(nodes(25))
    last = quick.hear("delta")["v"]
    seen = frames_until(slow, last)
    assert "snapshot" in [frame["t"] for frame in seen]
    assert len(seen) < QUEUE_FRAMES * 2
    assert_unbroken(seen, mine)


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "[]",
        '"text"',
        b"bytes",
        {"cluster": "x"},
        {"cluster": "x", "view": {"screen": "admin"}},
        {"cluster": "x", "view": {"screen": "fleet", "more": 1}},
        {"cluster": "x", "view": {"screen": "node", "node": "n" * 300}},
        {"cluster": 3, "view": FLEET},
        {"t": "refetch"},
        "x" * 3000,
    ],
)
async def test_what_no_page_of_ours_says_first_closes_the_socket(frame, cookies, clusters):
    socket = Handshake(cookies["viewer"])
    assert await socket.accepted()
    await socket.say(frame)
    assert await socket.closed() == 4400


@pytest.mark.usefixtures("hub_ends")
@pytest.mark.parametrize("frame", [{"t": "snapshot"}, {"t": "refetch", "more": 1}, {"cluster": "x", "view": FLEET}])
async def test_what_no_page_of_ours_says_later_closes_the_socket(frame, cookies, clusters):
    socket = Handshake(cookies["viewer"])
    assert await socket.accepted()
    await socket.say({"cluster": clusters[0], "view": FLEET})
    await socket.say(frame)
    assert await socket.closed() == 4400


async def test_a_socket_that_says_nothing_is_closed(cookies, clusters, monkeypatch):
    monkeypatch.setattr(consumers, "FIRST_FRAME_WITHIN_S", 0.05)
    socket = Handshake(cookies["viewer"])
    assert await socket.accepted()
    assert await socket.closed() == 4400


async def test_a_browser_that_leaves_before_it_said_anything_is_no_error(cookies, clusters):
    socket = Handshake(cookies["viewer"])
    assert await socket.accepted()
    await socket.leave()


@pytest.mark.usefixtures("hub_ends")
async def test_the_hub_forgets_whoever_left(cookies, clusters):
    socket = Handshake(cookies["viewer"])
    assert await socket.accepted()
    await socket.say({"cluster": clusters[0], "view": FLEET})
    await socket.leave()
    assert consumers.hub().watched == {}
