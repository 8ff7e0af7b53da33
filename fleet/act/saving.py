"""Asking workloads to save, each once, and waiting until what they saved is there and complete.

Owns who has been asked and what came of it. A workload is written down as asked before it is asked, so that after a crash we wait
for its checkpoint instead of asking twice. Nothing is evicted here: without the checkpoint the action ends, and nobody has gone.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from django.db import transaction
from msgspec import Struct

from fleet.act import VIGIE, plan_of, tell
from fleet.act.release_facts import held
from fleet.act.steps import GONE, Done, Failed, Outcome, Wait, Work, frozen
from fleet.domain import first_saves, last_saves, training
from fleet.domain.actions import ACTIONS
from fleet.domain.capacity import finished
from fleet.domain.found_saves import CLOCKS_S
from fleet.domain.freshness import Freshness
from fleet.domain.kinds import Subject
from fleet.domain.plans import Save
from fleet.domain.specs import FullPod
from fleet.ports import OWN, PortError

LOOK_S = 2.0
THROTTLED, CONFLICT = 429, 409
# It saves already, says the pod, which is a save as well; or somebody between us and it gave up, and it may have heard.
MAY_HAVE_HEARD = frozenset({408, 409, 502, 504})
# A connection that was never made: nothing has been asked for.
NEVER_SENT = frozenset({"refused", "unreachable", "unknown host", "certificate", "credentials"})


class State(StrEnum):
    """Of one workload, in `ActionStep.evidence`."""

    TODO = "todo"
    ASKED = "asked"  # written down before the request
    SAVED = "saved"
    FINISHED = "finished"  # it has ended by itself, with nothing left to lose
    REFUSED = "refused"


class Mark(Struct, frozen=True):
    """The newest checkpoint at one moment, by the clock of whoever dates it."""

    at: float
    step: int | None = None
    uri: str = ""
    heard_at: float | None = None  # of a report: when it came, by our clock
    state_at: float | None = None  # what it holds may be as old as that
    shelf: str = ""  # the directory that it is in


def save(work: Work) -> Outcome:
    """One look at every workload of the plan, and the request to those that were not asked yet."""
    saves = plan_of(work.action).saves
    if failed := _in_vain(work, saves):
        return failed
    if stopped := _stopped(work):
        return stopped
    for one in saves:
        if work.late or work.told_to_stop():
            break
        if (failed := _go_on(work, one)) is not None:
            return failed
    return _outcome(work, [one.workload for one in saves])


def _stopped(work: Work) -> Failed | None:
    """Why nobody is asked any more: what the pods would go for will not happen."""
    if ACTIONS[work.action.kind].subject is not Subject.NODE:
        return held(work)
    node = work.node()
    if node is None:
        return GONE
    if not node.spec.unschedulable:
        return Failed("uncordoned", {"by": "somebody else"})
    return frozen(work, node)


def _in_vain(work: Work, saves: Iterable[Save]) -> Failed | None:
    """What is known already, also when the node was opened again since: somebody has refused, or it is too late."""
    for one in saves:
        told = _told(work, one.workload)
        if told["state"] == State.REFUSED:
            return Failed("save-refused", {"workload": one.workload, "message": told.get("message", "")})
    outcome = _outcome(work, [one.workload for one in saves])
    return outcome if isinstance(outcome, Failed) else None


def _outcome(work: Work, workloads: list[str]) -> Outcome:
    awaited = [name for name in workloads if _told(work, name)["state"] in {State.TODO, State.ASKED}]
    if not awaited:
        return Done({"awaited": []})
    found = {"awaited": awaited}
    return Failed("not-saved", found) if work.late else Wait(LOOK_S, found)


def _told(work: Work, workload: str) -> dict[str, Any]:
    """What is written down of one workload."""
    found: Mapping[str, Any] = work.step.evidence.get("workloads") or {}
    return dict(found.get(workload) or {"state": State.TODO})


def _write(work: Work, workload: str, *, entry: str = "", **fields: Any) -> None:
    """In one transaction with the audit entry that tells of it, if there is one."""
    told = {**_told(work, workload), **fields}
    work.step.evidence = {
        **work.step.evidence,
        "workloads": {**(work.step.evidence.get("workloads") or {}), workload: told},
    }
    with transaction.atomic():
        work.claim.hold()
        work.step.save(update_fields=["evidence"])
        if entry:
            tell(work.action, VIGIE, entry, work.now(), workload=workload, **fields)


def _go_on(work: Work, one: Save) -> Failed | None:
    """Ask, or look for what was asked for. None: so far, so good."""
    told = _told(work, one.workload)
    match told["state"]:
        case State.TODO:
            return _ask(work, one)
        case State.ASKED:
            _see(work, one, told)
    return None


def _ask(work: Work, one: Save) -> Failed | None:
    pod = work.site.changer.read_pod(one.namespace, one.pod)
    if pod is None or pod.metadata.uid != one.uid or first_saves.text(pod) != one.hook:
        return Failed("save-changed", {"workload": one.workload, "pod": f"{one.namespace}/{one.pod}"})
    if finished(pod) and {*one.pods} <= {one.uid}:  # others of its job may go on
        _write(work, one.workload, state=State.FINISHED)
        return None
    hook = None if finished(pod) else training.hook_of(pod)
    if hook is None or (hook.signal is not None and one.namespace not in work.site.policy.checkpoints.exec):
        return Failed("save-changed", {"workload": one.workload, "pod": pod.key})
    seen = work.site.look(one.training, work.now())
    if not _readable(work, one, seen):
        return None  # it would not be seen to have saved: not yet
    before = _mark(work, one, seen)
    work.claim.check()
    fields = {
        "pod": pod.key,
        "hook": one.hook,
        "before_step": before and before.step,
        "before_at": before and before.at,
        "before_read": seen.read,
        "before_shelf": seen.shelf,
        "going_on": seen.in_flight and {"path": seen.in_flight.path, "step": seen.in_flight.step},
    }
    _write(work, one.workload, entry="asked-to-save", state=State.ASKED, asked_at=work.now(), **fields)
    return _request(work, one, hook, pod)


def _request(work: Work, one: Save, hook: training.Hook, pod: FullPod) -> Failed | None:
    namespace, name = pod.metadata.namespace, pod.metadata.name
    try:
        if hook.signal is not None:
            work.site.changer.signal_pod(namespace, name, hook.container, hook.signal)
        else:
            work.site.changer.post_to_pod(namespace, name, hook.port, hook.path)
    except PortError as error:
        return _unanswered(work, one, error)
    return None


def _unanswered(work: Work, one: Save, error: PortError) -> Failed | None:
    """Whether the pod heard it is what counts: it is asked again only when it certainly did not."""
    if error.status == THROTTLED or (error.status is None and error.reason in NEVER_SENT):
        _write(work, one.workload, state=State.TODO, message=str(error)[:300])
        return None
    if not _said_no(error):
        if error.status == CONFLICT:
            _write(work, one.workload, going_on=None, folded=True)  # that is the one that it will have made
        return None
    _write(work, one.workload, entry="refused-to-save", state=State.REFUSED, message=str(error)[:300])
    return _in_vain(work, (one,))


def _said_no(error: PortError) -> bool:
    """Whether the pod, or whoever guards it, has refused. What the API server says of troubles of its own is no answer of the
    pod: it may have passed the request on before."""
    if error.status is None:
        return not error.retryable
    return error.status not in MAY_HAVE_HEARD and (error.status < 500 or error.reason == OWN)


def _see(work: Work, one: Save, told: Mapping[str, Any]) -> None:
    """Whether a complete checkpoint is there that was not when it was asked for. A save that went on already holds an older
    state: once it is complete, another one is waited for."""
    seen = work.site.look(one.training, work.now())
    found = _mark(work, one, seen)
    if found is None or not _newer(found, told):
        return
    if _went_on(found, told.get("going_on")):
        before: dict[str, Any] = {"before_step": found.step, "before_at": found.at, "before_shelf": found.shelf}
        _write(work, one.workload, **before, going_on=None)
        return
    told = {"saved_step": found.step, "saved_at": found.at, "state_at": found.state_at, "uri": found.uri}
    _write(work, one.workload, state=State.SAVED, saved_read=found.heard_at is None, **told)


def _readable(work: Work, one: Save, seen: Freshness) -> bool:
    return seen.read or _trusted(work, one)


def _trusted(work: Work, one: Save) -> bool:
    """Whether the site takes this workload's own word for it."""
    return one.workload in work.site.policy.checkpoints.reported


