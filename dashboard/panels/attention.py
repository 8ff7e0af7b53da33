"""The attention list: one entry per problem, with cause, evidence, age and where to go next.

Owns which facts of an attention row its sentences use. Must not decide what needs attention: the domain does.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.panels.checkpoint_patterns import OF_CHECKPOINTS, TROUBLES
from dashboard.panels.fleet import GLYPHS
from dashboard.panels.gpu_concern_patterns import GPUS, WHOLE
from dashboard.panels.gpus import rule
from dashboard.panels.order import natural
from dashboard.panels.words import Age, Clock, Text, say
from fleet.domain.attention import Concern
from fleet.domain.kube import Kind
from fleet.domain.picture import AttentionRow
from fleet.domain.truth import FORBIDDEN, SERVER

# What is to be done about a node, where that is the next action about its GPUs.
DOES = {"drain-and-reset": "drain", "contact-support": "drain", "reset-bus": "maintain", "reboot-node": "maintain"}
PAGES = {
    "pods-waiting": "waiting",
    "workload-short": "workloads",
    "workload-starting": "workloads",
}

HELD_UP = frozenset({Concern.ROLLOUT_HELD, Concern.PODS_HELD_UP})
OF_ROLLOUTS = HELD_UP | {Concern.WORKLOAD_SHORT, Concern.WORKLOAD_STARTING}
ROLLED = frozenset({"Deployment", "StatefulSet", "DaemonSet"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One problem. `since_at` is None when nobody knows since when."""

    key: str
    level: str
    glyph: str
    title: Text
    evidence: Text
    since_at: float | None = None
    node: str = ""
    action: Text = ""
    page: str = ""  # where the action leads when no node is named: the name of an address
    rollout: str = ""  # the workload whose rollout it leads to, before any page
    training: str = ""  # the workload whose checkpoints it leads to, before any page
    does: str = ""  # the kind of action that comes next, for whoever may: asked for instead of opening the node


def entries(rows: Mapping[str, AttentionRow], trouble: Iterable[tuple[str, str, float]] = ()) -> list[Entry]:
    """Most urgent first; streams that are broken come before what they may hide."""
    return streams(list(trouble)) + [
        entry(key, row) for key, row in sorted(rows.items(), key=lambda item: urgency(item[1]))
    ]


def urgency(row: AttentionRow) -> tuple[int, float, Any]:
    since = float("inf") if row.since_at is None else row.since_at
    return (row.rank, since, natural(row.subject))


def entry(key: str, row: AttentionRow) -> Entry:
    facts, page = dict(row.facts), PAGES.get(row.kind, "")
    rollout = row.subject if row.kind in OF_ROLLOUTS and row.subject.split("/")[0] in ROLLED else ""
    training = row.subject if row.kind in OF_CHECKPOINTS else ""
    leads = row.node or _name(rollout or training)
    return Entry(
        key=key,
        level=row.level,
        glyph=GLYPHS.get(row.level, "s-info"),
        title=title(row, facts),
        evidence=evidence(row, facts),
        since_at=row.since_at,
        node=row.node,
        action=say("attention.open", node=leads) if leads else say(f"attention.open-{page}") if page else "",
        page=page,
        rollout=rollout,
        training=training,
        does=DOES.get(_text(facts, "action"), "") if row.node and "action" in facts else "",
    )


Facts = Mapping[str, str | int | float | None]


def title(row: AttentionRow, facts: Facts) -> Text:
    counts = {
        Concern.GPUS_WITHDRAWN: _count(facts, "withdrawn"),
        Concern.OVER_COMMITTED: _count(facts, "overcommit"),
        Concern.WORKLOAD_SHORT: _count(facts, "desired") - _count(facts, "available"),
        Concern.WORKLOAD_STARTING: _count(facts, "desired") - _count(facts, "available"),
        Concern.PODS_WAITING: _count(facts, "pods"),
    }
    of_gpus = (*map(Concern, GPUS), Concern.GPU_UNHELD_USE, Concern.GPU_IDLE_HELD, Concern.RACK_EVENT)
    counts |= dict.fromkeys(of_gpus, _count(facts, "count"))
    kind = Concern(row.kind)
    if kind is Concern.PODS_WAITING and row.subject.count("/") == 1:
        return say("attention.pod-waiting", name=_name(row.subject))
    if kind is Concern.RACK_EVENT and row.subject.startswith("zone/"):
        return say("attention.zone-event", n=counts[kind], name=_name(row.subject))
    return say(f"attention.{kind}", n=counts.get(kind, 0), node=row.node, name=_name(row.subject))


