"""Celery tasks of queue `checkpoints`: scans of the stores, and deep checks of single checkpoints.

Owns how they start. Must not know what a checkpoint is (`fleet.scan` and what it calls do).
"""

import threading

from celery import shared_task

from fleet import live, wiring
from fleet.discovery import Discovery
from fleet.scan import DeepChecks, Scanner

# A message that nobody took by then is worthless: beat has sent another one.
EXPIRES_S = 30

_scanners: dict[str, Scanner] = {}
_scanners_lock = threading.Lock()


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def scan_all() -> None:
    """Ask for a scan of every configured cluster."""
    for name in wiring.sites():
        scan_cluster.apply_async((name,), expires=EXPIRES_S)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def scan_cluster(name: str) -> None:
    """One round. While the one before goes on, or there is no picture yet, there is none."""
    found = scanner(name)
    if found.free.acquire(blocking=False):
        try:
            if (snapshot := wiring.site(name).snapshot()) is not None:
                found.round(snapshot, wiring.stopping)
        finally:
            found.free.release()


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def deep_check(name: str, workload: str, path: str, asked_by: str) -> None:
    """Read all of one checkpoint."""
    checks = DeepChecks(name, wiring.stores(name), live.saves())
    checks.run(workload, path, asked_by, wiring.stopping)


def scanner(name: str) -> Scanner:
    """This process's memory of a cluster's checkpoints."""
    with _scanners_lock:
        if name not in _scanners:
            site = wiring.site(name)
            discovery = Discovery(site.name, site.changer, site.policy)
            _scanners[name] = Scanner(site.name, discovery, wiring.stores(name), wiring.remembered(name), live.saves())
        return _scanners[name]
