"""The steps of an action but evicting: cordon, release, reboot, verify, uncordon, prove.

Owns how each is done once more without harm after a crash, and what counts as its evidence. Must not know the order of steps.
Before each request the facts that it stands on are read again: a node is changed only as it was read.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.act import VIGIE, tell
from fleet.act.claims import Claim
from fleet.act.collect import machine
from fleet.act.sites import Site
from fleet.domain import capacity
from fleet.domain.actions import CORDON_REASON, CORDONED, CORDONED_AT, REBOOT, where_of
from fleet.domain.objects import Node
from fleet.domain.plans import LaneState
from fleet.models import Action, ActionStep
from fleet.ports import PortError

CONFLICT_S = 0.3  # a node changes under our hands about as often as its kubelet reports
LOOK_S = 2.0
REBOOT_LOOK_S = 5.0
WELL = frozenset({"ok", "app-fault"})


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

    def node(self) -> Node | None:
        """The target as it is now; None when it is gone, or another node has its name."""
        found = self.site.changer.read_node(self.action.target)
        return found if found is not None and found.metadata.uid == self.action.target_uid else None

    def change(self, node: Node, annotations: Mapping[str, str | None], *, unschedulable: bool | None) -> Node | None:
        """None when somebody else has changed it since it was read: read again before trying again."""
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
    return node.spec.unschedulable and node.metadata.annotations.get(CORDONED) == work.action.name


def frozen(work: Work, node: Node) -> Failed | None:
    """A freeze that began since the confirmation ends what has not been done yet, unless it was waived."""
    pool, now = where_of(node)[0], work.now()
    freeze = work.site.policy.frozen(pool, now)
    waived = any(waiver["check"].startswith("window:") for waiver in work.action.waivers)
    return Failed("frozen", {"why_frozen": freeze.reason}) if freeze and not waived else None


def cordon(work: Work) -> Outcome:
    """Close the node with our name, reason and time on it. A node that somebody else has closed stays theirs."""
    node = work.node()
    if node is None:
        return GONE
    if stopped := frozen(work, node):
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
    if work.action.kind != "uncordon" and not ours(work, node):
        return Skipped({"foreign": True, "by": node.metadata.annotations.get(CORDONED, "")})
    notes: dict[str, str | None] = dict.fromkeys((CORDONED, CORDON_REASON, CORDONED_AT, REBOOT))
    changed = work.change(node, notes, unschedulable=False)
    return Wait(CONFLICT_S) if changed is None else Done()


def release(work: Work) -> Outcome:
    """No process is left on the node's GPUs, says a reading that is younger than the last pod's end. A node that was measured when
    this was planned is waited for: that the picture is away for a moment proves nothing."""
    found = machine(work.site.snapshot(), work.action.target)
    if not found.measured and work.step.facts.get("gpus") is None:
        return Skipped({"measured": False})
    last_gone = max((lane.gone_at or 0.0 for lane in work.action.lanes.all()), default=0.0)
    if found.silent or found.read_at is None or found.read_at <= max(last_gone, work.step.started_at or 0.0):
        return Wait(LOOK_S, {"read_at": found.read_at})
    if found.in_use is None:
        return Skipped({"measured": True, "processes": None})
    return Done({"processes": 0}) if not found.in_use else Wait(LOOK_S, {"processes": found.in_use})


def reboot(work: Work) -> Outcome:
    """Ask whoever owns machines for a reboot by an annotation, and wait for another boot id. Reminded of from time to time."""
    node = work.node()
    if node is None:
        return GONE
    before, boot = work.step.facts.get("boot_id"), node.status.node_info.boot_id
    if before and boot and boot != before:
        return Done({"boot_id": boot})
    if not node.spec.unschedulable:
        return Failed("uncordoned", {"by": "somebody else"})
    if node.metadata.annotations.get(REBOOT) != work.action.name:
        if stopped := frozen(work, node):
            return stopped
        changed = work.change(node, {REBOOT: work.action.name}, unschedulable=None)
        return Wait(CONFLICT_S if changed is None else REBOOT_LOOK_S, {"asked_at": work.now()})
    _remind(work)
    return Wait(REBOOT_LOOK_S)


def _remind(work: Work) -> None:
    every_s, at = work.site.policy.deadlines.remind_s, work.now()
    last = float(work.step.evidence.get("reminded_at") or work.step.started_at or at)
    if at - last >= every_s:
        work.step.evidence = {**work.step.evidence, "reminded_at": at}
        tell(work.action, VIGIE, "reboot-reminder", at, waiting_s=at - (work.step.started_at or at))


def withdraw_reboot(work: Work) -> dict[str, Any]:
    """Take the request back, if nobody has acted on it yet; a machine that is rebooting already cannot be stopped."""
    try:
        node = work.node()
        if node is None or node.metadata.annotations.get(REBOOT) != work.action.name:
            return {}
        done = work.change(node, {REBOOT: None}, unschedulable=None) is not None
    except PortError as error:
        return {"reboot_withdrawn": False, "message": str(error)[:300]}
    return {"reboot_withdrawn": done}


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
    """Every evicted pod's workload has a Ready pod again for each that went."""
    owners = {f"{pod.namespace}/{pod.name}": pod for pod in _evicted(work)}
    waiting = [lane for lane in work.action.lanes.all() if lane.state == LaneState.GONE]
    if not waiting:
        return Done({"back": sum(lane.state == LaneState.REPLACED for lane in work.action.lanes.all())})
    ready = _ready_by_owner(work)
    for lane in waiting:
        pod = owners[f"{lane.namespace}/{lane.name}"]
        if _is_back(pod, ready):
            lane.state, lane.replaced_at = LaneState.REPLACED, work.now()
            lane.save(update_fields=["state", "replaced_at"])
    left = sum(lane.state == LaneState.GONE for lane in waiting)
    return Wait(LOOK_S, {"not_back": left}) if left else Done({"back": len(work.action.lanes.all()), "not_back": 0})


def _evicted(work: Work) -> list[Any]:
    from fleet.act import plan_of

    return [pod for pod in plan_of(work.action).loss.pods if pod.evicted]


def _ready_by_owner(work: Work) -> dict[str, int | None]:
    """Ready pods by "Kind/namespace/name"; None: the controller is finished and wants none."""
    found: dict[str, int | None] = {}
    for controller in work.site.changer.read_controllers():
        meta, kind = controller.metadata, type(controller).__name__
        status: Any = getattr(controller, "status", None)
        finished = kind == "Job" and any(
            c.type in {"Complete", "Failed"} and c.status == "True" for c in status.conditions
        )
        ready = getattr(status, "ready_replicas", getattr(status, "number_ready", getattr(status, "ready", 0)))
        found[f"{kind}/{meta.namespace}/{meta.name}"] = None if finished else ready
    return found


def _is_back(pod: Any, ready: Mapping[str, int | None]) -> bool:
    """A pod without a controller, or whose controller is gone or finished, has nothing to come back."""
    key = f"{pod.owner_kind}/{pod.namespace}/{pod.owner_name}"
    now = ready.get(key)
    if not pod.owner_kind or key not in ready or now is None:
        return True
    return now >= (pod.available or 0)
