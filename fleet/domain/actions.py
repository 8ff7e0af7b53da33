"""The actions: what can be done to a node (to workloads and Services: `release_kinds`), which guards stand before it, its steps,
and how an action's state may change.

Owns the registry that buttons, pages, API and engine iterate over, and the lifecycle. Must not do anything. Adding a guarded
action is one entry here and the guards that it needs.
"""

from collections.abc import Mapping

from fleet.domain import capacity, guards, release_guards, release_kinds, release_room, save_steps
from fleet.domain.facts import Facts, place
from fleet.domain.guards import PODS, SITE
from fleet.domain.kinds import SAVE_FIRST, ActionKind, Danger
from fleet.domain.losses import Draft
from fleet.domain.objects import Node
from fleet.domain.plans import ActionState, Loss, Plan, Step, StepKind

# What a cordon or an uncordon may not be refused for: closing a node is how somebody makes things safe at 3 a.m.
_LIGHT = ("role", "cluster-open", "target-known", "fresh", "permissions", "alone", "cordon-owner")
_ALL = (*SITE, *PODS)

CORDONED = "vigie.dev/cordoned-by"
CORDON_REASON = "vigie.dev/cordon-reason"
CORDONED_AT = "vigie.dev/cordoned-at"
REBOOT = "vigie.dev/reboot-requested"
MANAGER = "vigie"  # the field manager of what Vigie writes


def cordoned_by(node: Node) -> str:
    """The action whose cordon closes the node; "" when it is open, or when somebody else's hands were on its cordon last: their
    uncordon leaves our note behind, and their cordon is theirs."""
    manager, _ = capacity.cordon(node)
    ours = node.spec.unschedulable and manager in {"", MANAGER}
    return node.metadata.annotations.get(CORDONED, "") if ours else ""


def _cordon_step(draft: Draft) -> Step:
    return Step(StepKind.CORDON, draft.facts.target, undo="uncordon", deadline_s=60.0)


def _drain_steps(draft: Draft) -> tuple[Step, ...]:
    facts = draft.facts
    deadlines = facts.policy.deadlines
    pods = len(draft.going)
    return (
        _cordon_step(draft),
        *save_steps.steps(draft),
        Step(StepKind.DRAIN, facts.target, (("pods", pods),), deadline_s=deadlines.drain_s),
        Step(StepKind.RELEASE, facts.target, (_measured(facts),), deadline_s=deadlines.verify_s),
        Step(StepKind.PROVE, facts.target, deadline_s=deadlines.prove_s),
    )


def _measured(facts: Facts) -> tuple[str, int | None]:
    """How many GPUs readings know of; None: nothing measures this node, and Kubernetes' own word has to do."""
    return "gpus", facts.machine.gpus if facts.machine.measured else None


def _maintain_steps(draft: Draft) -> tuple[Step, ...]:
    facts = draft.facts
    deadlines = facts.policy.deadlines
    *emptied, prove = _drain_steps(draft)
    boot = facts.node.status.node_info.boot_id if facts.node else ""
    driver = facts.node.metadata.labels.get("nvidia.com/cuda.driver-version.full", "") if facts.node else ""
    return (
        *emptied,
        Step(
            StepKind.REBOOT,
            facts.target,
            (("boot_id", boot), ("command", facts.policy.reboot_command(facts.target) or None)),
            deadline_s=deadlines.reboot_s,
        ),
        Step(
            StepKind.VERIFY,
            facts.target,
            (_measured(facts), ("driver", driver or None)),
            deadline_s=deadlines.verify_s,
        ),
        Step(StepKind.UNCORDON, facts.target, deadline_s=60.0),
        prove,
    )


def _drain_commands(draft: Draft) -> tuple[str, ...]:
    """What somebody would type instead. Without `--force`: what needs it is blocked here as well."""
    node = draft.facts.target
    flags = ["--ignore-daemonsets"]
    if any(pod.scratch for pod in draft.loss.pods if pod.evicted):
        flags.append("--delete-emptydir-data")
    return (
        f"kubectl cordon {node}",
        *save_steps.commands(draft),
        f"kubectl drain {node} {' '.join(flags)} --timeout={_minutes(draft)}m",
    )


def _minutes(draft: Draft) -> int:
    return max(1, round(draft.facts.policy.deadlines.drain_s / 60))


