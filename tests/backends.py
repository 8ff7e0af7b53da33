"""Real servers for the tests, and the settings that choose them. Loaded with `-p`, before Django reads its settings.

VIGIE_TEST_BACKENDS=servers runs the whole session on PostgreSQL and Redis; without it on SQLite and in memory.
"""

import atexit
import contextlib
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests import machine

START_WITHIN_S = 20.0


def free_port() -> int:
    """One that no outgoing connection can be given between now and the start of whoever is to listen there: systems take those
    from 32768 up, and a suite on several workers makes thousands."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("a hundred ports below 32000 are taken")


@contextlib.contextmanager
def redis_server(port: int | None = None) -> Iterator[str]:
    """A Redis of its own on loopback, empty and without files. Yields its URL."""
    binary, port = machine.find("redis-server"), port or free_port()
    argv = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with tempfile.TemporaryDirectory() as folder, _running(argv, port, cwd=folder):
        yield f"redis://127.0.0.1:{port}/0"


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL cluster of its own on loopback. Yields its URL. PostgreSQL refuses root, so root becomes `postgres`."""
    folder = Path(tempfile.mkdtemp(prefix="vigie-postgres-"))
    bin_folder, port = Path(machine.find("postgres")).resolve().parent, free_port()
    try:
        account = pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        os.chown(folder, account.pw_uid, account.pw_gid)
        user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        init = [
            bin_folder / "initdb",
            "-D",
            folder / "data",
            "-A",
            "trust",
            "-U",
            "vigie",
            "--no-sync",
            "-E",
            "UTF8",
        ]
        subprocess.run(init, check=True, stdout=subprocess.DEVNULL, cwd=folder, **user)
        argv = [str(bin_folder / "postgres"), "-D", str(folder / "data"), "-h", "127.0.0.1", "-p", str(port)]
        argv += ["-k", "", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"]
        with _running(argv, port, cwd=str(folder), **user):
            yield f"postgres://vigie@127.0.0.1:{port}/postgres"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _running(argv: list[str], port: int, **options: object) -> Iterator[None]:
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)  # type: ignore[call-overload]
        try:
            _wait_for_port(process, port, log)
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for_port(process: "subprocess.Popen[bytes]", port: int, log: object) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            log.seek(0)  # type: ignore[attr-defined]
            raise RuntimeError(f"{process.args} did not start:\n{log.read().decode()}")  # type: ignore[attr-defined]
        time.sleep(0.02)


def _choose() -> None:
    """Settings of this test session: a home of its own, and the servers when they are asked for."""
    for name in [
        n for n in os.environ if n.startswith("VIGIE_") and n not in ("VIGIE_TEST_BACKENDS", "VIGIE_NO_SKIPS")
    ]:
        del os.environ[name]
    for name in ("REDIS_URL", "DATABASE_URL", "KUBECONFIG"):
        os.environ.pop(name, None)
    home = tempfile.mkdtemp(prefix="vigie-test-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ["VIGIE_HOME"] = home
    if os.environ.get("VIGIE_TEST_BACKENDS") == "servers" and not {"postgres", "redis-server"} & set(machine.missing()):
        servers = contextlib.ExitStack()
        atexit.register(servers.close)
        os.environ["DATABASE_URL"] = servers.enter_context(postgres())
        os.environ["REDIS_URL"] = servers.enter_context(redis_server())


_choose()
