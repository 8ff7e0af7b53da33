"""The marker of the instance that runs, so that `manage.py token` and `manage.py user` find it without environment variables.

Owns `running.json` in each home, which only its owner may read: the address of the database may hold a password.
Must not import Django: the launcher uses it before there are settings.
"""

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


def write(home: Path, *, address: str, env: Mapping[str, str]) -> None:
    """Say that the calling process runs Vigie on `home`."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = {"home": str(home), "pid": os.getpid(), "address": address, "env": dict(env)}
    fresh = home / f"{FILE_NAME}.{os.getpid()}"
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(json.dumps(marker, indent=1) + "\n")
    fresh.replace(home / FILE_NAME)


def clear(home: Path) -> None:
    """Take the own marker away."""
    (home / FILE_NAME).unlink(missing_ok=True)


def read(state: Path = STATE) -> list[Running]:
    """The instances that run, the last one that started first; not one that was killed and could not clear its marker."""
    markers = [path for path in state.glob(f"*/{FILE_NAME}") if path.is_file()]
    markers.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return [found for path in markers if (found := _read(path)) is not None and _alive(found.pid)]


def environment(state: Path = STATE) -> dict[str, str]:
    """The settings of the instance that people mean when they name none, as environment variables.

    That is the one that runs; of several the one that started last. When none runs, the only home that there is.
    Raises LookupError with a sentence when there is none to choose, or no telling which.
    """
    if found := read(state):
        return {**found[0].env, "VIGIE_HOME": found[0].home}
    homes = sorted(path.parent for path in state.glob("*/vigie.sqlite3"))
    if len(homes) == 1:
        return {"VIGIE_HOME": str(homes[0])}
    if homes:
        raise LookupError(f"no Vigie runs; say which home with VIGIE_HOME: {', '.join(map(str, homes))}")
    raise LookupError("no Vigie runs here and none ever did; start one with make up, or name a home with VIGIE_HOME")


def _read(path: Path) -> Running | None:
    try:
        marker = json.loads(path.read_text())
        return Running(str(marker["home"]), int(marker["pid"]), str(marker["address"]), dict(marker["env"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