def evidence(row: AttentionRow, facts: Facts) -> Text:
    return _EVIDENCE[Concern(row.kind)](row, facts)


def _silent(_row: AttentionRow, facts: Facts) -> Text:
    return say("evidence.node-unreachable", held=_held(facts))


def _not_ready(_row: AttentionRow, facts: Facts) -> Text:
    message = _text(facts, "message") or _text(facts, "reason")
    return say("evidence.node-not-ready", message=message.rstrip(".") or None, held=_held(facts))


def _missing(_row: AttentionRow, facts: Facts) -> Text:
    return say("evidence.gpus-missing", gpus=say("gpus", n=_count(facts, "physical")))


def _withdrawn(_row: AttentionRow, facts: Facts) -> Text:
    counts = {"n": _count(facts, "withdrawn"), "capacity": _count(facts, "capacity")}
    return say("evidence.gpus-withdrawn", **counts, resource=_text(facts, "resource"))


def _over_committed(_row: AttentionRow, facts: Facts) -> Text:
    room = _count(facts, "allocatable")
    asked = room + _count(facts, "overcommit")
    return say("evidence.over-committed", asked=asked, room=room, resource=_text(facts, "resource"))


def _tainted(_row: AttentionRow, facts: Facts) -> Text:
    return say("evidence.node-tainted", taint=_text(facts, "taint"), held=_held(facts))


def _claims(_row: AttentionRow, facts: Facts) -> Text:
    return say("evidence.claims", n=_count(facts, "pods"))


def _short(row: AttentionRow, facts: Facts) -> Text:
    counts = {name: _count(facts, name) for name in ("available", "desired", "ready")}
    each = say("evidence.each", gpus=say("gpus", n=_count(facts, "gpus")))
    return say(f"evidence.{row.kind}", **counts, owner=row.subject, each=each)


def _why(facts: Facts) -> Text:
    """All its serious reasons, the most serious first."""
    causes = tuple(say(f"rollouts.cause.{cause}") for cause in _text(facts, "causes").split(",") if cause)
    return (*causes, say("rollouts.late") if _count(facts, "late") else "")


def _held_up(row: AttentionRow, facts: Facts) -> Text:
    """Why, what was seen of the first reason, what still serves, and one way out."""
    counts = {"available": _count(facts, "available"), "desired": _count(facts, "desired")}
    deadline, remedy = facts.get("deadline"), _text(facts, "remedy")
    serving = say("evidence.serving", **counts)
    if isinstance(deadline, int | float):
        serving = say("evidence.serving-until", **counts, time=Clock(deadline))
    way = say(f"evidence.way.{remedy}", place=_text(facts, "place")) if remedy else ""
    return say(f"evidence.{row.kind}", why=_why(facts), seen=_seen(facts), serving=serving, way=way)


def _seen(facts: Facts) -> Text:
    words = _text(facts, "said").rstrip(".")
    if "hole" in facts:
        need, hole = _need(facts), _count(facts, "hole")
        return say("evidence.no-hole", n=_count(facts, "count"), need=need, hole=hole)
    if isinstance(facts.get("code"), int):
        code: Text = str(facts["code"])
        if reason := _text(facts, "reason"):
            code = f"{code} ({reason})"
        return say("evidence.ended", n=_count(facts, "restarts"), container=_text(facts, "container"), code=code)
    return say("evidence.says", words=words) if words else ""


