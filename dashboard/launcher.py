"""`manage.py up`: starts Vigie's processes, says what it does, keeps them running, and stops them all.

Owns the choice between the rehearsal cluster and a real one: nothing that it starts knows which of the two it watches. Must not
import Django, so that it starts at once and can explain a broken environment in one line.
"""

import argparse
import fcntl
import ipaddress
import json
import os
import secrets
import shutil
import socket
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dashboard import running
from dashboard.supervisor import Child, StartError, Supervisor

ROOT = Path(__file__).resolve().parent.parent
QUEUES = ("watch", "readings", "actions", "checkpoints")
READY_WITHIN_S = 60.0
HINT_AFTER_S = 8.0
LEAST_FREE_BYTES = 16_000_000  # without it no child can even write down what is wrong
REHEARSAL_ACCOUNTS = ("viewer", "operator", "approver")
# What the rehearsal's site lets Vigie read and signal; one of its teams keeps its claim to itself.
REHEARSAL_POLICIES = """\
[[store]]
namespace = "training"
claim = "checkpoints"
path = {claims}

[checkpoints]
exec = ["training"]
"""


@dataclass
class Start:
    """One start as asked for on the command line."""

    host: str
    port: int
    hosts: str
    kubeconfig: str
    context: str
    own_redis: bool
    redis_url: str
    policies: str = ""
    actions: str = ""
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def rehearsal(self) -> bool:
        return not self.kubeconfig

    @property
    def home(self) -> Path:
        return running.STATE / ("rehearsal" if self.rehearsal else "cluster")

    @property
    def address(self) -> str:
        host = self.host if ":" not in self.host else f"[{self.host}]"
        return f"http://{host}:{self.port}/"

    @property
    def loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def main(argv: list[str]) -> int:
    """Run until told to stop. Exit status: 0 stopped, 1 a start that failed, 2 a start that was refused."""
    start = parse(argv)
    try:
        with Supervisor(start_logs(start)) as supervisor:
            return up(start, supervisor)
    except StartError as error:
        print(f"vigie: {error}", file=sys.stderr, flush=True)
        return 2


