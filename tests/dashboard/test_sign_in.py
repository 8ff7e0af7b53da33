"""Signing in and out, guessing passwords, and links that work once."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from dashboard import access, accounts, throttle
from dashboard.access import Role
from dashboard.models import Invitation, SignInTries
from tests.dashboard.conftest import PASSWORD

pytestmark = [pytest.mark.db, pytest.mark.django_db]


def sign_in(client: Client, name: str, password: str, address: str = "192.0.2.1", **more: str):
    return client.post("/login/", {"username": name, "password": password, **more}, REMOTE_ADDR=address)


def errors(response) -> str:
    return " ".join(response.context["form"].non_field_errors())


def test_signing_in_leads_to_where_somebody_wanted_to_go(client, people):
    assert sign_in(client, "viewer", PASSWORD, next="/c/paris/").headers["Location"] == "/c/paris/"
    assert client.get("/login/").headers["Location"] == "/"


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example/", "javascript:alert(1)"])
def test_signing_in_never_leads_elsewhere(client, people, elsewhere):
    assert sign_in(client, "viewer", PASSWORD, next=elsewhere).headers["Location"] == "/"


def test_a_new_session_is_made_for_whoever_signs_in(client, people):
    session = client.session
    session["planted"] = True
    session.save()
    before = client.cookies["vigie"].value
    sign_in(client, "viewer", PASSWORD)
    assert client.cookies["vigie"].value != before


def test_signing_out_needs_a_post_and_ends_the_session(as_person):
    client = as_person("viewer")
    assert client.get("/logout/").status_code == 405
    key = client.session.session_key
    assert client.post("/logout/").headers["Location"] == "/login/"
    assert access.visitors([key]) == {}


def test_a_wrong_password_says_how_many_tries_are_left_then_how_long_to_wait(client, people):
    said = [errors(sign_in(client, "viewer", "wrong")) for _ in range(6)]
    assert said[0] == "User name or password is wrong. 4 tries left."
    assert said[3] == "User name or password is wrong. 1 try left."
    assert said[4] == "User name or password is wrong. Too many tries. Wait 15 minutes."
    assert said[5] == "Too many tries. Wait 15 minutes."
    assert errors(sign_in(client, "viewer", PASSWORD)) == "Too many tries. Wait 15 minutes."


def test_whether_a_name_exists_is_not_told(client, people):
    accounts.disable(people["operator"])
    people["nobody"].set_unusable_password()
    people["nobody"].save()
    names = ["viewer", "operator", "nobody", "never-was"]
    said = {name: [errors(sign_in(client, name, "wrong")) for _ in range(6)] for name in names}
    assert len({tuple(answers) for answers in said.values()}) == 1


def test_an_attacker_does_not_lock_anybody_else_out(client, people):
    for _ in range(7):
        sign_in(client, "viewer", "wrong", address="198.51.100.7")
    assert sign_in(client, "viewer", PASSWORD, address="192.0.2.1").status_code == 302
    assert sign_in(client, "operator", PASSWORD, address="198.51.100.7").status_code == 302


def test_signing_in_forgets_earlier_mistakes(client, people):
    for _ in range(3):
        sign_in(client, "viewer", "wrong")
    assert sign_in(client, "viewer", PASSWORD).status_code == 302
    assert throttle.begin("viewer", "192.0.2.1") == throttle.LIMIT - 1


def test_an_empty_form_costs_no_try(client, people):
    sign_in(client, "viewer", "")
    assert not SignInTries.objects.exists()


def test_the_wait_ends_and_leaves_nothing_behind():
    start = timezone.now()
    for left in (4, 3, 2, 1, 0):
        assert throttle.begin("rita", "192.0.2.1", start) == left
    with pytest.raises(throttle.TooManyTriesError) as raised:
        throttle.begin("Rita", "192.0.2.1", start + timedelta(minutes=5))
    assert raised.value.wait == timedelta(minutes=10)
    throttle.begin("omar", "192.0.2.1", start + timedelta(minutes=15))
    assert SignInTries.objects.count() == 3, "omar's, the address's and both together"
    assert throttle.begin("rita", "192.0.2.1", start + timedelta(minutes=15)) == 4


def tries(names, addresses) -> int:
    """How many of these tries were let through."""
    through = 0
    for name, address in zip(names, addresses, strict=True):
        with contextlib.suppress(throttle.TooManyTriesError):
            throttle.begin(name, address)
            through += 1
    return through


def test_many_names_from_one_address_are_slowed(db):
    assert tries([f"name-{i}" for i in range(60)], ["192.0.2.1"] * 60) == throttle.LIMIT_ADDRESS
    assert throttle.begin("rita", "192.0.2.2") == 4


def test_many_addresses_against_one_name_are_slowed(db):
    addresses = [f"192.0.2.{i}" for i in range(120)]
    assert tries(["rita"] * 120, addresses) == throttle.LIMIT_NAME
    assert throttle.begin("omar", "192.0.2.1") == 4


def test_whoever_knows_the_password_uses_nothing_up(db, monkeypatch):
    monkeypatch.setattr(throttle, "LIMIT_NAME", 10)
    monkeypatch.setattr(throttle, "LIMIT_ADDRESS", 10)
    for _ in range(25):
        throttle.begin("rita", "192.0.2.1")
        throttle.succeed("rita", "192.0.2.1")


def test_an_address_that_the_server_does_not_know_is_not_counted(db):
    assert tries([f"name-{i}" for i in range(60)], [""] * 60) == 60


def test_a_failed_sign_in_is_logged_without_what_was_typed(client, people, caplog):
    client.post("/login/", {"username": "my secret pass phrase", "password": "x"})
    client.post("/login/", {"username": "viewer", "password": "very wrong"})
    assert caplog.text.count("a sign-in failed") == 2
    assert "pass phrase" not in caplog.text
    assert "very wrong" not in caplog.text
    assert f"'account': {people['viewer'].pk}" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_guesses_at_the_same_time_are_counted_too():
    def guess(_: int) -> bool:
        try:
            throttle.begin("rita", "192.0.2.1")
        except throttle.TooManyTriesError:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(guess, range(24))) == throttle.LIMIT


def choose(path: str, **fields: str):
    client = Client()
    return client, client.post(path, fields)


def test_a_link_lets_its_holder_choose_a_password_once(people):
    path = accounts.link(people["viewer"])
    page = Client().get(path)
    assert page.status_code == 200
    assert page.headers["Referrer-Policy"] == "same-origin", "stricter, and browsers send the form with Origin: null"
    assert Client().get(path).status_code == 200, "looking uses nothing up"
    client, done = choose(path, password="a new long password", again="a new long password")
    assert done.headers["Location"] == "/"
    assert client.session["_auth_user_id"] == str(people["viewer"].pk)
    assert choose(path, password="another long one", again="another long one")[1].status_code == 410
    assert Client().login(username="viewer", password="a new long password")


def test_a_new_password_ends_the_sessions_that_the_old_one_opened(as_person, people):
    before = as_person("viewer")
    choose(accounts.link(people["viewer"]), password="a new long password", again="a new long password")
    assert access.visitors([before.session.session_key]) == {}
    assert before.get("/").headers["Location"].startswith("/login/")


@pytest.mark.parametrize(
    ("password", "again", "complaint"),
    [
        ("short", "short", "too short"),
        ("password1234", "password1234", "too common"),
        ("viewer123", "viewer123", "too similar"),
        ("a new long password", "another", "differ"),
        ("", "", "required"),
    ],
)
def test_a_bad_password_is_refused_and_the_link_still_works(people, password, again, complaint):
    path = accounts.link(people["viewer"])
    page = choose(path, password=password, again=again)[1]
    assert complaint in str(page.context["form"].errors)
    assert Client().get(path).status_code == 200


def test_a_link_expires_and_a_newer_one_replaces_it(people):
    now = timezone.now()
    old = accounts.link(people["viewer"], now - timedelta(hours=25))
    assert Client().get(old).status_code == 410
    first, second = accounts.link(people["viewer"]), accounts.link(people["viewer"])
    assert [Client().get(path).status_code for path in (first, second)] == [410, 200]


def test_a_link_of_a_disabled_account_does_not_work(people):
    path = accounts.link(people["viewer"])
    accounts.disable(people["viewer"])
    assert Client().get(path).status_code == 410
    accounts.enable(people["viewer"])
    assert Client().get(path).status_code == 410


def test_only_a_digest_of_a_link_is_stored(people):
    text = accounts.link(people["viewer"]).split("/")[2]
    row = Invitation.objects.values().get()
    assert text not in str(row)
    assert len(text) >= 43


def test_the_first_account_comes_from_a_link_and_may_do_everything():
    path = accounts.first_link()
    _, done = choose(path, username="rita", password="a new long password", again="a new long password")
    assert done.status_code == 302
    user = User.objects.get(username="rita")
    assert access.role_of(user) is Role.APPROVER
    assert not user.is_superuser
    assert accounts.first_link() == ""
    assert Client().get(path).status_code == 410


def test_a_link_for_the_first_account_dies_with_the_first_account():
    path = accounts.first_link()
    accounts.add("somebody", Role.VIEWER, PASSWORD)
    assert Client().get(path).status_code == 410


def test_only_the_newest_link_for_the_first_account_works():
    paths = [accounts.first_link(), accounts.first_link()]
    assert [Client().get(path).status_code for path in paths] == [410, 200]


def test_of_two_who_use_a_link_at_once_one_gets_it(people):
    found = accounts.invitation(accounts.link(people["viewer"]).split("/")[2])
    accounts.redeem(found, "a new long password")
    with pytest.raises(accounts.AccountError, match="used already"):
        accounts.redeem(found, "another long password")


def test_a_name_that_is_taken_or_malformed_keeps_the_link():
    path = accounts.first_link()
    page = choose(path, username="with space", password="a new long password", again="a new long password")[1]
    assert page.context["form"].errors
    assert Client().get(path).status_code == 200
