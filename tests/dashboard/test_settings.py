"""What the environment means: the home, the secret key, the database."""

import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db.utils import ConnectionHandler

from dashboard import settings


def test_the_secret_key_is_made_once_and_private(tmp_path):
    first = settings.secret_key(tmp_path)
    assert len(first) >= 50
    assert settings.secret_key(tmp_path) == first
    assert stat.S_IMODE((tmp_path / "secret-key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret-key"]


def test_processes_that_start_together_agree_on_one_key(tmp_path):
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(settings.secret_key, [tmp_path] * 64))
    assert len(keys) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret-key"]


def test_a_given_key_is_taken_and_not_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("VIGIE_SECRET_KEY", "given")
    assert settings.secret_key(tmp_path) == "given"
    assert not list(tmp_path.iterdir())


def test_a_home_that_cannot_be_written_is_one_clear_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ImproperlyConfigured, match="secret key in VIGIE_HOME"):
        settings.secret_key(tmp_path / "file")


def test_the_home_is_private(tmp_path):
    home = tmp_path / "new"
    env = {"VIGIE_HOME": str(home), "PATH": ""}
    root = Path(__file__).resolve().parent.parent.parent
    subprocess.run([sys.executable, "-c", "import dashboard.settings"], env=env, cwd=root, check=True)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgres://vigie:p%40ss@db.example:5433/fleet", ("fleet", "vigie", "p@ss", "db.example", "5433")),
        ("postgresql://db.example/fleet", ("fleet", "", "", "db.example", "")),
        ("postgresql:///fleet?host=/run/postgresql", ("fleet", "", "", "/run/postgresql", "")),
        ("postgres://vigie@[::1]:5432/fleet", ("fleet", "vigie", "", "::1", "5432")),
    ],
)
def test_an_address_of_a_database_is_understood(url, wanted, tmp_path):
    found = settings.database(url, tmp_path)
    assert tuple(found[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")) == wanted
    assert found["ENGINE"] == "django.db.backends.postgresql"


def test_options_of_a_database_are_passed_on(tmp_path):
    found = settings.database("postgres://db.example/fleet?sslmode=require", tmp_path)
    assert found["OPTIONS"]["sslmode"] == "require"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://vigie:secret@db/fleet",
        "vigie:secret@db/fleet",
        "postgres://vigie:secret@db",
        "postgres://vigie:secret@db/",
        "postgres://vigie:secret@db/one/two",
        "postgres://vigie:secret@db:port/fleet",
        "postgres://vigie:secret@[db/fleet",
    ],
)
def test_a_broken_address_is_said_without_its_password(url, tmp_path):
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL") as raised:
        settings.database(url, tmp_path)
    assert "secret" not in str(raised.value)


@pytest.mark.db
@pytest.mark.django_db
def test_sqlite_is_durable_and_shared(tmp_path):
    connections = ConnectionHandler({"default": settings.database("", tmp_path)})
    with connections["default"].cursor() as cursor:
        pragmas = {
            name: cursor.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    connections.close_all()
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
