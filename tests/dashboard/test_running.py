"""How `manage.py token` and other commands find the instance that runs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard import running

ROOT = Path(__file__).resolve().parent.parent.parent


def test_what_was_written_is_found_until_it_is_cleared(tmp_path):
    home = tmp_path / "rehearsal"
    running.write(home, address="http://127.0.0.1:8000/", env={"VIGIE_HOSTS": "localhost"})
    found = running.Running(str(home), os.getpid(), "http://127.0.0.1:8000/", {"VIGIE_HOSTS": "localhost"})
    assert running.read(tmp_path) == [found]
    assert running.environment(tmp_path) == {"VIGIE_HOSTS": "localhost", "VIGIE_HOME": str(home)}
    assert (home / running.FILE_NAME).stat().st_mode & 0o777 == 0o600
    running.clear(home)
    running.clear(home)
    assert running.read(tmp_path) == []


def test_of_two_that_run_the_last_one_is_meant_and_the_first_stays(tmp_path):
    for age, name in enumerate(("rehearsal", "cluster")):
        running.write(tmp_path / name, address=name, env={})
        os.utime(tmp_path / name / running.FILE_NAME, (1000 + age, 1000 + age))
    assert [found.address for found in running.read(tmp_path)] == ["cluster", "rehearsal"]
    running.clear(tmp_path / "cluster")
    assert running.environment(tmp_path) == {"VIGIE_HOME": str(tmp_path / "rehearsal")}


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"home": "x"}', '{"home":"x","pid":"no","address":"","env":{}}']
)
def test_a_broken_marker_is_no_marker(content, tmp_path):
    (tmp_path / "rehearsal").mkdir()
    (tmp_path / "rehearsal" / running.FILE_NAME).write_text(content)
    assert running.read(tmp_path) == []


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_marker_of_a_killed_instance_is_no_marker(tmp_path):
    marker = {"home": "x", "pid": ended_process(), "address": "", "env": {}}
    (tmp_path / "rehearsal").mkdir()
    (tmp_path / "rehearsal" / running.FILE_NAME).write_text(json.dumps(marker))
    assert running.read(tmp_path) == []


def test_with_none_running_the_only_home_is_meant(tmp_path):
    with pytest.raises(LookupError, match="make up"):
        running.environment(tmp_path)
    for name in ("rehearsal", "cluster"):
        (tmp_path / name).mkdir()
    (tmp_path / "rehearsal" / "vigie.sqlite3").touch()
    assert running.environment(tmp_path) == {"VIGIE_HOME": str(tmp_path / "rehearsal")}
    (tmp_path / "cluster" / "vigie.sqlite3").touch()
    with pytest.raises(LookupError, match="which home"):
        running.environment(tmp_path)


def manage(state: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "VIGIE_STATE": str(state), **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def migrated(tmp_path_factory) -> Path:
    """A fresh database, for copying."""
    home = tmp_path_factory.mktemp("migrated")
    done = manage(home, "migrate", "-v0", VIGIE_HOME=str(home))
    assert done.returncode == 0, done.stderr
    return home / "vigie.sqlite3"


def fresh_home(home: Path, migrated: Path) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(migrated, home)
    return home


def test_token_finds_the_running_instance_without_environment_variables(tmp_path, migrated):
    home = fresh_home(tmp_path / "rehearsal", migrated)
    running.write(home, address="http://127.0.0.1:8123/", env={})
    added = manage(tmp_path, "user", "add", "rita", "--role", "viewer", "--link")
    assert added.stdout.startswith("http://127.0.0.1:8123/welcome/"), added.stderr
    token = manage(tmp_path, "token", "rita")
    assert token.stdout.startswith("vigie_"), token.stderr
    assert not (tmp_path / "vigie.sqlite3").exists()


def test_cadence_asks_the_ledger_of_the_running_instance_and_otherwise_nobody(tmp_path, migrated):
    asked = ("cadence", "--save-cost", "3m")
    assert manage(tmp_path, *asked, "--mtbf", "24h").returncode == 0
    alone = manage(tmp_path, *asked, "--gpus=8")
    assert alone.stderr.startswith("manage.py cadence: no Vigie runs here"), alone.stderr
    home = fresh_home(tmp_path / "rehearsal", migrated)
    (tmp_path / "kubeconfig").write_text("contexts: [{name: lab}]\n")
    running.write(home, address="", env={"VIGIE_KUBECONFIG": str(tmp_path / "kubeconfig")})
    followed = manage(tmp_path, *asked, "--gpus", "8")
    assert "the ledger knows no time in this window" in followed.stderr, followed.stderr


def test_nothing_to_talk_about_is_one_line_and_leaves_nothing(tmp_path):
    said = manage(tmp_path, "token", "rita")
    assert said.returncode == 1
    assert said.stderr.startswith("manage.py token: no Vigie runs here")
    assert "Traceback" not in said.stderr
    assert not list(tmp_path.iterdir())


def test_a_home_that_is_named_is_the_one_that_counts(tmp_path, migrated):
    running.write(tmp_path / "running", address="", env={})
    named = fresh_home(tmp_path / "named", migrated)
    assert "no account rita" in manage(tmp_path, "user", "disable", "rita", VIGIE_HOME=str(named)).stderr
    assert not (tmp_path / "running" / "vigie.sqlite3").exists()
