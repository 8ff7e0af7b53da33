"""The screen on a wall: one opening, one view, no names, and an end within seconds."""

import asyncio
import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from dashboard import consumers, wall
from dashboard.models import WallAddress
from fleet import live
from fleet.domain.picture import NodeRow
from tests.dashboard.handshakes import Handshake, cookie_of
from tests.dashboard.pictures import Writer, nodes

pytestmark = [pytest.mark.db, pytest.mark.django_db]


@pytest.fixture
def made(writer) -> wall.NewAddress:
    return wall.create("lobby", writer.cluster, 30, "approver")


def opened(made: wall.NewAddress) -> Client:
    """The browser of a screen that has opened the address."""
    client = Client()
    response = client.get(made.path)
    assert response.headers["Location"] == "/wall/"
    return client


def test_an_address_is_good_for_one_opening(made):
    opened(made)
    again = Client().get(made.path)
    assert again.status_code == 410
    assert not again.cookies


def test_its_own_screen_may_come_again(made):
    assert opened(made).get(made.path).headers["Location"] == "/wall/"


def test_programs_that_only_look_at_links_use_nothing_up(made):
    Client().head(made.path)
    Client().get(made.path, headers={"sec-purpose": "prefetch;prerender"})
    opened(made)


def test_only_digests_are_stored(made):
    client = opened(made)
    stored = json.dumps(WallAddress.objects.values().get(), default=str)
    assert made.path.split("/")[-2] not in stored
    assert client.cookies["vigie-wall"].value not in stored


def test_the_cookie_goes_nowhere_but_to_the_wall(made, settings):
    settings.VIGIE_SECURE = True
    settings.ALLOWED_HOSTS = ["testserver"]
    cookie = Client().get(made.path, secure=True).cookies["vigie-wall"]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"], cookie["secure"]) == ("/wall/", True, "Lax", True)


@pytest.mark.parametrize("address", ["fresh", "spent"])
def test_its_address_is_no_referrer(made, address):
    if address == "spent":
        opened(made)
    assert Client().get(made.path).headers["Referrer-Policy"] == "no-referrer"


def expire(made: wall.NewAddress) -> None:
    WallAddress.objects.update(expires_at=timezone.now())


def revoke(made: wall.NewAddress) -> None:
    assert wall.revoke(made.address.pk, "approver", [made.address.cluster])


@pytest.mark.parametrize("end", [expire, revoke])
def test_what_has_ended_opens_nothing(made, end):
    client = opened(made)
    assert client.get("/wall/").status_code != 302
    end(made)
    assert client.get("/wall/").headers["Location"].startswith("/login/")
    other = wall.create("hall", made.address.cluster, 30, "approver")
    end(other)
    assert Client().get(other.path).status_code == 410


@pytest.mark.parametrize("path", ["/", "/c/{cluster}/", "/all/", "/account/", "/help/"])
def test_no_other_page(made, path, writer):
    assert opened(made).get(path.format(cluster=writer.cluster)).headers["Location"].startswith("/login/")


@pytest.mark.parametrize("cookie", ["vigie", "vigie-wall"])
def test_no_api_whatever_the_cookie_is_called(made, cookie):
    client = Client()
    client.cookies[cookie] = opened(made).cookies["vigie-wall"].value
    assert client.get("/api/v1/nodes").status_code == 401


def test_addresses_of_a_cluster_until_they_end(made, clusters):
    assert [a.name for a in wall.addresses([clusters[0]])] == ["lobby"]
    assert wall.addresses([clusters[1]]) == []
    assert not wall.revoke(made.address.pk, "somebody", [clusters[1]]), "not an approver's of another cluster"
    revoke(made)
    assert wall.addresses([clusters[0]]) == []
    assert not wall.revoke(made.address.pk, "approver", [clusters[0]])


@pytest.mark.parametrize("days", [0, 401])
def test_an_address_lives_for_some_days(days, writer):
    with pytest.raises(ValueError, match="between 1 and 400"):
        wall.create("lobby", writer.cluster, days, "approver")