def _need(facts: Facts) -> Text:
    gpus, product = _count(facts, "gpus"), _text(facts, "product")
    return say("gpus.of", n=gpus, product=product) if product else say("gpus", n=gpus)


def _waiting(_row: AttentionRow, facts: Facts) -> Text:
    """A hole that is too small explains itself; otherwise the scheduler's words do."""
    need, hole, pods = _need(facts), _count(facts, "hole"), _count(facts, "pods")
    if hole < _count(facts, "gpus"):
        return say("evidence.pods-waiting", n=pods, need=need, hole=hole)
    reason = _text(facts, "message") or _text(facts, "reason") or None
    return say("evidence.pods-waiting-other", n=pods, need=need, reason=reason)


def _cordoned(_row: AttentionRow, facts: Facts) -> Text:
    by = _text(facts, "by")
    who = say("evidence.by", by=by) if by else say("evidence.by-unknown")
    return say("evidence.cordoned", who=who, closed=say("evidence.closed", n=_count(facts, "free")), held=_held(facts))


def _gpu(row: AttentionRow, facts: Facts) -> Text:
    """Which of the node's GPUs, why, and the one right next action."""
    token, action = _text(facts, "rule"), say(f"action.{_text(facts, 'action')}")
    reason = rule(token) if token else say(f"device.{_text(facts, 'state')}")
    return say(f"evidence.{row.kind}", indices=_text(facts, "indices"), reason=reason, action=action, held=_held(facts))


def _whole(row: AttentionRow, facts: Facts) -> Text:
    """What was seen of the node as a whole, and where to look."""
    found, seen = _text(facts, "evidence").rstrip("."), rule(_text(facts, "rule"))
    if found:
        seen = say("evidence.seen", reason=seen, evidence=found)
    return say(f"evidence.{row.kind}", seen=seen, held=_held(facts))


def _rack(_row: AttentionRow, facts: Facts) -> Text:
    """Which nodes, as far as they fit into a sentence, and what they have in common."""
    names, more = _text(facts, "names"), _count(facts, "more")
    all_names = say("evidence.rack-more", names=names, n=more) if more else names
    gpus = say("gpus", n=_count(facts, "strained"))
    return say("evidence.rack-event", reason=rule(_text(facts, "rule")), gpus=gpus, names=all_names, held=_held(facts))


def _used(row: AttentionRow, facts: Facts) -> Text:
    return say(f"evidence.{row.kind}", indices=_text(facts, "indices"), held=_held(facts))


def _late(row: AttentionRow, facts: Facts) -> Text:
    age = Age(at) if isinstance(at := facts.get("at"), int | float) else None
    return say(f"evidence.{row.kind}", which=_step(facts), age=age, target=_text(facts, "target") or None)


def _nothing_saved(_row: AttentionRow, facts: Facts) -> Text:
    given_up = _count(facts, "abandoned")
    abandoned = say("evidence.checkpoint-abandoned", n=given_up) if given_up else ""
    return say("evidence.checkpoint-none", place=_text(facts, "place"), abandoned=abandoned)


def _broken(_row: AttentionRow, facts: Facts) -> Text:
    """What is wrong with it, and from where a restart could go on."""
    at, step, what = facts.get("older"), facts.get("older-step"), say(f"checkpoint-state.{_text(facts, 'state')}")
    older: Text = say("evidence.checkpoint-nothing-older")
    if isinstance(at, int | float) and isinstance(step, int):
        older = say("evidence.checkpoint-older", step=step, age=Age(at))
    elif isinstance(at, int | float):
        older = say("evidence.checkpoint-older-no-step", age=Age(at))
    return say("evidence.checkpoint-corrupt", which=_step(facts), what=what, file=_text(facts, "file"), older=older)


def _unread(row: AttentionRow, facts: Facts) -> Text:
    trouble = _text(facts, "trouble")
    reason = say(f"checkpoint-trouble.{trouble if trouble in TROUBLES else 'failed'}")
    return say(f"evidence.{row.kind}", place=_text(facts, "place"), reason=reason)


