"""compose.yaml: what runs, how it is confined, what it is told, and that its command lines are ours."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import uvicorn.config

from dashboard import launcher, running, settings
from dashboard.celery import QUEUES
from tests.deploy.files import DEPLOY, ROOT, RUNS, commands, compose, image, services

VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?:(:[?-])([^}]*))?\}")
READ = re.compile(r"\"(VIGIE_\w+|REDIS_URL|DATABASE_URL)\"")


def as_started_by(start: launcher.Start) -> dict[str, list[str]]:
    return {child.name: child.argv for child in launcher.processes(start, {"VIGIE_SECURE": "1"})}


def options(argv: list[str]) -> list[str]:
    """A command line without what may differ: the interpreter, where to listen, names and paths, and a default."""
    own, words = {"--host", "--port", "-n", "--schedule"}, [word for word in argv[1:] if word != "--proxy-headers"]
    return [word for before, word in zip(["", *words], words, strict=False) if not {before, word} & own]


# What runs


def test_the_services() -> None:
    assert set(services()) == {*RUNS, "redis", "postgres"}
    assert {name for name in RUNS if services()[name]["image"] != services()["web"]["image"]} == set()


def test_there_is_a_worker_for_every_queue_and_no_other() -> None:
    served = {name: argv[argv.index("-Q") + 1].split(",") for name, argv in commands().items() if "worker" in argv}
    assert served == {queue: [queue] for queue in QUEUES}


def test_the_processes_are_those_of_make_up() -> None:
    """`make up REDIS=1` starts exactly what is deployed; both lists are compared, so neither can change alone."""
    started = as_started_by(launcher.Start("0.0.0.0", 8000, "", "", "", False, "redis://used"))
    deployed = {name: argv for name, argv in commands().items() if name != "prepare"}
    assert {n: options(a) for n, a in deployed.items()} == {n: options(["python", *a[1:]]) for n, a in started.items()}


def test_workers_of_many_machines_have_names_of_their_own() -> None:
    argv = commands()["watch"]
    assert argv[argv.index("-n") + 1] == "watch@%h"


@pytest.mark.parametrize("name", RUNS)
def test_a_command_line_is_understood(name: str, tmp_path: Path) -> None:
    """Unknown options and modules fail here; `--help` keeps it from running."""
    argv = [sys.executable, *commands()[name][1:], "--help"]
    env = {"PATH": os.environ["PATH"], "VIGIE_HOME": str(tmp_path)}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()


def test_web_is_what_the_image_runs_by_default() -> None:
    default = next(rest for instruction, rest in image() if instruction == "CMD")
    assert re.findall(r'"([^"]*)"', default) == commands()["web"]


def test_what_waits_for_what() -> None:
    after = {
        name: {on: how["condition"] for on, how in s.get("depends_on", {}).items()} for name, s in services().items()
    }
    done, healthy = "service_completed_successfully", "service_healthy"
    assert after == {
        **{
            name: {"prepare": done, "redis": healthy}
            for name in ("web", "watch", "readings", "actions", "checkpoints", "beat")
        },
        "prepare": {"postgres": healthy},
        "redis": {},
        "postgres": {},
    }


def test_everything_comes_back_but_what_runs_once() -> None:
    restarts = {name: service["restart"] for name, service in services().items()}
    assert restarts.pop("prepare") == "on-failure:5"
    assert set(restarts.values()) == {"unless-stopped"}


def test_health_checks() -> None:
    tests = {name: " ".join(s["healthcheck"]["test"]) for name, s in services().items() if "healthcheck" in s}
    assert set(tests) == {"web", "redis", "postgres"}
    assert "/healthz" in tests["web"]
    assert "redis-cli ping" in tests["redis"]
    assert "pg_isready" in tests["postgres"]


# How it is confined


@pytest.mark.parametrize("name", list(services()))
def test_a_service_is_confined(name: str) -> None:
    service = services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service.get("user", "10001") != "root"
    assert not {"privileged", "cap_add", "network_mode", "pid", "ipc"} & set(service)
    tag = substituted(service["image"]).rpartition(":")[2]
    assert tag[0].isdigit(), "pinned by major version at least"


def test_only_web_is_published_and_on_loopback_only() -> None:
    published = {name: s["ports"] for name, s in services().items() if "ports" in s}
    assert list(published) == ["web"]
    assert all(port.startswith("127.0.0.1:") for port in published["web"])


def test_the_stores_have_no_way_out() -> None:
    assert compose()["networks"]["stores"] == {"internal": True}
    assert {name: s["networks"] for name, s in services().items() if s["networks"] == ["stores"]}.keys() == {
        *("redis", "postgres", "beat", "prepare")
    }


def test_only_who_names_clusters_gets_the_kubeconfig() -> None:
    assert {name for name, s in services().items() if "secrets" in s} == {
        "web",
        "watch",
        "readings",
        "actions",
        "checkpoints",
    }
    for name in ("web", "watch", "readings", "actions", "checkpoints"):
        assert services()[name]["environment"]["VIGIE_KUBECONFIG"] == "/run/secrets/kubeconfig"


# What it is told


def known_settings() -> set[str]:
    return set(READ.findall(inspect.getsource(settings) + inspect.getsource(running)))


def substituted(text: str) -> str:
    return VARIABLE.sub(lambda found: found[3] or "", text)


@pytest.mark.parametrize("name", RUNS)
def test_every_variable_means_something(name: str) -> None:
    told = set(services()[name]["environment"])
    if name == "web":
        told.remove("FORWARDED_ALLOW_IPS")
        assert "FORWARDED_ALLOW_IPS" in inspect.getsource(uvicorn.config)
    assert told <= known_settings()


def test_secrets_are_asked_for_and_never_written_down() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    used = {name: (how, rest) for name, how, rest in VARIABLE.findall(text)}
    for name in ("VIGIE_SECRET_KEY", "POSTGRES_PASSWORD", "REDIS_PASSWORD", "KUBECONFIG_FILE", "VIGIE_HOSTS"):
        assert used[name] == (":?", "see deploy/example.env")
    for service in services().values():
        for name, value in service["environment"].items():
            if any(word in name for word in ("PASSWORD", "SECRET_KEY", "_URL")):
                assert VARIABLE.search(value), name


def test_the_example_explains_every_variable_and_holds_no_value_of_a_secret() -> None:
    example = (DEPLOY / "example.env").read_text()
    said = dict(re.findall(r"^#?([A-Z_]+)=(.*)$", example, re.MULTILINE))
    text = (DEPLOY / "compose.yaml").read_text()
    defaults = {name: rest if how == ":-" else "" for name, how, rest in VARIABLE.findall(text)}
    assert said == defaults


def test_git_and_the_image_leave_the_secrets_out() -> None:
    assert ".env" in (DEPLOY / ".gitignore").read_text().splitlines()
    ignored = subprocess.run(["git", "check-ignore", "-q", "deploy/.env"], cwd=ROOT, check=False)
    assert ignored.returncode == 0
    assert "!deploy" not in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
