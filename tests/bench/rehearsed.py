"""The rehearsal cluster in a process of its own, and its API for whoever measures."""

import contextlib
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

ROOT = Path(__file__).resolve().parents[2]
LARGE = ("--nodes", "1000", "--pods", "30000", "--churn", "100")


@dataclass(frozen=True)
class Rehearsal:
    """A running one. `client` is signed in to its API."""

    process: "subprocess.Popen[str]"
    ready_s: float
    kubeconfig: Path
    client: httpx.Client


@contextlib.contextmanager
def rehearsing(home: Path, *options: str) -> Iterator[Rehearsal]:
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "manage.py", "rehearsal", "--home", str(home), *options],
        cwd=ROOT,
        env={**os.environ, "VIGIE_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        ready_s = time.monotonic() - began
        document = yaml.safe_load((home / "kubeconfig").read_text())
        address = document["clusters"][0]["cluster"]["server"]
        headers = {"authorization": f"Bearer {document['users'][0]['user']['token']}"}
        insecure = ssl._create_unverified_context()
        with httpx.Client(base_url=address, headers=headers, verify=insecure, timeout=60) as client:
            yield Rehearsal(process, ready_s, home / "kubeconfig", client)
            process.terminate()
            process.wait(20)
    finally:
        process.kill()
        process.wait()