def _skewed(_row: AttentionRow, facts: Facts) -> Text:
    return say("evidence.checkpoint-skew", which=_step(facts), skew=_text(facts, "skew"))


def _step(facts: Facts) -> Text:
    step = facts.get("step")
    return say("evidence.checkpoint-step", step=step) if isinstance(step, int) else say("evidence.checkpoint-no-step")


_EVIDENCE: dict[Concern, Callable[[AttentionRow, Facts], Text]] = {
    Concern.NODE_UNREACHABLE: _silent,
    Concern.NODE_NOT_READY: _not_ready,
    **dict.fromkeys(map(Concern, GPUS), _gpu),
    **dict.fromkeys(map(Concern, WHOLE), _whole),
    Concern.GPU_UNHELD_USE: _used,
    Concern.GPU_IDLE_HELD: _used,
    Concern.RACK_EVENT: _rack,
    Concern.GPUS_MISSING: _missing,
    Concern.GPUS_WITHDRAWN: _withdrawn,
    Concern.OVER_COMMITTED: _over_committed,
    Concern.WORKLOAD_SHORT: _short,
    Concern.PODS_WAITING: _waiting,
    **dict.fromkeys(HELD_UP, _held_up),
    Concern.WORKLOAD_STARTING: _short,
    Concern.NODE_TAINTED: _tainted,
    Concern.CORDONED: _cordoned,
    Concern.CLAIMS: _claims,
    Concern.CHECKPOINT_NONE: _nothing_saved,
    Concern.CHECKPOINT_CRITICAL: _late,
    Concern.CHECKPOINT_STALE: _late,
    Concern.CHECKPOINT_CORRUPT: _broken,
    Concern.CHECKPOINT_UNREADABLE: _unread,
    Concern.CHECKPOINT_NOT_GRANTED: _unread,
    Concern.CHECKPOINT_SKEW: _skewed,
}


def _held(facts: Facts) -> Text:
    """Nothing where the pods are somebody else's news."""
    if "pods" not in facts:
        return ""
    pods, gpus = _count(facts, "pods"), _count(facts, "gpus")
    if not pods:
        return say("evidence.held-nobody")
    return say("evidence.held", n=pods, gpus=say("gpus", n=gpus)) if gpus else say("evidence.held-none", n=pods)


def _count(facts: Facts, name: str) -> int:
    value = facts.get(name)
    return int(value) if isinstance(value, int | float) else 0


def _text(facts: Facts, name: str) -> str:
    return str(facts.get(name) or "")


def _name(subject: str) -> str:
    """A workload or pod is called by its own name; kind and namespace are evidence."""
    return subject.rsplit("/", 1)[-1]


def streams(trouble: Sequence[tuple[str, str, float]]) -> list[Entry]:
    """One entry when the API server or every stream is silent: the kinds then say nothing of their own. Else one per kind."""
    server = [lost for lost in trouble if lost[0] == SERVER]
    if server or len(trouble) == len(Kind):
        _, reason, since_at = server[0] if server else max(trouble, key=lambda lost: lost[2])
        evidence = say("evidence.server", reason=reason)
        return [Entry("stream:server", "warn", "s-warn", say("attention.server"), evidence, since_at)]
    return [_stream(*lost) for lost in trouble]


def _stream(kind: str, reason: str, since_at: float) -> Entry:
    forbidden = reason == FORBIDDEN
    title = say("attention.forbidden" if forbidden else "attention.stream", kind=kind)
    evidence = say("evidence.forbidden") if forbidden else say("evidence.stream", reason=reason)
    return Entry(f"stream:{kind}", "warn", "s-warn", title, evidence, since_at)


def summary(rows: Mapping[str, AttentionRow]) -> Text:
    """The evidence of all that is wrong with one node, most urgent first, or that nothing is. What runs there is said once."""
    found = sorted(rows.values(), key=urgency)
    alone = tuple(evidence(row, {name: fact for name, fact in row.facts if name != "pods"}) for row in found)
    held = next((_held(dict(row.facts)) for row in found if row.node), "")
    return (*alone, held) if found else say("node.fine")