def _maintain_commands(draft: Draft) -> tuple[str, ...]:
    node = draft.facts.target
    return (
        *_drain_commands(draft),
        draft.facts.policy.reboot_command(node) or f"# reboot {node} as your site does, then:",
        f"kubectl wait node/{node} --for=condition=Ready --timeout={round(draft.facts.policy.deadlines.reboot_s / 60)}m",
        f"kubectl uncordon {node}",
    )


ACTIONS: Mapping[str, ActionKind] = {
    kind.name: kind
    for kind in (
        ActionKind(
            "cordon",
            Danger.REVERSIBLE,
            _LIGHT,
            lambda draft: (_cordon_step(draft),),
            lambda draft: (f"kubectl cordon {draft.facts.target}",),
        ),
        ActionKind(
            "uncordon",
            Danger.REVERSIBLE,
            _LIGHT,
            lambda draft: (Step(StepKind.UNCORDON, draft.facts.target, undo="cordon", deadline_s=60.0),),
            lambda draft: (f"kubectl uncordon {draft.facts.target}",),
        ),
        ActionKind(
            "drain", Danger.DESTRUCTIVE, _ALL, _drain_steps, _drain_commands, empties=True, options=SAVE_FIRST[:1]
        ),
        ActionKind(
            "maintain",
            Danger.DESTRUCTIVE,
            _ALL,
            _maintain_steps,
            _maintain_commands,
            empties=True,
            options=SAVE_FIRST[:1],
        ),
        *release_kinds.KINDS,
    )
}


ADVISED = frozenset({"restart", "undo", "set-image"})  # kinds that bring a new version


def plan(facts: Facts, reason: str) -> Plan:
    """The plan of `facts.kind` on `facts.target`, with every guard's answer. Raises KeyError for a kind that there is not."""
    kind = ACTIONS[facts.kind]
    draft, release = Draft(facts), facts.release
    return Plan(
        cluster=facts.cluster,
        kind=facts.kind,
        target=facts.target,
        target_uid=release.uid if release else facts.node.metadata.uid if facts.node else "",
        reason=reason,
        options=_options(facts),
        made_at=facts.now,
        read_at=facts.read_at,
        loss=draft.loss if kind.empties or kind.ends else Loss(),
        checks=guards.run(kind.guards, draft),
        steps=kind.steps(draft),
        kubectl=kind.kubectl(draft),
        pods=tuple(pod.metadata.uid for pod in draft.going) if kind.empties else (),
        saves=draft.saves if kind.empties or kind.ends else (),
        seen=release_kinds.seen(draft) if release else (),
        differences=release_kinds.changes(draft) if release else (),
        advice=release_room.advice(draft) if kind.name in ADVISED else None,
    )


def _options(facts: Facts) -> tuple[tuple[str, str], ...]:
    chosen = sorted(facts.release.options.items()) if facts.release else []
    return (*((SAVE_FIRST,) if facts.save_first else ()), *(one for one in chosen if one != SAVE_FIRST))


def second(facts: Facts) -> bool:
    """Whether policy asks for a second person, for one of the pools that the action concerns."""
    policy = facts.policy
    concerned = release_guards.pools(Draft(facts)) if facts.release else (where(facts)[0],)
    return any(policy.needs_second(facts.kind, pool) for pool in ("", *concerned))


def where(facts: Facts) -> tuple[str, str, str]:
    """Pool, zone and rack of the target: what other actions count against."""
    return where_of(facts.node) if facts.node else ("", "", "")


where_of = place


# From which state an action may go where; everything else is refused by the ledger's compare-and-swap.
LIFECYCLE: Mapping[ActionState, frozenset[ActionState]] = {
    ActionState.PROPOSED: frozenset({ActionState.CONFIRMED, ActionState.REFUSED, ActionState.EXPIRED}),
    ActionState.CONFIRMED: frozenset({ActionState.RUNNING, ActionState.EXPIRED, ActionState.STOPPED}),
    ActionState.RUNNING: frozenset({ActionState.SUCCEEDED, ActionState.FAILED, ActionState.STOPPED}),
    ActionState.SUCCEEDED: frozenset(),
    ActionState.FAILED: frozenset(),
    ActionState.STOPPED: frozenset(),
    ActionState.REFUSED: frozenset(),
    ActionState.EXPIRED: frozenset(),
}
