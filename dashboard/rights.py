"""Whether the cluster lets Vigie change nodes or workloads, for buttons.

Owns a short memory of that answer and how long a page waits for it. Must not authorise anything: plan and confirmation ask
afresh, for every right that they need.
"""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late

import structlog
from django.conf import settings

from dashboard.roles import Role
from fleet import wiring
from fleet.domain.facts import Right

log = structlog.get_logger(__name__)

KEPT_S = 60.0
WAITS_S = 0.4  # a page of a cluster that does not answer comes without the answer
CHANGES_NODES = Right("patch", "nodes")

_lock = threading.Lock()
_asked: dict[tuple[str, Right], tuple[float, "Future[bool]"]] = {}
_pool = ThreadPoolExecutor(2, thread_name_prefix="rights")


def changes_nodes(cluster: str, role: Role | None) -> bool | None:
    return changes(cluster, role, CHANGES_NODES)


def changes_workload(cluster: str, role: Role | None, kind: str, namespace: str) -> bool | None:
    """Of one kind (Deployment, StatefulSet, DaemonSet), in one namespace."""
    return changes(cluster, role, Right("patch", f"{kind.lower()}s.apps", namespace))


def changes(cluster: str, role: Role | None, right: Right) -> bool | None:
    """None: unknown yet, or the cluster does not say. Nobody asks for somebody who may not act anyway."""
    if role is None or not role.includes(Role.OPERATOR) or not changeable(cluster):
        return None
    with _lock:
        at, answer = _asked.get((cluster, right), (0.0, None))
        if answer is None or time.monotonic() - at > KEPT_S:
            answer = _pool.submit(_ask, cluster, right)
            _asked[cluster, right] = time.monotonic(), answer
    try:
        return answer.result(WAITS_S)
    except Late:
        return None
    except Exception as error:  # noqa: BLE001 -- whatever it is, a button is no place to fail
        log.warning(
            "rights could not be asked for", cluster=cluster, resource=right.resource, reason=type(error).__name__
        )
        with _lock:
            _asked.pop((cluster, right), None)
        return None


def changeable(cluster: str) -> bool:
    """Whether this site lets Vigie change the cluster."""
    return bool(cluster in settings.VIGIE_ACTIONS)


def _ask(cluster: str, right: Right) -> bool:
    return all(found.allowed for found in wiring.site(cluster).changer.may((right,)))
