"""`manage.py act` against a server that answers as Vigie does: what it says, and with which status it ends."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from dashboard.management.commands import act


class Answers(BaseHTTPRequestHandler):
    """The next of `told`, the last one for ever: a state of the action, or a status of HTTP."""

    told: list[str | int]

    def do_GET(self) -> None:
        now = self.told.pop(0) if len(self.told) > 1 else self.told[0]
        shown = {"name": "M-0007", "kind": "drain", "target": "n", "state": now, "steps": [], "pods": [], "outcome": {}}
        self.send_response(now if isinstance(now, int) else 200)
        self.end_headers()
        self.wfile.write(json.dumps(shown).encode())

    do_POST = do_GET  # noqa: N815 -- as http.server names it

    def log_message(self, *_args: object) -> None:
        """Nothing to standard error."""


@pytest.fixture
def answers(monkeypatch) -> Iterator[list[str | int]]:
    Answers.told = []
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        monkeypatch.setenv("VIGIE_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("VIGIE_TOKEN", "x")
        monkeypatch.setattr(act, "LOOK_S", 0.01)
        yield Answers.told
        server.shutdown()


def test_following_outlives_a_restart_of_vigie(answers):
    answers += ["running", "running", 503, 502, "running", "succeeded"]
    out, err = StringIO(), StringIO()
    call_command("act", "follow", "7", stdout=out, stderr=err)
    assert out.getvalue() == "M-0007 drain n: succeeded\n"
    assert err.getvalue().count("trying again") == 1


def test_following_ends_when_vigie_stays_away(answers, monkeypatch):
    monkeypatch.setattr(act, "PATIENCE_S", 0.05)
    answers += ["running", 503]
    with pytest.raises(CommandError) as caught:
        call_command("act", "follow", "7", stderr=StringIO())
    assert caught.value.returncode == 2


@pytest.mark.parametrize(
    ("way", "state", "status"),
    [
        ("follow", "stopped", 1),
        ("follow", "failed", 1),
        ("stop", "stopped", 0),
        ("stop", "refused", 0),
        ("stop", 404, 2),
    ],
)
def test_the_status_tells_how_it_has_ended(answers, way, state, status):
    answers.append(state)
    found = 0
    try:
        call_command("act", way, "M-0007", stdout=StringIO())
    except SystemExit as left:
        found = left.code
    except CommandError as error:
        found = error.returncode
    assert found == status
