"""The steps of an action but evicting: cordon, release, reboot, verify, uncordon, prove.

Owns how each is done once more without harm after a crash, and what counts as its evidence. Must not know the order of steps.
Before each request the facts that it stands on are read again: a node is changed only as it was read.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import structlog

from fleet.act import VIGIE, plan_of, tell
from fleet.act.claims import Claim
from fleet.act.collect import machine
from fleet.act.sites import Site
from fleet.domain import capacity, draining
from fleet.domain.actions import ACTIONS, CORDON_REASON, CORDONED, CORDONED_AT, REBOOT, cordoned_by, where_of
from fleet.domain.objects import DaemonSet, Deployment, Job, JobStatus, Node, Object, ReplicaSet, StatefulSet
from fleet.domain.plans import LaneState, PodLoss
from fleet.domain.specs import FullPod
from fleet.models import Action, ActionStep
from fleet.ports import PortError

log = structlog.get_logger(__name__)

CONFLICT_S = 0.3  # a node changes under our hands about as often as its kubelet reports
LOOK_S = 2.0
REBOOT_LOOK_S = 5.0
WITHDRAWALS = 5  # tries at once, when the node changes under our hands
WELL = frozenset({"ok", "app-fault"})
NOTES = (CORDONED, CORDON_REASON, CORDONED_AT, REBOOT)  # what an uncordon takes away


@dataclass(frozen=True)
class Done:
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Skipped:
    """Nothing had to be done; the evidence says why."""

    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wait:
    """Not yet: look again after so many seconds."""

    after_s: float
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """It will not be. `why`: a token."""

    why: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


Outcome = Done | Skipped | Wait | Failed


@dataclass(frozen=True)
class Work:
    """One try of one step."""

    site: Site
    action: Action
    step: ActionStep
    claim: Claim
    now: Callable[[], float]
    stopping: threading.Event

    @property
    def late(self) -> bool:
        """Whether the step's deadline has passed, after an outage perhaps: what was confirmed for then is not done now."""
        return self.step.deadline_at is not None and self.now() >= self.step.deadline_at

    def waived(self, check: str, reason: str = "") -> bool:
        """Whether a block was lifted when this was confirmed, for that very reason if it is named."""
        lifted = any(waiver["check"] == check for waiver in self.action.waivers)
        return lifted and (not reason or any((c.key, c.reason) == (check, reason) for c in plan_of(self.action).blocks))

    def node(self) -> Node | None:
        """The target as it is now; None when it is gone, or another node has its name."""
        found = self.site.changer.read_node(self.action.target)
        return found if found is not None and found.metadata.uid == self.action.target_uid else None

    def told_to_stop(self) -> bool:
        """Whether somebody has asked this action, or this process, to stop."""
        self.action.refresh_from_db(fields=["stop_at"])
        return self.action.stop_at is not None or self.stopping.is_set()

    def change(self, node: Node, annotations: Mapping[str, str | None], *, unschedulable: bool | None) -> Node | None:
        """None when somebody else has changed it since it was read, or when it is too late: read again before trying again."""
        return None if self.late else self.undo(node, annotations, unschedulable=unschedulable)

    def undo(
        self, node: Node, annotations: Mapping[str, str | None], *, unschedulable: bool | None = None
    ) -> Node | None:
        """As `change`, however late it is."""
        self.claim.check()
        try:
            return self.site.changer.change_node(node, unschedulable=unschedulable, annotations=annotations)
        except PortError as error:
            if error.status == 409:
                return None
            raise


GONE = Failed("node-gone")


def ours(work: Work, node: Node) -> bool:
    """Whether this action's own cordon closes the node."""
    return cordoned_by(node) == work.action.name


def frozen(work: Work, node: Node) -> Failed | None:
    """A freeze that began since the confirmation ends what has not been done yet, unless it was waived."""
    pool, now = where_of(node)[0], work.now()
    freeze = work.site.policy.frozen(pool, now)
    if freeze is None or work.waived(f"window:{work.action.target}", "frozen"):
        return None
    return Failed("frozen", {"why_frozen": freeze.reason})


