"""Celery tasks of queue `readings`: slices of taking readings in, rounds over exporters, and the keeping of history.

Owns how they start and go on. Must not know what a reading means (`fleet.observe` does).
"""

import threading
import time

from celery import shared_task

from fleet import history, live, save_records, wiring
from fleet.observe import Ingest
from fleet.scrape import Scrape

# A message that nobody took by then is worthless: beat has sent another one.
EXPIRES_S = 15

_ingests: dict[str, Ingest] = {}
_ingests_lock = threading.Lock()
_scrapes: dict[str, Scrape] = {}
_scrapes_lock = threading.Lock()


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def ingest_all() -> None:
    """Ask for a slice of every configured cluster; where one is running, ours ends at once."""
    for name in wiring.sites():
        ingest_readings.apply_async((name,), expires=EXPIRES_S)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def ingest_readings(name: str) -> None:
    """One slice, and then the next one. After a crash nothing that was remembered here is trusted."""
    try:
        again = ingest(name).run(wiring.stopping)
    except Exception:
        _ingests.pop(name, None)
        raise
    if again and not wiring.stopping.is_set():
        ingest_readings.apply_async((name,), expires=EXPIRES_S)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def keep_history() -> None:
    """Make the hours that have ended, and take away what is too old."""
    now = time.time()
    history.make_hours(now)
    history.prune(now)
    save_records.prune(now)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def scrape_all() -> None:
    """Ask for a round over the GPU exporters of every configured cluster."""
    for name in wiring.sites():
        scrape_exporters.apply_async((name,), expires=EXPIRES_S)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def scrape_exporters(name: str) -> None:
    """One round. While the one before still waits for somebody, there is none."""
    found = scrape(name)
    if found.free.acquire(blocking=False):
        try:
            found.round(wiring.stopping)
        finally:
            found.free.release()


def scrape(name: str) -> Scrape:
    """This process's memory of a cluster's GPU exporters."""
    with _scrapes_lock:
        if name not in _scrapes:
            _scrapes[name] = Scrape(name, wiring.exporters(name), live.gpus())
        return _scrapes[name]


def ingest(name: str) -> Ingest:
    """This process's memory of a cluster's GPUs."""
    with _ingests_lock:
        if name not in _ingests:
            _ingests[name] = made = Ingest(wiring.site(name).name, live.gpus(), wiring.catalogue())
            if wiring.scrapes():
                made.scrapes = scrape(name).outcomes
        return _ingests[name]
