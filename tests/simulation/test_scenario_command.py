"""`manage.py scenario` from the outside: it finds the rehearsal by its kubeconfig, and says in one line what is wrong."""

import io
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command

from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from fleet.simulation.scenarios.programme import SCENARIOS
from fleet.simulation.server import READER


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(Rehearsal(nodes=6, pace=0), tmp_path_factory.mktemp("home")) as served:
        yield served


def scenario(running: Serving, *arguments: str) -> str:
    out = io.StringIO()
    call_command("scenario", "--home", str(running.kubeconfig.parent), *arguments, stdout=out)
    return out.getvalue()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        call_command("scenario", *arguments)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    return said.err


def test_it_lists_all_scenarios(running: Serving) -> None:
    lines = scenario(running, "list").splitlines()
    assert [line.split()[0] for line in lines] == [s.name for s in SCENARIOS]


def test_a_scenario_is_started_followed_and_stopped(running: Serving) -> None:
    assert "no scenario is on" in scenario(running, "status")
    started = scenario(running, "start", "full-fleet")
    assert started.startswith("started full-fleet: No free GPU anywhere\n")
    assert "Look at: " in started
    assert "full-fleet: " in scenario(running, "status")
    stopped = scenario(running, "stop", "full-fleet")
    assert stopped.startswith("stopped full-fleet\n")
    assert "Over: everything is as it was." in stopped
    assert "no scenario is on" in scenario(running, "status")


def test_speed(running: Serving) -> None:
    assert scenario(running, "speed", "20") == "speed 20\n"
    assert "speed 20" in scenario(running, "status")
    scenario(running, "speed", "1")


def test_the_page_has_a_fresh_link_each_time(running: Serving) -> None:
    links = [scenario(running, "page").strip() for _ in range(2)]
    assert links[0] != links[1]
    with urllib.request.urlopen(links[0], timeout=10) as answer:
        assert "Sign in" in answer.read().decode(), "urllib keeps no cookie"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(links[0], timeout=10)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("start", "nope"), "there is no scenario 'nope'"),
        (("stop", "quota"), "quota is off"),
        (("speed", "0"), "a speed lies between 0.1 and 100"),
    ],
)
def test_refusals_are_one_line(
    running: Serving, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(capsys, "--home", str(running.kubeconfig.parent), *arguments)


def test_no_rehearsal_is_one_line(running: Serving, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is `make up` running?" in refused(capsys, "--home", str(tmp_path), "list")
    gone = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9", running.kubeconfig.read_text())
    (tmp_path / "rehearsal").mkdir()
    (tmp_path / "rehearsal" / "kubeconfig").write_text(gone)
    assert "no rehearsal answers at https://127.0.0.1:9" in refused(capsys, "--home", str(tmp_path), "list")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "nope", None, 404),
        ("PUT", "scenarios", None, 404),
        ("POST", "speed", {"speed": "fast"}, 400),
        ("POST", "speed", [1], 400),
        ("POST", "speed", {"speed": "1" * 5000}, 413),
    ],
)
def test_the_switchboard_refuses_what_it_does_not_know(
    running: Serving, method: str, path: str, body: object, status: int
) -> None:
    assert answered(running, method, path, body, token_of(running)) == status


def test_the_switchboard_is_for_administrators_of_this_host(running: Serving) -> None:
    reader = running.call(lambda: running.server.auth.issue(READER))
    assert answered(running, "GET", "scenarios", None, reader) == 403
    assert answered(running, "GET", "scenarios", None, "wrong") == 401
    assert answered(running, "GET", "scenarios", None, token_of(running), host="evil.example") == 421


def token_of(running: Serving) -> str:
    found: str = yaml.safe_load(running.kubeconfig.read_text())["users"][0]["user"]["token"]
    return found


def answered(running: Serving, method: str, path: str, body: object, token: str, host: str = "") -> int:
    trusting = ssl.create_default_context(cadata=running.server.ca_pem.decode())
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        **({"Host": host} if host else {}),
    }
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{running.url}/rehearsal/{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10, context=trusting) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