def _mark(work: Work, one: Save, seen: Freshness) -> Mark | None:
    """A store that was read counts; a report only where none can be, and policy trusts it."""
    if seen.read:
        best = last_saves.newest(seen)
        return Mark(best.at, best.step, best.uri, None, best.lost_since_at, seen.shelf) if best else None
    if _trusted(work, one) and seen.report is not None:
        said = seen.report
        return Mark(said.at, said.step, said.uri, said.received_at, seen.reported_since_at)
    return None


def _newer(found: Mark, told: Mapping[str, Any]) -> bool:
    """Committed later than the newest one when it was asked for, both dated by the same clock, and of no lower step: an old one
    under another name is no save. Nor is what another directory holds, where others may save."""
    if found.heard_at is not None and found.heard_at < told["asked_at"]:
        return False  # said before it was asked, and heard of only now
    if told.get("before_read", found.heard_at is None) != (found.heard_at is None):
        return found.at > float(told["asked_at"]) + CLOCKS_S  # what there was then, nobody could see
    step, at = told.get("before_step"), told.get("before_at")
    if at is None:
        return True
    if told.get("before_shelf", found.shelf) != found.shelf:
        return False
    lower = found.step is not None and step is not None and found.step < step
    return not lower and found.at > float(at)


def _went_on(found: Mark, save: Mapping[str, Any] | None) -> bool:
    """Whether this is the save that went on when it was asked for another."""
    if save is None:
        return False
    if save["step"] is not None and found.step is not None:
        return bool(save["step"] == found.step)
    return bool(found.uri.rpartition("/")[2] == save["path"].rpartition("/")[2])
