"""`manage.py user`: accounts from the command line, and the rehearsal's marked ones."""

import io
from io import StringIO

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from dashboard import access, accounts
from dashboard.access import Role
from tests.dashboard.conftest import PASSWORD

pytestmark = [pytest.mark.db, pytest.mark.django_db]


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("user", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


@pytest.fixture
def typed(monkeypatch):
    """Puts text on the command's standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_add_takes_the_password_from_a_pipe(typed):
    typed(f"{PASSWORD}\n")
    command("add", "rita", "--role", "operator", "--password-stdin")
    user = authenticate(username="rita", password=PASSWORD)
    assert access.role_of(user) is Role.OPERATOR


def test_add_with_a_link_leaves_the_password_to_its_owner():
    out = command("add", "rita", "--role", "viewer", "--link")
    assert not User.objects.get().has_usable_password()
    path = "/welcome/" + out.strip().partition("/welcome/")[2]
    assert Client().get(path).status_code == 200


def test_add_without_a_terminal_says_what_to_do(typed):
    typed(PASSWORD)
    with pytest.raises(CommandError, match="--password-stdin or --link"):
        command("add", "rita", "--role", "viewer")
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("name", "password", "complaint"),
    [
        ("rita", "short", "too short"),
        ("rita-okafor", "rita-okafor", "too similar"),
        ("with space", PASSWORD, "valid username"),
        ("viewer", PASSWORD, "already exists"),
    ],
)
def test_add_refuses_what_nobody_should_have(name, password, complaint, people, typed):
    typed(f"{password}\n")
    with pytest.raises(CommandError, match=complaint):
        command("add", name, "--role", "viewer", "--password-stdin")
    assert User.objects.count() == 4


def test_a_role_that_does_not_exist_is_refused(people):
    with pytest.raises(CommandError, match="admin"):
        command("role", "viewer", "admin")


def test_role_disable_enable_and_list(people):
    command("role", "viewer", "approver")
    command("disable", "operator")
    assert [line.split("\t") for line in command("list").splitlines()] == [
        ["approver", "approver"],
        ["nobody", "no role"],
        ["operator", "disabled"],
        ["viewer", "approver"],
    ]
    assert authenticate(username="operator", password=PASSWORD) is None
    with pytest.raises(CommandError, match="disabled"):
        command("link", "operator")
    command("enable", "operator")
    assert authenticate(username="operator", password=PASSWORD) is not None


def test_a_role_on_one_cluster(typed):
    typed(f"{PASSWORD}\n")
    command("add", "rita", "--role", "viewer", "--cluster", "paris", "--password-stdin")
    command("role", "rita", "operator", "--cluster", "rome")
    assert command("list") == "rita\tviewer on paris, operator on rome\n"
    command("role", "rita", "viewer")
    command("role", "rita", "none", "--cluster", "paris")
    assert command("list") == "rita\tviewer, operator on rome\n"


def test_link_prints_one_that_works(people):
    path = "/welcome/" + command("link", "viewer").strip().partition("/welcome/")[2]
    assert Client().get(path).context["account"] == people["viewer"]


@pytest.mark.parametrize("what", ["role", "link", "disable", "enable"])
def test_an_unknown_name_is_said(what):
    arguments = ["never-was", "viewer"] if what == "role" else ["never-was"]
    with pytest.raises(CommandError, match="no account never-was"):
        command(what, *arguments)


def test_rehearsal_accounts_are_marked_and_may_have_weak_passwords(people):
    assert access.rehearsal_accounts() == []
    for name in ("zoe", "adam"):
        accounts.add(name, Role.VIEWER, name, rehearsal=True)
    assert access.rehearsal_accounts() == ["adam", "zoe"]
    assert "zoe\tviewer\trehearsal" in command("list")
    accounts.disable(accounts.find("zoe"))
    assert access.rehearsal_accounts() == ["adam"]


def test_changing_a_role_keeps_the_mark():
    user = accounts.add("adam", Role.VIEWER, "adam", rehearsal=True)
    accounts.set_role(user, Role.OPERATOR)
    assert access.rehearsal_accounts() == ["adam"]
    assert access.role_of(user) is Role.OPERATOR
