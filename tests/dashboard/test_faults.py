"""What may go wrong around the web face: a database that is locked, a store that is away, text that means harm."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator

import pytest
from django.contrib.sessions.models import Session
from django.db import OperationalError, connection, connections
from django.test import Client

from dashboard import access, consumers, sessions
from dashboard.feeds import Farewell, Watcher
from dashboard.models import SignedIn
from fleet import live
from fleet.domain.picture import NodeRow
from tests.dashboard.conftest import PASSWORD
from tests.dashboard.handshakes import Handshake, cookie_of
from tests.dashboard.pictures import nodes

pytestmark = [pytest.mark.django_db(transaction=True)]


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Somebody else writes for long: a backup, say."""
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            held.set()
            release.wait(20)
            cursor.execute("ROLLBACK")
        connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(5)
    try:
        yield
    finally:
        release.set()
        thread.join(5)


@pytest.fixture
def impatient():
    """This thread's connection does not wait for the lock."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL has no lock on the whole database")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 20")
    yield
    connection.close()


def sign_in(client: Client) -> int:
    return client.post("/login/", {"username": "viewer", "password": PASSWORD}).status_code


@pytest.mark.usefixtures("impatient")
def test_while_the_database_is_locked_everybody_goes_on_looking(people, writer):
    client = Client(raise_request_exception=False)
    assert sign_in(client) == 302
    with locked():
        assert client.get("/api/v1/nodes").status_code == 200
        assert client.get(f"/c/{writer.cluster}/").status_code == 200
        late = Client(raise_request_exception=False)
        assert sign_in(late) == 503, "nobody signs in on a count that was not kept"
    assert sign_in(late) == 302


@pytest.mark.usefixtures("impatient")
def test_while_the_database_is_locked_the_sign_in_says_so_calmly(people, caplog):
    with locked():
        response = Client(raise_request_exception=False).post("/login/", {"username": "viewer", "password": PASSWORD})
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "5"
    assert "own database is busy" in response.content.decode()
    assert "the database does not answer" in caplog.text
    assert "Traceback" not in caplog.text


def test_while_the_database_is_away_pages_and_programs_hear_so(as_person, writer, monkeypatch):
    client = as_person("viewer")

    def fails(_users, *_lookups):
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(access, "prefetch_related_objects", fails)
    page, answer = client.get(f"/c/{writer.cluster}/"), client.get("/api/v1/nodes")
    assert (page.status_code, answer.status_code) == (503, 503)
    assert page.headers["Retry-After"] == answer.headers["Retry-After"] == "5"
    assert b"closed the connection" not in page.content + answer.content
    assert answer.headers["Content-Type"] == "application/problem+json"


@pytest.mark.usefixtures("impatient")
def test_and_whoever_lost_the_right_is_sent_away(people, writer):
    client, other = Client(), Client()
    for each in (client, other):
        sign_in(each)
    SignedIn.objects.update(seen_at="2020-01-01T00:00Z")
    gone, stays = (Watcher(writer.cluster, session=each.session.session_key) for each in (client, other))
    Session.objects.filter(session_key=gone.session).delete()
    with locked():
        assert consumers._ended([gone, stays]) == {gone: Farewell.SIGNED_OUT}
        with pytest.raises(OperationalError):
            sessions.seen([stays.session])


@pytest.fixture
def cookie(as_person) -> str:
    return cookie_of(as_person("viewer"))


@pytest.mark.usefixtures("hub_ends")
async def test_noting_who_was_seen_hurts_nobody_when_it_fails(cookie, writer, monkeypatch):
    def fails(_keys):
        raise OperationalError("database is locked")

    monkeypatch.setattr(sessions, "seen", fails)
    key = cookie.partition("=")[2]
    assert await consumers.ended([Watcher(writer.cluster, session=key)]) == {}
    await asyncio.gather(*consumers._notes)
    assert not consumers._notes


class Away:
    """A store that cannot be reached."""

    def __getattr__(self, name: str):
        def fail(*_arguments):
            raise live.PictureError("nobody is there")

        return fail


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/snapshot", "/api/v1/waiting", "/c/{cluster}/", "/readyz"])
def test_while_the_store_is_away_every_answer_says_so(as_person, writer, monkeypatch, path):
    client = as_person("viewer")
    monkeypatch.setattr(live, "picture", Away)
    assert client.get(path.format(cluster=writer.cluster)).status_code == 503


@pytest.mark.parametrize(("path", "lost"), [("/api/v1/clusters", "writer"), ("/metrics", "vigie_picture_up")])
def test_what_is_about_every_cluster_answers_all_the_same(as_person, writer, monkeypatch, path, lost):
    client = as_person("viewer")
    monkeypatch.setattr(live, "picture", Away)
    response = client.get(path)
    assert response.status_code == 200
    assert lost in response.content.decode()


@pytest.mark.usefixtures("hub_ends")
async def test_a_page_that_opens_while_the_store_is_away_hears_so_and_then_gets_it(cookie, writer, monkeypatch):
    monkeypatch.setattr(live, "picture", Away)
    socket = Handshake(cookie)
    assert await socket.accepted()
    await socket.say({"cluster": writer.cluster, "view": {"screen": "fleet"}})
    frame = await socket.hear()
    assert (frame["t"], frame["lost"], frame["reason"]) == ("pulse", True, "no-picture")
    monkeypatch.undo()
    assert (await socket.hear_a("snapshot"))["v"]
    await socket.leave()


HOSTILE = "<script>alert(1)</script>\"'&{{ 7 * 7 }}\u202e\u0000</textarea>"


def test_hostile_text_is_text(as_person, writer):
    row = NodeRow(
        name="node-01", pool=HOSTILE, zone=HOSTILE, product=HOSTILE, kernel=HOSTILE, taints=(HOSTILE,), cells="ffff"
    )
    writer.publish(nodes(2, node_01=row))
    client = as_person("viewer")
    for path in (f"/c/{writer.cluster}/", f"/c/{writer.cluster}/nodes/node-01/"):
        html = client.get(path).content.decode()
        assert "<script>alert" not in html
        assert "</textarea>" not in html
        assert "49" not in html or "{{ 7 * 7 }}" in html
    item = client.get("/api/v1/nodes/node-01").json()["node"]
    assert item["pool"] == HOSTILE


@pytest.mark.parametrize(
    "path",
    [
        "/c/<script>alert(1)</script>/",
        "/c/%00/",
        "/c/../../etc/passwd/",
        "/wall/%3Cscript%3E/",
        "/c/" + "x" * 5000 + "/",
    ],
)
def test_hostile_addresses_are_not_there(as_person, writer, path):
    response = as_person("viewer").get(path)
    assert response.status_code in {404, 410}
    assert b"<script>alert" not in response.content


def test_a_node_of_a_hostile_name_is_one_that_is_not_there(as_person, writer):
    for name in ("<script>alert(1)</script>", "%00", "x" * 5000):
        assert as_person("viewer").get(f"/api/v1/nodes/{name}").status_code == 404
    answer = as_person("viewer").get(
        "/api/v1/nodes", {"after": "\u0000\ud83d\ude80".encode("utf-16", "surrogatepass").decode("utf-16")}
    )
    assert json.loads(answer.content)["items"]
