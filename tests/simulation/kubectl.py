"""The real kubectl as tests call it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

KUBECTL = shutil.which("kubectl")
marks = [
    pytest.mark.kubectl,
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is missing: install Debian's kubernetes-client"),
]
WITHIN_S = 60


class Kubectl:
    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home)}

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(KUBECTL), *arguments]
        return subprocess.run(
            command, env=self._environment, input=stdin, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen([str(KUBECTL), *arguments], env=self._environment, stdout=pipe, stderr=pipe, text=True)

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Standard output of a command that must succeed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout


def table(text: str) -> tuple[list[str], list[list[str]]]:
    """Heads and rows; columns are two spaces or more apart."""
    heads, *rows = text.splitlines()
    return re.split(r"\s{2,}", heads.strip()), [re.split(r"\s{2,}", r.strip()) for r in rows]
