"""How an action ended, and what it cost: planned against actual, pod by pod.

Owns which facts the sentences of an end use. What nobody measured is unknown, never 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.panels import checks, losses, measures, words
from dashboard.panels.lanes import LEVELS
from dashboard.panels.measures import NA, known
from dashboard.panels.patterns import MESSAGES
from dashboard.panels.words import Clock, Text, Value, say
from fleet.domain import plans
from fleet.domain.actions import ACTIONS
from fleet.domain.gpus import Measure
from fleet.domain.losses import largest
from fleet.domain.plans import ActionState, Check, LaneState, Outcome, Plan, PodLoss, StepKind, StepState

TAGS = {
    ActionState.PROPOSED: ("run", "s-wait"),
    ActionState.CONFIRMED: ("drain", "s-drain"),
    ActionState.RUNNING: ("drain", "s-drain"),
    ActionState.SUCCEEDED: ("ok", "s-ok"),
    ActionState.FAILED: ("bad", "s-bad"),
    ActionState.STOPPED: ("warn", "s-warn"),
    ActionState.REFUSED: ("off", "s-off"),
    ActionState.EXPIRED: ("off", "i-clock"),
}
GOING = {LaneState.ASKED, LaneState.ACCEPTED, LaneState.TERMINATING}
WRITES = (StepKind.CHANGE, StepKind.SWITCH, StepKind.CREATE)
LEFT_OPEN = {StepState.FAILED, StepState.UNDONE}


@dataclass(frozen=True, slots=True)
class Promise:
    """One row of promise and proof. `level`: ok when what came is no more than what was promised, "" when nobody knows."""

    name: str
    plan: Value
    actual: Value
    level: str = ""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What became of one pod."""

    key: str
    name: str
    owner: Text
    level: str
    glyph: str
    word: Text
    gone_after: Value
    back_after: Value
    nil: bool


def headline(action: Any) -> Text:
    if action.state == ActionState.SUCCEEDED:
        return say(f"act.done.{action.kind}", node=action.target)
    if action.state in plans.ENDED:
        return say(f"act.do.{action.kind}", node=action.target)
    return say(f"act.doing.{action.kind}", node=action.target)


def tag(action: Any) -> tuple[str, str, Text]:
    """Somebody who was faster has not withdrawn anything."""
    level, glyph = TAGS[ActionState(action.state)]
    state, cause = f"act.state.{action.state}", f"act.state.{action.state}.{action.outcome.get('why', '')}"
    return level, glyph, say(cause if cause in MESSAGES else state)


def sentences(action: Any, steps: Sequence[Any], rows: Sequence[Any]) -> list[Text]:
    """Why it ended so, and in which condition it leaves the node."""
    return [part for part in (why(action), *_left(action, steps, rows), _took(action)) if part]


def why(action: Any) -> Text:
    """One sentence for every end. A token of another version is shown as it is."""
    found: Mapping[str, Any] = action.outcome
    token = found.get("why") or (action.kind if action.state == ActionState.SUCCEEDED else "")
    key = f"act.end.{action.state}.{token}"
    if f"{key}.unknown" in MESSAGES and not found.get("by"):
        key = f"{key}.unknown"
    if key not in MESSAGES:
        return str(token)
    return say(
        key,
        step=say(f"act.step.{found['step']}") if found.get("step") else "",
        by=str(found.get("by", "")),
        message=str(found.get("message", "")),
        refused=", ".join(found.get("refused", ())),
        new=", ".join(found.get("new", ())),
        lost=", ".join(found.get("lost", ())),
        awaited=", ".join(found.get("awaited", ())),
        workload=str(found.get("workload", "")),
        pod=str(found.get("pod", "")),
        cluster=str(found.get("cluster", "")),
        braked=_braked(found.get("checks", ())),
    )


def _braked(found: Iterable[Mapping[str, Any]]) -> str:
    """What spoke against going on, in the guards' own sentences."""
    told = [
        Check(one["guard"], Outcome.BLOCK, one["reason"], one["subject"], tuple(one["evidence"].items()))
        for one in found
    ]
    return ", ".join(words.plain(checks.title(check), 0.0) for check in told)


def _left(action: Any, steps: Sequence[Any], rows: Sequence[Any]) -> tuple[Text, ...]:
    """The condition of the node, workload or Service after an end that is not the planned one."""
    if action.state not in {ActionState.FAILED, ActionState.STOPPED}:
        return ()
    done = {step.kind: step for step in steps if step.state in {StepState.DONE, StepState.SKIPPED}}
    told: list[Text] = []
    cordoned = done.get(StepKind.CORDON)
    if (reopened := action.outcome.get("reopened")) is not None:
        told.append(say("act.left.reopened" if reopened else "act.left.not-reopened"))
    elif cordoned is not None and StepKind.UNCORDON not in done and action.outcome.get("why") != "uncordoned":
        told.append(say("act.left.foreign" if cordoned.evidence.get("foreign") else "act.left.cordoned"))
    if (withdrawn := action.outcome.get("reboot_withdrawn")) is not None:
        told.append(say("act.left.reboot-withdrawn" if withdrawn else "act.left.reboot-may-come"))
    told += _written(action, steps)
    going = sum(row.state in GOING for row in rows)
    return (*told, say("act.left.going", n=going)) if going else tuple(told)


def _written(action: Any, steps: Sequence[Any]) -> list[Text]:
    """What a release leaves in the cluster: what was written stays, and of what nobody answered it is not known."""
    found = [step for step in steps if step.kind in WRITES]
    last = next((step for step in reversed(found) if step.state == StepState.DONE), None)
    told: list[Text] = [
        say("act.left.unanswered") for step in found if step.state in LEFT_OPEN and step.evidence.get("trouble")
    ]
    if last is not None and action.outcome.get("why") != "overwritten":
        told.append(say(f"act.left.{last.kind}"))
    return told


