"""Claims: that one worker runs an action, and which actions want to be run.

Owns the compare-and-swap that makes a lost or doubled message change nothing, and the lease that lets another worker go on after
a crash. Must not run anything.
"""

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator

import structlog
from django.db import close_old_connections, connections
from django.db.models import Q
from django.db.utils import DatabaseError

from fleet.domain.plans import ActionState
from fleet.models import Action

log = structlog.get_logger(__name__)

LEASE_S = 8.0  # with the sweep every 5 s, a dead worker's action is taken over within 15 s
RUNNABLE = (ActionState.CONFIRMED, ActionState.RUNNING)


class LostClaimError(Exception):
    """Another worker runs this action now: whatever we were about to do is not ours to do."""


class Claim:
    """Our hold on one action. `check` before every request that changes something."""

    def __init__(self, pk: int, token: str, lease_s: float, now: Callable[[], float]) -> None:
        self.pk, self.token = pk, token
        self._lease_s, self._now = lease_s, now
        self._until = now() + lease_s
        self._over = threading.Event()

    def check(self) -> None:
        """Raises LostClaimError when the lease has run out: we may have been asleep for longer than it lasts."""
        if self._now() >= self._until:
            raise LostClaimError

    def hold(self) -> None:
        """Within a transaction: the action stays ours until its end. Raises LostClaimError when it is another's already."""
        mine = Action.objects.select_for_update().filter(pk=self.pk, claimed_by=self.token)
        if not mine.values_list("pk", flat=True).first():
            raise LostClaimError

    def renew(self) -> bool:
        until = self._now() + self._lease_s
        mine = Action.objects.filter(pk=self.pk, claimed_by=self.token, state__in=RUNNABLE)
        if not mine.update(claim_until=until):
            self._until = 0.0
            return False
        self._until = until
        return True

    def keep(self) -> None:
        """Body of the thread that renews while the worker waits for the cluster. A database that is locked is tried again until
        the lease has run out by itself."""
        while not self._over.wait(self._lease_s / 4):
            try:
                if not self.renew():
                    break
            except DatabaseError as error:
                log.warning("a claim could not be renewed", action=self.pk, reason=type(error).__name__)
                close_old_connections()
        connections.close_all()

    def end(self) -> None:
        self._over.set()


@contextlib.contextmanager
def claimed(pk: int, now: Callable[[], float], lease_s: float = LEASE_S) -> Iterator[Claim | None]:
    """Our claim on an action, renewed until the end of the block; None when another worker has it or there is nothing to do."""
    token, at = uuid.uuid4().hex, now()
    free = Action.objects.filter(pk=pk, state__in=RUNNABLE).filter(Q(claimed_by="") | Q(claim_until__lt=at))
    if not free.update(claimed_by=token, claim_until=at + lease_s):
        yield None
        return
    claim = Claim(pk, token, lease_s, now)
    keeper = threading.Thread(target=claim.keep, name=f"claim {pk}", daemon=True)
    keeper.start()
    try:
        yield claim
    finally:
        claim.end()
        keeper.join(lease_s)
        Action.objects.filter(pk=pk, claimed_by=token).update(claimed_by="", claim_until=0.0)


def due(now: float) -> list[int]:
    """Actions that wait for a worker: confirmed or running, their time has come, and nobody has them."""
    waiting = Action.objects.filter(state__in=RUNNABLE, due_at__lte=now).filter(
        Q(claimed_by="") | Q(claim_until__lt=now)
    )
    return list(waiting.order_by("due_at").values_list("pk", flat=True))