def newcomers(work: Work, pods: Iterable[FullPod]) -> list[str]:
    """Those of `pods` that a drain would have to move, whatever brought them here: nobody has planned for them."""
    running = [pod for pod in pods if not capacity.finished(pod)]
    if not running:
        return []
    accepted = draining.Options(empty_dir=True, unmanaged=True)
    found = draining.select(running, work.site.changer.read_daemon_sets(), accepted, work.now())
    return sorted(pod.key for pod in found.evict)


def cordon(work: Work) -> Outcome:
    """Close the node with our name, reason and time on it. A node that somebody else has closed stays theirs."""
    node = work.node()
    if node is None:
        return GONE
    # Closing a node is how somebody makes things safe, in a freeze too; it is emptying it that a freeze forbids.
    if ACTIONS[work.action.kind].empties and (stopped := frozen(work, node)):
        return stopped
    if node.spec.unschedulable:
        return Done({"foreign": not ours(work, node), "by": node.metadata.annotations.get(CORDONED, "")})
    notes = {
        CORDONED: work.action.name,
        CORDON_REASON: work.action.reason,
        CORDONED_AT: f"{work.now():.0f}",
    }
    changed = work.change(node, notes, unschedulable=True)
    return Wait(CONFLICT_S) if changed is None else Done({"foreign": False})


def uncordon(work: Work) -> Outcome:
    """Open the node again, only if the cordon is this action's own; an action that is nothing but an uncordon opens what its
    guard has let it open."""
    node = work.node()
    if node is None:
        return GONE
    if not node.spec.unschedulable:
        return Skipped({"already": "open"})
    if work.action.kind == "uncordon" and not (cordoned_by(node) or work.waived(f"cordon-owner:{work.action.target}")):
        return Failed("foreign")  # closed by somebody else since it was confirmed
    if work.action.kind != "uncordon" and not ours(work, node):
        return Skipped({"foreign": True, "by": node.metadata.annotations.get(CORDONED, "")})
    changed = work.change(node, dict.fromkeys(NOTES), unschedulable=False)
    return Wait(CONFLICT_S) if changed is None else Done()


def release(work: Work) -> Outcome:
    """No process is left on the node's GPUs, says a reading that is younger than the last pod's end. A node that was measured
    when this was planned is waited for: that the picture is away for a moment proves nothing."""
    found = machine(work.site.snapshot(), work.action.target)
    if not found.measured and work.step.facts.get("gpus") is None:
        return Skipped({"measured": False})
    last_gone = max((lane.gone_at or 0.0 for lane in work.action.lanes.all()), default=0.0)
    if found.silent or found.read_at is None or found.read_at <= max(last_gone, work.step.started_at or 0.0):
        _note_returns(work)
        return Wait(LOOK_S, {"read_at": found.read_at})
    if found.in_use is None:
        return Skipped({"measured": True, "processes": None})
    if not found.in_use:
        return Done({"processes": 0})
    _note_returns(work)
    return Wait(LOOK_S, {"processes": found.in_use})


def reboot(work: Work) -> Outcome:
    """Ask whoever owns machines for a reboot by an annotation, once, and wait for another boot id than when it was asked for.
    Reminded of from time to time; taken back when it has come, so that nobody reboots the node again."""
    node = work.node()
    if node is None:
        return GONE
    asked, before, boot = _asked(work, node), work.step.evidence.get("boot_before"), node.status.node_info.boot_id
    if asked and before and boot and boot != before:
        standing = node.metadata.annotations.get(REBOOT) == work.action.name
        done = not standing or work.undo(node, {REBOOT: None}) is not None
        return Done({"boot_id": boot}) if done else Wait(CONFLICT_S)
    if not node.spec.unschedulable:
        return Failed("uncordoned", {"by": "somebody else"})
    if not asked:
        return _ask(work, node)
    _remind(work)
    _note_returns(work)
    return Wait(REBOOT_LOOK_S)