def _took(action: Any) -> Text:
    if action.started_at is None or action.ended_at is None:
        return ""
    took = measures.duration(action.ended_at - action.started_at)
    return say("act.took", took_s=took, from_at=Clock(action.started_at), to_at=Clock(action.ended_at))


def promises(action: Any, plan: Plan, rows: Sequence[Any], steps: Iterable[Any] = ()) -> list[Promise]:
    """Planned against so far. What a pod loses counts when it is gone; requests that were cut off have no source."""
    if not ACTIONS[action.kind].empties:
        return []
    gone = {row.uid for row in rows if row.gone_at is not None}
    went = [pod for pod in plan.loss.pods if pod.uid in gone]
    back = sum(row.replaced_at is not None for row in rows)
    return [
        Promise("pods", len(rows), len(gone), "ok"),
        Promise("back", len(rows), back, "ok" if back == len(rows) else ""),
        _promise("work", plan.loss.work_s, _work(plan, rows, steps), measures.duration),
        _promise("scratch", plan.loss.scratch_bytes, _scratch(went), measures.size),
        _requests(plan, went),
    ]


def _work(plan: Plan, rows: Iterable[Any], steps: Iterable[Any]) -> Measure:
    """Each job once: what it did from the state that it goes on from until its pod was gone, by the look right before it,
    else by what it has saved first, else as it was shown."""
    told = {name: one for step in steps for name, one in (step.evidence.get("workloads") or {}).items()}
    state_at = {
        uid: told[save.workload].get("state_at") for save in plan.saves if save.workload in told for uid in save.pods
    }
    rows = list(rows)
    state_at |= {row.uid: since for row in rows if (since := row.facts.get("lost_since_at")) is not None}
    gone_at = {row.uid: row.gone_at for row in rows if row.gone_at is not None}
    jobs: dict[tuple[str, ...], list[Measure]] = {}
    for pod in plan.loss.pods:
        if pod.uid in gone_at and pod.training:
            since = state_at.get(pod.uid)
            work_s = pod.work_s if since is None else max(0.0, gone_at[pod.uid] - since)
            jobs.setdefault((pod.owner_kind, pod.namespace, pod.owner_name or pod.name), []).append(work_s)
    return plans.total(largest(values) for values in jobs.values())


def _scratch(pods: Iterable[PodLoss]) -> Measure:
    return plans.total(volume.used_bytes for pod in pods for volume in pod.scratch)


def _promise(name: str, planned: Measure, actual: Measure, told: Any) -> Promise:
    return Promise(name, _told(planned, told), _told(actual, told), "ok" if _within(actual, planned) else "")


def _within(actual: Measure, planned: Measure) -> bool:
    """Nothing is within everything; a number only within a number; unknown within nothing."""
    return actual in {NA, 0} or (known(actual) and known(planned) and actual <= planned)


def _requests(plan: Plan, went: Sequence[PodLoss]) -> Promise:
    serving = any(pod.requests != NA for pod in went)
    return Promise(
        "requests",
        _told(plan.loss.requests, round),
        None if serving else say("act.loss.none"),
        "" if serving else "ok",
    )


def _told(measure: Measure, told: Any) -> Value:
    if measure in {NA, 0}:
        return say("act.loss.none")
    value: Value = told(measure) if measure is not None else None
    return value


def recoveries(rows: Iterable[Any], plan: Plan) -> list[Recovery]:
    pods = {pod.uid: pod for pod in plan.loss.pods}
    return [_recovery(row, pods[row.uid]) for row in rows]


def _recovery(row: Any, pod: PodLoss) -> Recovery:
    level, glyph = LEVELS[row.state]
    word = f"act.lane.{row.state}"
    if row.state == LaneState.FAILED and row.reason:
        word += f".{row.reason}"
    return Recovery(
        row.uid,
        f"{row.namespace}/{row.name}",
        losses.owner(pod),
        level,
        glyph,
        say(word),
        _after(row.accepted_at, row.gone_at),
        _after(row.gone_at, row.replaced_at),
        row.gone_at is None,
    )


def _after(begin: float | None, end: float | None) -> Value:
    if begin is None or end is None:
        return "–"
    return measures.duration(end - begin)


def cost(action: Any) -> tuple[Text, Text]:
    """Planned and actual loss in a few words, for the list of actions."""
    kind, found = ACTIONS[action.kind], action.outcome
    if not (kind.empties or kind.ends):
        return say("act.planned.light"), ""
    planned = losses.lost(_loss(action.plan["loss"]))
    unknown = None in (action.plan["loss"].get(name, 0) for name in ("work_s", "requests", "scratch_bytes"))
    told: Text = (planned, say("act.planned.unknown")) if unknown else planned
    evicted = found.get("evicted")
    if evicted is None or not kind.empties:  # what a controller ends, nobody counts
        return told or say("act.planned.light"), ""
    slowest = found.get("slowest_replacement_s")
    back = say("act.lost.slowest", back_s=measures.duration(slowest)) if known(slowest) else ""
    actual = (say("act.lost.evicted", n=evicted), back) if evicted else say("act.lost.none")
    return told or say("act.planned.light"), actual


def _loss(found: Mapping[str, Any]) -> plans.Loss:
    """The sums alone: a page of actions does not decode every pod of every plan."""
    return plans.Loss(
        work_s=found.get("work_s"), requests=found.get("requests"), scratch_bytes=found.get("scratch_bytes")
    )
