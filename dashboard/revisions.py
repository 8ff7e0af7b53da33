"""The revisions of a workload for the page about its rollout, within a moment.

Owns how long a page waits for the cluster. Must not hold words, markup or rules.
"""

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from typing import Any

import structlog

from dashboard.panels import revisions as panel
from fleet import wiring
from fleet.act import histories
from fleet.domain.picture import Snapshot

log = structlog.get_logger(__name__)

WAITS_S = 1.0  # a page of a cluster that does not answer comes without them
_pool = ThreadPoolExecutor(4, thread_name_prefix="revisions")


def shown(cluster: str, key: str, snapshot: Snapshot) -> dict[str, Any]:
    """`revisions` None: they could not be read."""
    found = _read(cluster, key)
    if found is None:
        return {"revisions": None}
    pods = [pod for pod in snapshot.pods.values() if pod.workload == key]
    return {"revisions": panel.lines(found, histories.written(cluster, key), snapshot.rollouts[key], pods)}


def _read(cluster: str, key: str) -> histories.History | None:
    try:
        return _pool.submit(wiring.histories().of, cluster, key).result(WAITS_S)
    except Late:
        return None
    except Exception as error:  # noqa: BLE001 -- whatever it is, the page has the rest
        log.warning("revisions could not be read", cluster=cluster, reason=type(error).__name__)
        return None
