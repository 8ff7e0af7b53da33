"""API tokens: what they open, when they stop, and the command that makes them."""

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone

from dashboard import accounts, tokens
from dashboard.models import ApiToken

pytestmark = [pytest.mark.db, pytest.mark.django_db]


def ask(text: str, client: Client | None = None, method: str = "GET"):
    return (client or Client()).generic(method, "/api/v1/nodes", headers={"authorization": f"Bearer {text}"})


@pytest.fixture
def text(people) -> str:
    return tokens.issue(people["viewer"], "a script", 90)[0]


def test_a_token_opens_the_api_and_nothing_else(text, writer):
    assert ask(text).status_code == 200
    page = Client().get(f"/c/{writer.cluster}/", headers={"authorization": f"Bearer {text}"})
    assert page.headers["Location"].startswith("/login/")


def test_a_token_holds_256_bits_and_only_its_digest_is_stored(text):
    assert text.startswith("vigie_")
    assert len(text) == len("vigie_") + 43
    assert text not in str(ApiToken.objects.values().get())


def expire(token: ApiToken, user: User) -> None:
    ApiToken.objects.update(expires_at=timezone.now())


def revoke(token: ApiToken, user: User) -> None:
    assert tokens.revoke(token.pk)


def disable(token: ApiToken, user: User) -> None:
    accounts.disable(user)


def only_deactivate(token: ApiToken, user: User) -> None:
    User.objects.update(is_active=False)


def delete(token: ApiToken, user: User) -> None:
    user.delete()


@pytest.mark.parametrize("end", [expire, revoke, disable, only_deactivate, delete])
def test_a_token_that_ended_opens_nothing(end, text, people, writer):
    assert ask(text).status_code == 200
    end(ApiToken.objects.get(), people["viewer"])
    response = ask(text)
    assert response.status_code == 401
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.headers["WWW-Authenticate"].startswith("Bearer")
    assert response.json()["status"] == 401


def test_a_token_of_an_account_that_lost_its_role_is_refused(text, people, writer):
    people["viewer"].groups.clear()
    assert ask(text).status_code == 403


@pytest.mark.parametrize(
    "header", ["Bearer ", "Bearer wrong", "Basic dmlld2VyOnZpZXdlcg==", "vigie_", "Bearer vigie_x y"]
)
def test_a_wrong_header_is_refused_even_with_a_good_session(header, as_person, writer):
    response = as_person("viewer").get("/api/v1/nodes", headers={"authorization": header})
    assert response.status_code == 401


def test_a_token_for_reading_does_not_write(text, writer):
    assert {ask(text, method=method).status_code for method in ("POST", "PUT", "PATCH", "DELETE")} == {403}


def test_when_a_token_was_last_used_is_known_coarsely(text):
    now = timezone.now()
    for minutes in (0, 3, 6):
        assert tokens.recognise(f"Bearer {text}", now + timedelta(minutes=minutes)) is not None
        used = ApiToken.objects.get().last_used_at - now
        assert used == timedelta(minutes=6 if minutes == 6 else 0)


def command(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("token", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_command_prints_the_token_alone_so_that_a_shell_can_take_it(people, writer):
    out, err = command("viewer", "--name", "a script", "--days", "7")
    assert ask(out.strip()).status_code == 200
    assert out.count("\n") == 1
    assert "viewer" in err
    assert out.strip() not in err
    token = ApiToken.objects.get()
    assert (token.name, token.expires_at - token.created_at) == ("a script", timedelta(days=7))


def test_the_command_lists_and_revokes(people, writer):
    first, second = command("viewer")[0].strip(), command("operator")[0].strip()
    assert ask(second).status_code == 200
    listed = command("--list")[0].splitlines()
    assert [line.split("\t")[1] for line in listed] == ["viewer", "operator"]
    assert first not in "".join(listed)
    assert "never used" in listed[0]
    assert len(command("operator", "--list")[0].splitlines()) == 1
    command("--revoke", listed[0].split("\t")[0])
    assert (ask(first).status_code, ask(second).status_code) == (401, 200)
    assert "revoked" in command("viewer", "--list")[0]


def test_the_command_makes_a_token_for_one_cluster(people, clusters):
    command("viewer", "--cluster", clusters[1])
    assert ApiToken.objects.get().cluster == clusters[1]
    assert command("--list")[0].rstrip().endswith(f"\treading\t{clusters[1]}")


def test_the_command_notes_a_cluster_that_nobody_watches(people, clusters):
    assert f"no cluster lost is watched here, only {clusters[0]}, " in command("viewer", "--cluster", "lost")[1]
    assert "Note" not in command("viewer", "--cluster", clusters[0])[1]


def test_a_person_sees_what_each_token_may_do(people, as_person, clusters):
    command("operator", "--scope", "act", "--cluster", clusters[1])
    command("operator", "--name", "graphs")
    page = as_person("operator").get("/account/").content.decode()
    assert f"for reading and acting · {clusters[1]} · until" in page
    assert "<b>graphs</b><small>for reading · until" in page


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "name the account"),
        (["never-was"], "no account never-was"),
        (["nobody"], "no role"),
        (["viewer", "--days", "0"], "--days"),
        (["viewer", "--scope", "act"], "could change nothing"),
        (["--revoke", "99999"], "no token 99999"),
    ],
)
def test_the_command_says_what_is_wrong(arguments, complaint, people):
    with pytest.raises(CommandError, match=complaint):
        command(*arguments)
    assert not ApiToken.objects.exists()


def test_a_token_of_a_disabled_account_is_not_made(people):
    accounts.disable(people["viewer"])
    with pytest.raises(CommandError, match="disabled"):
        command("viewer")
