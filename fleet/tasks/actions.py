"""Celery tasks of queue `actions`: run what the ledger says is due.

Owns how running starts and goes on. Must not know what an action does (`fleet.act` does). The row is the queue: a message that is
lost is sent again by the next sweep, and a doubled one finds the action claimed.
"""

import time

import structlog
from celery import shared_task

from fleet import act, live, wiring
from fleet.act import claims, running
from fleet.models import Action

log = structlog.get_logger(__name__)

EXPIRES_S = 15


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Send every action that is due, and end proposals that nobody confirmed in time."""
    now = time.time()
    act.expire(now)
    for pk in claims.due(now):
        run_action.apply_async((pk,), expires=EXPIRES_S)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def run_action(pk: int) -> None:
    """One pass over one action, and the next one if it is due soon; later ones are the sweep's. An action of a cluster that is
    not configured any more ends here: nobody can go on with it."""
    cluster = Action.objects.values_list("cluster", flat=True).get(pk=pk)
    try:
        site = wiring.site(cluster)
    except LookupError:
        log.warning("the cluster of an action is not configured", action=pk, cluster=cluster)
        if running.abandon(pk):
            live.tell({"type": "action.changed", "cluster": cluster, "action": pk})
        return
    due_at = running.run(site, pk, wiring.stopping)
    live.tell({"type": "action.changed", "cluster": cluster, "action": pk})
    if due_at is not None and not wiring.stopping.is_set():
        run_action.apply_async((pk,), countdown=max(0.0, due_at - time.time()), expires=EXPIRES_S)