def _asked(work: Work, node: Node) -> bool:
    """Whether the request was written; whoever follows it may have taken it away already."""
    return "asked_at" in work.step.evidence or node.metadata.annotations.get(REBOOT) == work.action.name


def _ask(work: Work, node: Node) -> Outcome:
    """Only for an empty node: a reboot ends whatever has come since the drain."""
    if stopped := frozen(work, node):
        return stopped
    if new := newcomers(work, work.site.changer.read_pods(work.action.target)):
        return Failed("new-pods", {"new": new})
    work.step.evidence = {**work.step.evidence, "boot_before": node.status.node_info.boot_id}
    work.step.save(update_fields=["evidence"])
    changed = work.change(node, {REBOOT: work.action.name}, unschedulable=None)
    return Wait(CONFLICT_S) if changed is None else Wait(REBOOT_LOOK_S, {"asked_at": work.now()})


def _remind(work: Work) -> None:
    every_s, at = work.site.policy.deadlines.remind_s, work.now()
    last = float(work.step.evidence.get("reminded_at") or work.step.started_at or at)
    if at - last >= every_s:
        work.step.evidence = {**work.step.evidence, "reminded_at": at}
        tell(work.action, VIGIE, "reboot-reminder", at, waiting_s=at - (work.step.started_at or at))


def withdraw_reboot(work: Work) -> dict[str, Any]:
    """Take the request back, if nobody has acted on it yet; a machine that is rebooting already cannot be stopped."""
    try:
        for _ in range(WITHDRAWALS):
            node = work.node()
            if node is None or node.metadata.annotations.get(REBOOT) != work.action.name:
                return {}
            if work.undo(node, {REBOOT: None}) is not None:
                return {"reboot_withdrawn": True}
    except PortError as error:
        return {"reboot_withdrawn": False, "message": str(error)[:300]}
    return {"reboot_withdrawn": False}


def reopen(work: Work) -> dict[str, Any]:
    """Open the node again, if this action's own cordon closes it: nobody had to go."""
    try:
        for _ in range(WITHDRAWALS):
            node = work.node()
            if node is None or not node.spec.unschedulable or not ours(work, node):
                return {}
            if work.undo(node, dict.fromkeys(NOTES), unschedulable=False) is not None:
                return {"reopened": True}
    except PortError as error:
        return {"reopened": False, "message": str(error)[:300]}
    return {"reopened": False}


def verify(work: Work) -> Outcome:
    """The node is Ready, all its GPUs are back and well by readings younger than the reboot, and the driver is the one before."""
    node = work.node()
    if node is None:
        return GONE
    missing: dict[str, Any] = {}
    if capacity.ready_status(node) != "True":
        missing["ready"] = capacity.ready_status(node)
    missing |= _gpus_missing(work)
    driver = node.metadata.labels.get("nvidia.com/cuda.driver-version.full", "")
    if work.step.facts.get("driver") and driver != work.step.facts["driver"]:
        missing["driver"] = driver or None
    if missing:
        _note_returns(work)
        return Wait(LOOK_S, {"missing": missing})
    return Done({"missing": {}, "gpus": work.step.facts.get("gpus"), "driver": driver})


def _gpus_missing(work: Work) -> dict[str, Any]:
    found = machine(work.site.snapshot(), work.action.target)
    wanted = work.step.facts.get("gpus")
    if not found.measured and wanted is None:
        return {}  # nothing ever measured this node: Kubernetes' own word has to do
    missing: dict[str, Any] = {}
    if found.read_at is None or found.silent or found.read_at <= (work.step.started_at or 0.0):
        missing["reading"] = found.read_at
    if wanted is not None and found.gpus != wanted:
        missing["gpus"] = found.gpus
    if found.troubles:
        missing["troubles"] = [list(trouble) for trouble in found.troubles]
    return missing


