"""Celery tasks of queue `watch`: one slice of watching per message.

Owns how watching starts and goes on. Must not know what watching is (`fleet.observe` does).
"""

import threading

from celery import shared_task

from fleet import live, wiring
from fleet.observe import Writer

# A message that nobody took by then is worthless: beat has sent another one.
EXPIRES_S = 15

_writers: dict[str, Writer] = {}
_writers_lock = threading.Lock()


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def watch_clusters() -> None:
    """Ask for a slice of every configured cluster; where one is running, its lease makes ours end at once."""
    for name in wiring.sites():
        watch_cluster.apply_async((name,), expires=EXPIRES_S)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def watch_cluster(name: str) -> None:
    """One slice, and then the next one. After a crash nothing that was known is trusted: the next slice lists again."""
    try:
        again = writer(name).run(wiring.stopping)
    except Exception:
        _writers.pop(name, None)
        raise
    if again and not wiring.stopping.is_set():
        watch_cluster.apply_async((name,), expires=EXPIRES_S)


def writer(name: str) -> Writer:
    """This process's writer of a cluster."""
    with _writers_lock:
        if name not in _writers:
            _writers[name] = Writer(wiring.site(name).cluster, live.picture(), gpus=live.gpus(), saves=live.saves())
        return _writers[name]