def test_expiry_is_what_was_asked_for(made):
    assert made.address.expires_at - made.address.created_at == timedelta(days=30)


def screen(made: wall.NewAddress) -> str:
    return "vigie-wall=" + opened(made).cookies["vigie-wall"].value


@pytest.fixture
def wall_cookie(transactional_db, made) -> str:
    return screen(made)


def wall_socket(cookie: str) -> Handshake:
    return Handshake(cookie, application=consumers.wall)


@pytest.mark.broker
@pytest.mark.usefixtures("hub_ends")
async def test_the_socket_shows_the_wall_without_names(wall_cookie, writer):
    live.attach(asyncio.get_running_loop())
    socket = wall_socket(wall_cookie)
    assert await socket.accepted()
    await socket.say({"cluster": writer.cluster, "view": {"screen": "wall"}})
    assert set((await socket.hear_a("snapshot"))["tables"]) == {"fleet", "products", "nodes", "attention"}
    row = NodeRow(name="node-01", cells="c", unschedulable=True, cordoned_by="kubectl-anna")
    writer.publish(nodes(24, node_01=row))
    assert "anna" not in json.dumps(await socket.hear_a("delta"))
    await socket.leave()


@pytest.mark.usefixtures("hub_ends")
@pytest.mark.parametrize("screen", ["fleet", "workloads", "waiting", "clusters", "node"])
async def test_the_socket_has_no_other_view(wall_cookie, writer, screen):
    socket = wall_socket(wall_cookie)
    assert await socket.accepted()
    await socket.say({"cluster": writer.cluster, "view": {"screen": screen}})
    assert await socket.closed() == 4400


async def test_nor_another_cluster(wall_cookie, clusters):
    socket = wall_socket(wall_cookie)
    assert await socket.accepted()
    await socket.say({"cluster": clusters[1], "view": {"screen": "wall"}})
    assert (await socket.hear())["reason"] == "unknown-cluster"


@pytest.mark.parametrize("cookie", ["vigie-wall", "vigie"])
async def test_the_socket_of_pages_takes_no_walls_cookie(wall_cookie, writer, cookie):
    socket = Handshake(wall_cookie.replace("vigie-wall", cookie))
    assert await socket.accepted()
    assert (await socket.hear())["reason"] == "signed-out"


@pytest.mark.usefixtures("hub_ends")
async def test_a_person_sees_the_wall_too(cookies, writer):
    socket = wall_socket(cookies["viewer"])
    assert await socket.accepted()
    await socket.say({"cluster": writer.cluster, "view": {"screen": "wall"}})
    assert (await socket.hear_a("snapshot"))["v"]
    await socket.leave()


def test_revoking_closes_its_socket_and_no_other(served, cookies, clusters, transactional_db):
    """End to end: the hub hears of it, whatever process revoked."""
    from websockets.sync.client import connect

    writer = Writer(clusters[0])
    writer.publish(nodes(2))
    first, second = (wall.create(name, writer.cluster, 30, "approver") for name in ("lobby", "hall"))
    hello = json.dumps({"cluster": writer.cluster, "view": {"screen": "wall"}})
    address = served.origin.replace("http", "ws") + "/wall/ws/"
    options = {"origin": served.origin}
    with (
        connect(address, additional_headers={"Cookie": screen(first)}, **options) as gone,
        connect(address, additional_headers={"Cookie": screen(second)}, **options) as stays,
    ):
        for socket in (gone, stays):
            socket.send(hello)
            assert json.loads(socket.recv(10))["t"] == "snapshot"
        revoke(first)
        frame = {"t": ""}
        while frame["t"] != "bye":
            frame = json.loads(gone.recv(5))
        assert frame["reason"] == "signed-out"
        writer.publish(nodes(3))
        while frame["t"] != "delta":
            frame = json.loads(stays.recv(10))


def test_a_cookie_of_nobody_is_nobody(as_person, writer):
    client = as_person(None)
    client.cookies["vigie-wall"] = ""
    assert client.get("/wall/").headers["Location"].startswith("/login/")
    assert cookie_of(client) == "vigie-wall="
