"""The revisions of a workload, read afresh for whoever looks at its rollout: the picture holds no templates.

Owns which objects are read, for how long the answer is kept for others, and which actions of the ledger wrote which template.
Must not judge.
"""

import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from fleet.act.sites import Site
from fleet.domain import revisions
from fleet.domain.plans import StepKind, StepState
from fleet.domain.releases import parts
from fleet.domain.revisions import Edit, Revision, Workload
from fleet.glances import Glances
from fleet.models import ActionStep
from fleet.ports import PortError

KEPT_S = 5.0
MOST_WRITES = 100  # of one workload that are looked through


class Written(Struct, frozen=True):
    """An action of ours that wrote a template. `kind`: restart, undo or set-image; `number`: of the action."""

    number: int
    kind: str
    by: str
    at: float


class History(Struct, frozen=True):
    """`revisions`: the newest first; `edit`: who has written the present template last, as the API server says; None: it does
    not."""

    workload: Workload
    revisions: tuple[Revision, ...]
    edit: Edit | None


class Histories:
    """Of every cluster of this process. `find`: the site of a cluster by its name; raises LookupError."""

    def __init__(self, find: Callable[[str], Site], now: Callable[[], float] = time.time) -> None:
        self._find = find
        self._known: Glances[History | None] = Glances(KEPT_S, now)

    def of(self, cluster: str, key: str) -> History | None:
        """At most `KEPT_S` old. None: there is no such workload, or the API server does not answer, or not to us."""
        return self._known.look(f"{cluster} {key}", lambda: self._read(cluster, key))

    def _read(self, cluster: str, key: str) -> History | None:
        changer = self._find(cluster).changer
        try:
            workload = changer.read_workload(*parts(key))
            holders = changer.read_holders(workload) if workload is not None else ()
        except PortError:
            return None
        if workload is None:
            return None
        found = revisions.history(workload, holders)
        return History(workload, found, revisions.edit(workload))


def written(cluster: str, key: str) -> Mapping[str, Written]:
    """The last action of ours that wrote it, by the digest of the template."""
    steps = ActionStep.objects.filter(
        action__cluster=cluster, action__target=key, kind=StepKind.CHANGE, state=StepState.DONE
    )
    newest = list(steps.select_related("action").order_by("-done_at")[:MOST_WRITES])
    found = ((step.evidence.get("template") or step.facts.get("template"), step) for step in reversed(newest))
    return {
        str(digest): Written(step.action.pk, step.action.kind, step.action.confirmed_by, step.done_at or 0.0)
        for digest, step in found
        if digest and step.action.kind in revisions.WRITES
    }
