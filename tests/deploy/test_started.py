"""What is deployed, started here: the files that get into the image, the health checks, and Redis as it is configured."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.backends import free_port
from tests.deploy.files import DEPLOY, ROOT, commands, copied, image, services

NEEDS_REDIS = pytest.mark.skipif(
    not (shutil.which("redis-server") and shutil.which("redis-cli")), reason="redis-server or redis-cli is missing"
)


@contextlib.contextmanager
def running(argv: list[str], **options: object) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.terminate()
        process.wait(15)


def succeeds(check: Callable[[], bool], process: "subprocess.Popen[bytes]", within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while not check():
        assert process.poll() is None, "it ended"
        assert time.monotonic() < deadline, "it was not healthy in time"
        time.sleep(0.1)


# The image


def test_what_is_copied_exists() -> None:
    assert copied()
    assert [source for source in copied() if not (ROOT / source).exists()] == []


def test_the_base_image_has_a_python_that_fits_and_comes_by_name() -> None:
    wanted = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    bases = [rest.split()[0] for instruction, rest in image() if instruction == "FROM"]
    assert len(set(bases)) == 1
    name, _, tag = bases[0].partition(":")
    assert name == "python"
    assert tag.removesuffix("-slim") in wanted


def test_the_image_runs_as_nobody_special() -> None:
    users = [rest for instruction, rest in image() if instruction == "USER"]
    assert users == ["10001:10001"]
    assert [i for i, _ in image()].index("USER") < [i for i, _ in image()].index("CMD")


def test_packages_are_the_locked_ones() -> None:
    installs = [rest for instruction, rest in image() if instruction == "RUN" and "install --no-cache" in rest]
    assert len(installs) == 1
    assert "--require-hashes -r requirements.lock" in installs[0]


def test_the_image_has_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert services()["web"]["image"] == f"${{VIGIE_IMAGE:-vigie:{version}}}"


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what gets into the image, as git has it."""
    lines = [
        line for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] not in {"", "#"}
    ]
    taken = [line[1:] for line in lines if line.startswith("!")]
    left = [line for line in lines if line[0] not in {"!", "*"}]
    assert lines[0] == "*", "nothing gets in unless it is named"
    folder = tmp_path_factory.mktemp("image")
    tracked = subprocess.run(["git", "ls-files", "-z", *taken], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in tracked.stdout.split("\0")[:-1]:
        if not any(Path(name).is_relative_to(part) for part in left) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def test_no_rehearsal_and_no_tests_are_in_the_image(context: Path) -> None:
    assert {p.name for p in context.iterdir()} == {"dashboard", "fleet", "frontend", "manage.py", "requirements.lock"}
    assert not (context / "fleet" / "simulation").exists()
    assert {p.name for p in (context / "frontend").iterdir()} == {"static", "templates", "locale"}


def test_prepare_and_web_run_from_the_image_s_files(context: Path, tmp_path: Path) -> None:
    """With the settings of compose.yaml, but for the stores: SQLite and memory stand in."""
    port = free_port()
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "VIGIE_HOME": str(tmp_path),
        "VIGIE_SECURE": "1",
        "VIGIE_HOSTS": "vigie.example.org,localhost",
        "VIGIE_SECRET_KEY": "k" * 64,
        "VIGIE_LOG": "json",
    }
    waits = ["python", "manage.py", "migrate", "--check"]
    assert subprocess.run(waits, cwd=context, env=env, capture_output=True, check=False).returncode == 1
    prepared = subprocess.run(commands()["prepare"], cwd=context, env=env, capture_output=True, text=True, check=True)
    assert '"link": "/' in prepared.stdout
    assert subprocess.run(waits, cwd=context, env=env, capture_output=True, check=False).returncode == 0

    web = [{"0.0.0.0": "127.0.0.1", "8000": str(port)}.get(word, word) for word in commands()["web"]]
    _, *check = [word.replace(":8000", f":{port}") for word in services()["web"]["healthcheck"]["test"]]

    def healthy() -> bool:
        return subprocess.run(check, env=env, capture_output=True, check=False, timeout=20).returncode == 0

    with running(web, cwd=context, env=env) as process:
        succeeds(healthy, process)
        assert status(port, "vigie.example.org", "https") == 302  # to the sign-in page
        assert status(port, "vigie.example.org", "http") == 301  # to https
        assert status(port, "elsewhere.example.org", "https") == 400
    assert not healthy()


def status(port: int, host: str, scheme: str) -> int:
    """What a request that came through a TLS proxy (or did not) gets."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    headers = {"Host": host, "X-Forwarded-Proto": scheme}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers=headers)
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@NEEDS_REDIS
def test_redis_takes_its_password_from_the_environment_and_shows_it_to_nobody(tmp_path: Path) -> None:
    service, port, password = services()["redis"], free_port(), "0123456789abcdef"
    script = service["entrypoint"][2].replace("$$", "$").replace("port 6379", f"bind 127.0.0.1\nport {port}")
    check = service["healthcheck"]["test"][1].replace("$$", "$").replace("redis-cli", f"redis-cli -p {port}")
    env = {"PATH": os.environ["PATH"], "REDIS_PASSWORD": password}

    def healthy(password: str = password) -> bool:
        told = {**env, "REDIS_PASSWORD": password}
        return subprocess.run(["sh", "-c", check], env=told, capture_output=True, check=False).returncode == 0

    with running(["sh", "-c", script], env=env, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        succeeds(healthy, process, 10)
        assert not healthy("wrong")
        assert password.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert b"redis-server" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert list(tmp_path.iterdir()) == []
