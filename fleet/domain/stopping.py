"""What a container does when it is told to stop, as far as its manifest tells: how long its preStop hook takes, and whether
SIGTERM comes through to its program.

Owns the reading of command lines for that. Must not judge: `readiness_stops` does.
"""

import re
import shlex
from collections.abc import Sequence
from posixpath import basename
from typing import Final

from fleet.domain.manifests import Container, Hook

SHELLS: Final = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh", "busybox"})
INITS: Final = frozenset({"tini", "dumb-init", "catatonit", "s6-svscan", "docker-init"})
UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
# Images that are built without a shell and without coreutils; their debug and -dev variants have both.
SHELLLESS: Final = re.compile(r"(?:^|/)(?:distroless|chainguard)/|^scratch(?:[:@]|$)|[:-]distroless\b")
WITH_SHELL: Final = re.compile(r"(?:[:-]debug\b|-dev(?:@|$))")
LONGEST_SCRIPT: Final = 100_000
_SLEEP: Final = re.compile(r"(?:^|[\s;&|(])(?:/\S*/)?sleep\s+(\d+(?:\.\d+)?)([smhd]?)(?=$|[\s;&|)])")
_SLEEP_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_COMPOUND: Final = frozenset({"done", "fi", "esac", "}", "if", "while", "until", "for", "case", "wait"})
_LAST_COMMAND: Final = re.compile(r"^.*(?:&&|\|\||[;\n])\s*(?=\S)", re.DOTALL)


def pre_stop_s(hook: Hook | None) -> float | None:
    """How long a hook takes at least: 0 without one, the sleeps that its command names; None: it does not tell."""
    if hook is None:
        return 0.0
    if hook.sleep is not None:
        return float(hook.sleep.seconds)
    if hook.exec is None:
        return None
    command = hook.exec.command
    if command and basename(command[0]) == "sleep":
        found = [_SLEEP_TIME.fullmatch(word) for word in command[1:]]
        return sum(_seconds(*each.groups()) for each in found if each) if found and all(found) else None
    script = shell_script(command)
    sleeps = _SLEEP.findall(script) if script is not None else []
    return sum(_seconds(*each) for each in sleeps) if sleeps else None


def _seconds(number: str, unit: str) -> float:
    return float(number) * UNITS_S[unit]


def sleeps_by_command(hook: Hook | None) -> bool:
    """Whether a hook calls the program `sleep`, which the image has to have."""
    if hook is None or hook.exec is None:
        return False
    command = hook.exec.command
    return bool(command) and (basename(command[0]) == "sleep" or bool(_SLEEP.search(shell_script(command) or "")))


def lacks_shell(image: str) -> bool:
    return bool(SHELLLESS.search(image)) and not WITH_SHELL.search(image)


def shell_script(command: Sequence[str]) -> str | None:
    """The script that a command line gives to a shell with -c; None: it calls no shell so."""
    words = list(command)
    if words and basename(words[0]) == "env":
        words = words[1:]
    if words and basename(words[0]) == "busybox":
        words = words[1:]
    if not words or basename(words[0]) not in SHELLS:
        return None
    for i, word in enumerate(words[1:-1], 1):
        if word.startswith("-") and not word.startswith("--") and "c" in word[1:]:
            return words[i + 1][:LONGEST_SCRIPT]
    return None


def loses_sigterm(container: Container) -> str | None:
    """The script of a shell that stays process 1 and passes no signal on; None: nothing tells of one.

    A shell waits for its last command and does nothing with SIGTERM, unless it traps it or has become the program (`exec`).
    """
    words = (*container.command, *container.args)
    if not container.command or any(basename(word) in INITS for word in words[:3]):
        return None
    script = shell_script(words)
    if script is None or not script.strip():
        return None
    calls = _words(script)
    if "exec" in calls or "trap" in calls or any(basename(word) in INITS for word in calls):
        return None
    return script


def with_exec(script: str) -> str:
    """The same script with its last command in place of the shell; "" where it ends in no simple command, such as a loop."""
    stripped = script.rstrip().rstrip(";").rstrip()
    found = _LAST_COMMAND.match(stripped)
    end = found.end() if found else 0
    first = stripped[end:].split(maxsplit=1)[0]
    return (
        ""
        if first in _COMPOUND or first[0] in "({" or "|" in stripped[end:]
        else f"{stripped[:end]}exec {stripped[end:]}"
    )


def _words(script: str) -> list[str]:
    spaced = re.sub(r"[;&|(){}\n]", " ", script)
    try:
        return shlex.split(spaced, comments=False)
    except ValueError:  # an open quote
        return spaced.split()
