"""The marker of the instance that runs, so that `manage.py token` and `manage.py user` find it without environment variables.

Owns `.vigie/running.json`, which only its owner may read: the address of the database may hold a password.
Must not import Django: the launcher uses it before there are settings.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# VIGIE_STATE moves the state of every start elsewhere, for instance where the checkout itself is read-only.
STATE = Path(os.environ.get("VIGIE_STATE") or Path(__file__).resolve().parent.parent / ".vigie").absolute()
FILE_NAME = "running.json"


@dataclass(frozen=True)
class Running:
    """One instance: where its state lives, which process started it, where people find it, and its settings."""

    home: str
    pid: int
    address: str
    env: Mapping[str, str]


def write(home: Path | str, *, address: str, env: Mapping[str, str], state: Path = STATE) -> None:
    """Say that the calling process runs Vigie on `home`. The last one that started is the one that is found."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = {"home": str(home), "pid": os.getpid(), "address": address, "env": dict(env)}
    fresh = state / f"{FILE_NAME}.{os.getpid()}"
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(json.dumps(marker, indent=1) + "\n")
    fresh.replace(state / FILE_NAME)


def read(state: Path = STATE) -> Running | None:
    """The instance that runs, or None: never started, ended, or killed without a chance to clear its marker."""
    try:
        marker = json.loads((state / FILE_NAME).read_text())
        running = Running(str(marker["home"]), int(marker["pid"]), str(marker["address"]), dict(marker["env"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return running if _alive(running.pid) else None


def clear(home: Path | str, *, state: Path = STATE) -> None:
    """Take the marker away, unless another instance has put its own there."""
    running = read(state)
    if running is not None and running.home == str(home) and running.pid == os.getpid():
        with contextlib.suppress(FileNotFoundError):
            (state / FILE_NAME).unlink()


def environment(state: Path = STATE) -> dict[str, str]:
    """The settings of the instance that runs, as environment variables; empty when none runs."""
    running = read(state)
    return {} if running is None else {**running.env, "VIGIE_HOME": running.home}


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
