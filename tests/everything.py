"""`make test`: every check there is, in one go, with one summary.

The static checks run beside each other; then the browser modules; then pytest twice: everything on SQLite and in memory,
and what is marked `db` or `broker` once more on PostgreSQL and Redis. `--static` stops after the static checks; any other
argument goes to pytest.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests import machine

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
FRONTEND = ROOT / "frontend"


@dataclass(frozen=True)
class Check:
    name: str
    argv: list[str]
    cwd: Path = ROOT
    env: tuple[tuple[str, str], ...] = ()


def main(arguments: list[str]) -> int:
    machine.install()
    begin = time.monotonic()
    failed = install_npm() + static()
    if "--static" not in arguments:
        failed += [c.name for c in dynamic(arguments) if not run(c)]
    took = time.monotonic() - begin
    print(f"\n{'FAILED: ' + ', '.join(failed) if failed else 'All checks passed'} in {took:.0f} s", flush=True)
    return 1 if failed else 0


def install_npm() -> list[str]:
    """The type checker of the browser modules; without npm it is skipped loudly, or fails where nothing may be skipped."""
    npm = machine.NEEDS["npm"].find()
    if npm is None or machine.NEEDS["node"].find() is None:
        print("SKIPPED: the browser modules' checks need node and npm", file=sys.stderr)
        return ["npm is missing"] if os.environ.get("VIGIE_NO_SKIPS") else []
    lock, done = FRONTEND / "package-lock.json", FRONTEND / "node_modules" / ".package-lock.json"
    if done.exists() and done.stat().st_mtime > lock.stat().st_mtime:
        return []
    install = Check("npm ci", [npm, "ci", "--no-audit", "--no-fund", "--loglevel", "error"], FRONTEND)
    return [] if run(install) else [install.name]


def static() -> list[str]:
    """The static checks, all started at once. Returns the names of those that failed."""
    checks = [
        Check("ruff check", [str(BIN / "ruff"), "check", "."]),
        Check("ruff format", [str(BIN / "ruff"), "format", "--check", "."]),
        Check("mypy", [str(BIN / "mypy")]),
        Check("import-linter", [str(BIN / "lint-imports")]),
    ]
    tsc = FRONTEND / "node_modules" / ".bin" / "tsc"
    if tsc.exists():
        checks.append(Check("tsc", [str(tsc), "--noEmit"], FRONTEND))
    started = [(c, start(c, subprocess.PIPE)) for c in checks]
    return [c.name for c, process in started if not finished(c, process)]


def dynamic(arguments: list[str]) -> list[Check]:
    # Whole files go to one worker, so that what a module starts is started once; they are in the order of tests.conftest.
    # Many tests wait for processes and clocks: half as many workers again as cores keep these busy.
    workers = str(-(-3 * (os.cpu_count() or 2) // 2))
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--dist", "loadfile", "--no-loadscope-reorder", "-m"]
    checks = [
        Check("pytest", [*pytest, "not (bench or soak)", *arguments]),
        Check(
            "pytest on PostgreSQL and Redis",
            [*pytest, "(db or broker) and not (bench or soak)", *arguments],
            env=(("VIGIE_TEST_BACKENDS", "servers"),),
        ),
    ]
    node = machine.NEEDS["node"].find()
    if node:
        checks.insert(0, Check("node --test", [node, "--test"], FRONTEND))
    return checks


def start(check: Check, stdout: int | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        check.argv,
        cwd=check.cwd,
        env=os.environ | dict(check.env),
        stdout=stdout,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(check: Check, process: "subprocess.Popen[str]") -> bool:
    output, _ = process.communicate()
    print(f"{'ok     ' if process.returncode == 0 else 'FAILED '} {check.name}", flush=True)
    if process.returncode:
        print(output, flush=True)
    return process.returncode == 0


def run(check: Check) -> bool:
    """One check with its output shown as it comes."""
    print(f"\n== {check.name}", flush=True)
    return start(check).wait() == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