def prove(work: Work) -> Outcome:
    """Every evicted pod's workload has a Ready pod again for each that went, now that all is over. A pod that nothing brings back
    stays gone, and so does one whose workload we cannot look at; a job that the eviction has ended for good is a failure."""
    left, lost = _returns(work)
    if left:
        return Wait(LOOK_S, {"not_back": left})
    back = sum(lane.state == LaneState.REPLACED for lane in work.action.lanes.all())
    return Failed("workload-failed", {"lost": lost}) if lost else Done({"back": back, "not_back": 0})


def _note_returns(work: Work) -> None:
    """Note pods that are back while the machine is waited for, which may take hours. Nothing depends on it: a look that fails is
    taken again."""
    if not work.action.lanes.filter(state=LaneState.GONE).exists():
        return
    try:
        _returns(work)
    except PortError as error:
        log.info("no look at pods that are back", action=work.action.name, error=str(error)[:300])


def _returns(work: Work) -> tuple[int, list[str]]:
    """How many evicted pods are not back, and which never will be. When one was first seen back is kept."""
    planned = {f"{pod.namespace}/{pod.name}": pod for pod in plan_of(work.action).loss.pods if pod.evicted}
    went = [lane for lane in work.action.lanes.all() if lane.state in {LaneState.GONE, LaneState.REPLACED}]
    crews = _crews(work) if went else {}
    left, lost = 0, []
    for lane in went:
        match _back(planned[f"{lane.namespace}/{lane.name}"], crews):
            case Back.YES if lane.state == LaneState.GONE:
                lane.state, lane.replaced_at = LaneState.REPLACED, work.now()
                lane.save(update_fields=["state", "replaced_at"])
            case Back.NOT_YET:
                left += 1
            case Back.NEVER:
                lost.append(f"{lane.namespace}/{lane.name}")
    return left, lost


class Back(StrEnum):
    """Whether a workload has its pod back."""

    YES = "yes"
    NOT_YET = "not-yet"
    NEVER = "never"  # its job has failed: nobody starts it again
    NOTHING = "nothing"  # it had no controller, one that wants no pod any more, or one of a kind that we cannot look at


@dataclass(frozen=True)
class Crew:
    """Pods of one workload. An autoscaler may want fewer than there were."""

    ready: int
    wanted: int


def _crews(work: Work) -> dict[str, Crew | Back]:
    """By "Kind/namespace/name"; of a job that has ended, what became of it."""
    found: dict[str, Crew | Back] = {}
    for controller in work.site.changer.read_controllers():
        meta, status = controller.metadata, getattr(controller, "status", None)
        key = f"{type(controller).__name__}/{meta.namespace}/{meta.name}"
        ended = {c.type for c in status.conditions if c.status == "True"} if isinstance(status, JobStatus) else set()
        if "Failed" in ended:
            found[key] = Back.NEVER
        elif "Complete" in ended:
            found[key] = Back.NOTHING
        else:
            found[key] = _crew(controller)
    return found


def _crew(controller: Object) -> Crew:
    match controller:
        case DaemonSet(status=status):
            return Crew(status.number_ready, status.desired_number_scheduled)
        case Job(spec=spec, status=status):
            return Crew(status.ready, spec.parallelism)
        case Deployment(spec=spec, status=status) | ReplicaSet(spec=spec, status=status):
            return Crew(status.ready_replicas, spec.replicas)
        case StatefulSet(spec=spec, status=status):
            return Crew(status.ready_replicas, spec.replicas)
    raise TypeError(controller)


def _back(pod: PodLoss, crews: Mapping[str, Crew | Back]) -> Back:
    crew = crews.get(f"{pod.owner_kind}/{pod.namespace}/{pod.owner_name}", Back.NOTHING)
    if isinstance(crew, Back):
        return crew
    if crew.wanted == 0:
        return Back.NOTHING
    return Back.YES if crew.ready >= min(pod.available or 0, crew.wanted) else Back.NOT_YET
