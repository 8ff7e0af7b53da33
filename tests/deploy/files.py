"""The files of deploy/ as the tests read them."""

import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.simulation.kubectl import KUBECTL

Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BASE, AGENT, DCGM = DEPLOY / "kubernetes", DEPLOY / "agent", DEPLOY / "dcgm"
MAINTENANCE = DEPLOY / "maintenance"
LOGS = DEPLOY / "logs"
SAVE_HOOKS, SAVE_SIGNALS, RELEASES = DEPLOY / "save-hooks", DEPLOY / "save-signals", DEPLOY / "releases"
RUNS = ("web", "watch", "readings", "actions", "checkpoints", "beat", "prepare")  # what runs from our image


@cache
def compose() -> Object:
    found: Object = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def services() -> dict[str, Object]:
    found: dict[str, Object] = compose()["services"]
    return found


@cache
def kustomization(folder: Path = BASE) -> Object:
    found: Object = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return found


@cache
def manifests(folder: Path = BASE) -> list[Object]:
    """Every object of a folder's files, as written."""
    names = kustomization(folder)["resources"]
    return [document for name in names for document in yaml.safe_load_all((folder / name).read_text())]


def manifest(kind: str, name: str, folder: Path = BASE) -> Object:
    return next(m for m in manifests(folder) if (m["kind"], m["metadata"]["name"]) == (kind, name))


@cache
def built(folder: Path = BASE) -> list[Object]:
    """Every object of a folder as `kubectl apply -k` would send it."""
    done = subprocess.run(
        [str(KUBECTL), "kustomize", str(folder)], capture_output=True, text=True, timeout=60, check=True
    )
    return list(yaml.safe_load_all(done.stdout))


def pod_of(workload: Object) -> Object:
    found: Object = workload["spec"]["template"]["spec"]
    return found


def workloads() -> dict[str, Object]:
    """Deployments and Jobs of the base by name."""
    return {m["metadata"]["name"]: m for m in manifests() if m["kind"] in {"Deployment", "Job"}}


def containers() -> Iterator[tuple[str, Object]]:
    """Every container of the base, init containers too, with the name of its workload."""
    for name, workload in workloads().items():
        pod = pod_of(workload)
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            yield name, container


def commands() -> dict[str, list[str]]:
    """The command lines of our image in compose.yaml."""
    return {name: services()[name]["command"] for name in RUNS}


@cache
def image() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    return [(i, rest) for i, _, rest in (line.partition(" ") for line in lines if line and not line.startswith("#"))]


def copied() -> list[str]:
    """What the Dockerfile copies from the repository."""
    words = [shlex.split(rest) for instruction, rest in image() if instruction == "COPY"]
    return [source for line in words if not line[0].startswith("--from") for source in line[:-1]]
