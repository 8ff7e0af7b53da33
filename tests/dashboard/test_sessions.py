"""The list of a person's sessions: what it shows, and that ending one ends it everywhere at once."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from dashboard import accounts, sessions
from dashboard.models import SignedIn
from tests.dashboard.conftest import PASSWORD

pytestmark = [pytest.mark.db, pytest.mark.django_db]

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0"
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)
EDGE = CHROME + " Edg/140.0.0.0"
SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile/15E148 Safari/604.1"


def sign_in(name: str = "viewer", user_agent: str = FIREFOX) -> Client:
    client = Client(headers={"user-agent": user_agent})
    assert client.post("/login/", {"username": name, "password": PASSWORD}).status_code == 302
    return client


@pytest.mark.parametrize(
    ("user_agent", "words"),
    [
        (FIREFOX, "Firefox, Linux"),
        (CHROME, "Chrome, Windows"),
        (EDGE, "Edge, Windows"),
        (SAFARI, "Safari, iOS"),
        ("curl/8.0", ""),
        ("<script>alert(1)</script>" * 100, ""),
    ],
)
def test_browsers_have_names(user_agent, words):
    assert sessions.browser(user_agent) == words


def test_signing_in_makes_an_entry_and_each_sees_their_own(people):
    here, _there = sign_in(), sign_in(user_agent=CHROME)
    sign_in("operator")
    found = sessions.entries(people["viewer"], here.session.session_key)
    assert [(entry.browser, entry.current) for entry in found] == [("Firefox, Linux", True), ("Chrome, Windows", False)]


def test_ending_one_signs_it_out_and_leaves_the_others(people, writer):
    here, there = sign_in(), sign_in(user_agent=CHROME)
    other = next(entry for entry in sessions.entries(people["viewer"], here.session.session_key) if not entry.current)
    assert sessions.end(people["viewer"], other.id)
    assert there.get("/api/v1/nodes").status_code == 401
    assert here.get("/api/v1/nodes").status_code == 200
    assert not sessions.end(people["viewer"], other.id)


def test_nobody_ends_somebody_elses(people):
    sign_in()
    (entry,) = sessions.entries(people["viewer"])
    assert not sessions.end(people["approver"], entry.id)
    assert sessions.entries(people["viewer"])


def test_ending_all(people):
    clients = [sign_in(), sign_in()]
    sessions.end_all(people["viewer"])
    assert [client.get("/api/v1/nodes").status_code for client in clients] == [401, 401]


def test_signing_out_removes_the_entry(people):
    client = sign_in()
    client.post("/logout/")
    assert sessions.entries(people["viewer"]) == []
    assert not SignedIn.objects.exists()


def test_what_has_expired_is_shown_no_more_and_swept_at_the_next_sign_in(people):
    sign_in()
    Session.objects.update(expire_date=timezone.now())
    assert sessions.entries(people["viewer"]) == []
    sign_in("operator")
    assert (Session.objects.count(), SignedIn.objects.count()) == (1, 1)


def test_last_seen_is_kept_to_five_minutes(people, writer, time_machine):
    start = timezone.now()
    time_machine.move_to(start, tick=False)
    client = sign_in()
    for minutes, seen in ((3, 0), (6, 6), (10, 6), (12, 12)):
        time_machine.move_to(start + timedelta(minutes=minutes), tick=False)
        client.get("/api/v1/nodes")
        (entry,) = sessions.entries(people["viewer"])
        assert entry.seen_at == start + timedelta(minutes=seen)
        assert entry.started_at == start


def test_an_open_page_keeps_it_seen_although_it_asks_for_nothing(people):
    client, later = sign_in(), timezone.now() + timedelta(hours=1)
    sessions.seen([client.session.session_key, "another"], later)
    assert sessions.entries(people["viewer"])[0].seen_at == later


def test_a_first_sign_in_through_a_link_is_an_entry_too(people):
    path = accounts.link(people["viewer"])
    Client().post(path, {"password": PASSWORD + "1", "again": PASSWORD + "1"})
    assert len(sessions.entries(people["viewer"])) == 1