def parse(argv: list[str]) -> Start:
    parser = argparse.ArgumentParser(prog="manage.py up", description="Run Vigie on this machine.")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind (default %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to bind (default %(default)s)")
    parser.add_argument("--hosts", default="", help="further host names that people use for Vigie, comma-separated")
    parser.add_argument(
        "--kubeconfig", default="", help="watch the clusters of this file, read-only, not the rehearsal"
    )
    parser.add_argument("--context", default="", help="only this context of the kubeconfig")
    parser.add_argument("--actions", default="", help="clusters of the kubeconfig that may be changed, comma-separated")
    parser.add_argument("--policies", default="", help="a TOML file: limits, windows, freezes, second persons")
    parser.add_argument("--redis", action="store_true", help="run as separate processes on a Redis server of its own")
    parser.add_argument("--redis-url", default="", help="run as separate processes on this Redis server")
    o = parser.parse_args(argv)
    if not 0 < o.port < 65536:
        parser.error(f"a port lies between 1 and 65535, not {o.port}")
    if o.context and not o.kubeconfig:
        parser.error("a context needs a kubeconfig")
    if o.actions and not o.kubeconfig:
        parser.error("the rehearsal may be changed anyway: naming clusters needs a kubeconfig")
    own_redis = o.redis and not o.redis_url
    return Start(o.host, o.port, o.hosts, o.kubeconfig, o.context, own_redis, o.redis_url, o.policies, o.actions)


def start_logs(start: Start) -> Path:
    """The home with its log folder, made private; refuses what cannot work before anything runs."""
    if start.rehearsal and not start.loopback:
        raise StartError(
            f"the rehearsal's accounts have public passwords: it binds to loopback only, not to {start.host}"
        )
    if start.kubeconfig and not Path(start.kubeconfig).expanduser().is_file():
        raise StartError(f"no kubeconfig at {start.kubeconfig}")
    if start.policies and not Path(start.policies).expanduser().is_file():
        raise StartError(f"no policies at {start.policies}")
    if start.own_redis and shutil.which("redis-server") is None:
        raise StartError("redis-server is not installed; install it, or name a running one with REDIS_URL=redis://…")
    logs = start.home / "logs"
    try:
        logs.mkdir(parents=True, exist_ok=True)
        start.home.chmod(0o700)
        (start.home / "lock").touch()
    except OSError as error:
        raise StartError(f"cannot write to {start.home}: {error.strerror}") from error
    free_bytes = shutil.disk_usage(logs).free
    if free_bytes < LEAST_FREE_BYTES:
        raise StartError(
            f"the disk of {shown(start.home)} has {free_bytes / 1e6:.1f} MB left; make room, or name another with VIGIE_STATE=…"
        )
    return logs


def up(start: Start, supervisor: Supervisor) -> int:
    with (start.home / "lock").open() as lock:
        claim(start, lock.fileno())
        check_port(start)
        check_redis(start.redis_url)
        say(f"Home is {shown(start.home)}, logs are in its folder logs.")
        grant_stores(start)
        env = environment(start)
        begin = time.monotonic()
        if start.rehearsal:
            say("Starting the rehearsal cluster …")
            supervisor.run(rehearsal(start, env))
        if start.own_redis:
            say("Starting a Redis server …")
            supervisor.run(redis_server(start, env))
        say("Preparing the database …")
        people = prepare(start, env, supervisor)
        supervisor.wait_line("rehearsal", "ready ", READY_WITHIN_S) if start.rehearsal else None
        for child in processes(start, env):
            say(f"Starting {child.name} …")
            supervisor.run(child)
        running.write(start.home, address=start.address, env=marker(env))
        try:
            if not ready(start, supervisor, people):
                return 0 if supervisor.stopping else 1
            say(f"Ready after {time.monotonic() - begin:.1f} s.")
            if start.rehearsal:
                welcome(start, people)
            supervisor.watch(say)
        finally:
            running.clear(start.home)
            say("Stopping …")
    return 0


def claim(start: Start, lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StartError(f"Vigie already runs on {shown(start.home)}; stop it first") from error


def check_port(start: Start) -> None:
    """Bind once and let go, so that a taken port is one line and not a child that dies."""
    try:
        family = socket.getaddrinfo(start.host, start.port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((start.host, start.port))
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise StartError(
            f"cannot listen on {start.host} port {start.port}: {why}; choose another with PORT=…"
        ) from error


def check_redis(url: str) -> None:
    """Connect once to a Redis server that somebody named, so that a wrong address is one line and not three children that die."""
    if not url:
        return
    found = urllib.parse.urlsplit(url)
    if found.scheme not in {"redis", "rediss", "unix"}:
        raise StartError("REDIS_URL is not an address of a Redis server: it begins with redis://, rediss:// or unix://")
    try:
        if found.scheme == "unix":
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(found.path)
        else:
            socket.create_connection((found.hostname or "localhost", found.port or 6379), timeout=3).close()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        where = found.path if found.scheme == "unix" else found.hostname
        raise StartError(f"no Redis server answers at the REDIS_URL given ({where}): {why}") from error


def environment(start: Start) -> dict[str, str]:
    """The settings of every child. What a shell happens to export must not choose a database, a home or a cluster."""
    ours = ("VIGIE_", "REDIS_URL", "DATABASE_URL", "KUBECONFIG", "DJANGO_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    if not start.rehearsal and "DATABASE_URL" in os.environ:
        env["DATABASE_URL"] = os.environ["DATABASE_URL"]
    names = ["127.0.0.1", "localhost", "[::1]", *filter(None, start.hosts.split(","))]
    if not start.loopback:
        names.append(start.host)
    kubeconfig = start.home / "kubeconfig" if start.rehearsal else Path(start.kubeconfig).expanduser().resolve()
    env |= {
        "DJANGO_SETTINGS_MODULE": "dashboard.settings",
        "PYTHONUNBUFFERED": "1",
        "VIGIE_HOME": str(start.home),
        "VIGIE_HOSTS": ",".join(names),
        "VIGIE_PORT": str(start.port),
        "VIGIE_SECURE": "0" if start.loopback else "1",
        "VIGIE_KUBECONFIG": str(kubeconfig),
        "VIGIE_CONTEXTS": start.context,
        "VIGIE_ACTIONS": "rehearsal" if start.rehearsal else start.actions,
        "VIGIE_POLICIES": str(Path(start.policies).expanduser().resolve()) if start.policies else "",
    }
    if start.own_redis:
        start.secrets = {"password": secrets.token_urlsafe(24), "port": str(free_port())}
        start.redis_url = f"redis://:{start.secrets['password']}@127.0.0.1:{start.secrets['port']}/0"
    return env | {"REDIS_URL": start.redis_url} if start.redis_url else env


def grant_stores(start: Start) -> None:
    """The rehearsal comes with policies of its own, unless somebody names others."""
    if not start.rehearsal or start.policies:
        return
    claims = start.home / "claims" / "training" / "checkpoints"
    written = start.home / "policies.toml"
    written.write_text(REHEARSAL_POLICIES.format(claims=json.dumps(str(claims))))
    start.policies = str(written)


def marker(env: dict[str, str]) -> dict[str, str]:
    """What `manage.py token` and the like need to find this instance."""
    return {k: v for k, v in env.items() if k.startswith("VIGIE_") or k == "DATABASE_URL"}


def shown(path: Path) -> Path:
    """A path as somebody in the checkout would type it."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rehearsal(start: Start, env: dict[str, str]) -> Child:
    """Its nodes' agents get our address, as those of a site get it from their DaemonSet. It begins with a pair to switch."""
    told = ["--home", str(start.home), "--readings-to", start.address, "--story", "blue-green"]
    return Child("rehearsal", [sys.executable, "manage.py", "rehearsal", *told], env)


def redis_server(start: Start, env: dict[str, str]) -> Child:
    """Configured through standard input: a password on the command line would show in the process list."""
    config = (
        f"bind 127.0.0.1\nport {start.secrets['port']}\nrequirepass {start.secrets['password']}\n"
        f'save ""\nappendonly no\ndir {start.home}\n'
    )
    return Child("redis", ["redis-server", "-"], env, stdin=config)


def prepare(start: Start, env: dict[str, str], supervisor: Supervisor) -> dict[str, str]:
    """Migrations and the first accounts, in a process of its own. Returns what it says as JSON on its last line."""
    accounts = [f"--rehearsal-account={name}" for name in REHEARSAL_ACCOUNTS] if start.rehearsal else []
    output = supervisor.complete(Child("prepare", [sys.executable, "manage.py", "prepare", *accounts], env))
    people: dict[str, str] = json.loads(output)
    return people


def processes(start: Start, env: dict[str, str]) -> list[Child]:
    python = sys.executable
    if not start.redis_url:
        embedded = [python, "-m", "dashboard.embedded", "--host", start.host, "--port", str(start.port)]
        return [Child("vigie", embedded, env)]
    web = [
        *(
            python,
            "-m",
            "uvicorn",
            "dashboard.asgi:application",
            "--host",
            start.host,
            "--port",
            str(start.port),
        ),
        *("--no-access-log", "--timeout-graceful-shutdown", "2", "--no-server-header", "--ws-max-size", "65536"),
        *(["--proxy-headers"] if env["VIGIE_SECURE"] == "1" else ["--no-proxy-headers"]),
    ]
    celery = [python, "-m", "celery", "-A", "dashboard.celery"]
    workers = [
        Child(queue, [*celery, "worker", "-Q", queue, "-n", f"{queue}@%h", *WORKER_OPTIONS], env) for queue in QUEUES
    ]
    beat = Child("beat", [*celery, "beat", "--schedule", str(start.home / "beat"), "--pidfile="], env)
    return [Child("web", web, env), *workers, beat]


WORKER_OPTIONS = (
    "-P",
    "threads",
    "--without-gossip",
    "--without-mingle",
    "--loglevel",
    "WARNING",
)


def ready(start: Start, supervisor: Supervisor, people: dict[str, str]) -> bool:
    """Wait for /readyz. A real cluster that cannot be reached does not end the start: Vigie runs, and says what is missing."""
    begin, greeted, hinted = time.monotonic(), False, False
    while not supervisor.stopping:
        supervisor.check(say)
        code, answer = probe(start)
        if code and not (greeted or start.rehearsal):
            welcome(start, people)
            greeted = True
        if code == 200:
            return True
        waited_s = time.monotonic() - begin
        if waited_s > READY_WITHIN_S and start.rehearsal:
            print(f"vigie: not ready after {READY_WITHIN_S:.0f} s: {answer}", file=sys.stderr)
            return False
        if waited_s > HINT_AFTER_S and not hinted:
            hint(supervisor, answer)
            hinted = True
        supervisor.pause(0.1)
    return False


def hint(supervisor: Supervisor, answer: str) -> None:
    """What is known when a start takes long: the clusters that are missing, and what the reader's log said last."""
    try:
        missing = ", ".join(json.loads(answer)["missing"])
    except (ValueError, KeyError, TypeError):
        missing = answer or "the web server"
    say(f"Not there yet: {missing}. Vigie goes on trying; the last words of the logs:")
    for name in (*QUEUES, "vigie"):
        if name in supervisor.children:
            for line in supervisor.last_lines(name, 3):
                say(f"    {line[:200]}")


def probe(start: Start) -> tuple[int, str]:
    url = f"http://{'127.0.0.1' if start.host == '0.0.0.0' else start.host}:{start.port}/readyz"  # noqa: S104
    request = urllib.request.Request(url, headers={"Host": f"localhost:{start.port}"})
    try:
        with urllib.request.urlopen(request, timeout=2) as reply:  # noqa: S310
            return reply.status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.read(300).decode(errors="replace")
    except OSError as error:
        return 0, str(error)


def welcome(start: Start, people: dict[str, str], write: Callable[[str], None] = print) -> None:
    write("")
    write(f"  Vigie    {start.address}")
    if not start.loopback:
        write(
            "           behind a TLS proxy that sets X-Forwarded-Proto; over plain HTTP every page answers with a redirect"
        )
    if start.rehearsal:
        write("  sign in  " + ", ".join(REHEARSAL_ACCOUNTS) + "   (password = name)")
        write(f"  kubectl  KUBECONFIG={shown(start.home / 'kubeconfig')} kubectl get nodes")
        write("  stories  .venv/bin/python manage.py scenario list")
    elif people.get("link"):
        write(f"  first account, once, within 24 h: {start.address.rstrip('/')}{people['link']}")
    write("  Ctrl-C stops everything.")
    sys.stdout.flush()


def say(sentence: str) -> None:
    print(sentence, flush=True)
