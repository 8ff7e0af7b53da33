"""What the tests need of the machine besides Python packages: found, installed as root on Debian, or named and skipped.

    python -m tests.machine install     installs what is missing (root on Debian), else names it

Must not import anything but the standard library: it runs before the packages are there.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Need:
    """One program: the names it goes by, and the Debian packages that bring it."""

    names: tuple[str, ...]
    packages: tuple[str, ...]

    def find(self) -> str | None:
        for name in self.names:
            found = shutil.which(name) if "/" not in name else max(map(str, Path("/").glob(name[1:])), default=None)
            if found:
                return found
        return None


NEEDS = {
    # The same Chromium without its windows needs half the processor time for a page.
    "chromium": Need(("chromium-headless-shell", "chromium", "chromium-browser"), ("chromium-headless-shell",)),
    "redis-server": Need(("redis-server",), ("redis-server",)),
    "postgres": Need(("/usr/lib/postgresql/*/bin/postgres", "postgres"), ("postgresql",)),
    "kubectl": Need(("kubectl",), ("kubernetes-client",)),
    "node": Need(("node",), ("nodejs",)),
    "npm": Need(("npm",), ("npm",)),
    "gcc": Need(("gcc",), ("gcc", "libc6-dev")),
}


def missing() -> list[str]:
    return [name for name, need in NEEDS.items() if need.find() is None]


def find(name: str) -> str:
    """The program's path. Skips the calling test when it is missing; with VIGIE_NO_SKIPS set that is a failure."""
    found = NEEDS[name].find()
    if found is None:
        import pytest

        pytest.skip(f"{name} is missing on this machine (Debian: {' '.join(NEEDS[name].packages)})")
    return found


def install() -> int:
    """Install what is missing where that is our business: as root on Debian. Elsewhere only say it."""
    lacking = missing()
    if not lacking:
        return 0
    packages = sorted({p for name in lacking for p in NEEDS[name].packages})
    if os.geteuid() != 0 or not Path("/etc/debian_version").exists() or shutil.which("apt-get") is None:
        print(
            f"MISSING, its tests are skipped: {', '.join(lacking)} (Debian: {' '.join(packages)})",
            file=sys.stderr,
        )
        return 0
    print(f"Installing {' '.join(packages)} …", flush=True)
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "-qq"]
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    subprocess.run([*apt, "update"], env=env, check=True)
    subprocess.run(
        [*apt, "install", "-y", "--no-install-recommends", *packages],
        env=env,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return 0


if __name__ == "__main__":
    sys.exit(install())
