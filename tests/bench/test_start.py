"""How long a start takes, beside a bare import of the same packages in the same run."""

import subprocess
import sys
import time

import pytest

from tests import product
from tests.bench.test_read_path import say, seconds

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

IMPORTS = "import django, channels, celery, uvicorn, kubernetes.client, msgspec"


def test_a_second_start_against_a_bare_import(tmp_path):
    bare = seconds(lambda: subprocess.run([sys.executable, "-c", IMPORTS], check=True), times=3)
    for name in ("first", "second"):
        begin = time.monotonic()
        with product.running(tmp_path) as running:
            ready_s = time.monotonic() - begin
            stop_s = product.stop(running.process)
        say(
            f"{name} start ÷ bare import of its packages",
            f"{ready_s / bare:.1f}×",
            f"ready {ready_s:.1f} s, stopped {stop_s:.1f} s",
        )
    assert ready_s < 6, "promised: a second start is ready in under 6 s"
