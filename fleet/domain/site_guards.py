"""Guards about the node, the site and the person: may this be done here, now, by this actor, beside everything else that goes on?

Owns one function per guard, from a draft to what it found. A guard that finds nothing passes. Must not know which actions run it.
"""

from collections.abc import Iterator

from fleet.domain import blue_green, machines
from fleet.domain.capacity import ready_status, resources, usable
from fleet.domain.facts import EMPTYING, place
from fleet.domain.losses import Draft
from fleet.domain.objects import Node
from fleet.domain.plans import Check, Facts, Outcome
from fleet.domain.releases import SERVICE, parts

APPROVER = "approver"
OPERATOR = "operator"

FRESH_S = 30.0  # older facts decide nothing
READING_S = 60.0
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
ROLES = ("viewer", "operator", "approver")


def role(draft: Draft) -> Iterator[Check]:
    """Only an operator changes a cluster."""
    if draft.facts.actor.role not in ROLES[1:]:
        yield _block(draft, "role", "viewer", (("role", draft.facts.actor.role),), remedy="ask-operator")


def cluster_open(draft: Draft) -> Iterator[Check]:
    """Vigie changes only clusters that the site has named."""
    if not draft.facts.actions_allowed:
        yield _block(draft, "cluster-open", "read-only", (("cluster", draft.facts.cluster),), remedy="name-cluster")


def target_known(draft: Draft) -> Iterator[Check]:
    if draft.facts.node is None:
        yield _block(draft, "target-known", "missing", remedy="check-name")


def fresh(draft: Draft) -> Iterator[Check]:
    """Nothing is decided on old facts."""
    age_s = draft.facts.now - draft.facts.read_at
    if age_s > FRESH_S:
        yield _block(draft, "fresh", "old", (("age_s", age_s),), remedy="compute-again")


def permissions(draft: Draft) -> Iterator[Check]:
    """Vigie's own account may do every single thing that the action does, in every namespace that it concerns."""
    for found in draft.facts.permissions:
        if not found.allowed:
            where = found.namespace or None
            evidence: Facts = (("verb", found.verb), ("resource", found.resource), ("namespace", where))
            subject = f"{found.verb} {found.resource}" + (f" in {found.namespace}" if found.namespace else "")
            yield Check("permissions", Outcome.BLOCK, "denied", subject, evidence, "grant")


def alone_on_target(draft: Draft) -> Iterator[Check]:
    """One action at a time on a node, a workload, a Service and its sides."""
    for other in draft.facts.running:
        if other.target == draft.facts.target or near(draft, other.target):
            evidence: Facts = (("action", other.action), ("kind", other.kind))
            yield _block(draft, "alone", "running", evidence, remedy="wait-or-stop")


def near(draft: Draft, other: str) -> bool:
    """Whether another action's target is a side of this Service, or a Service of which this workload may be a side."""
    facts, found = draft.facts, draft.facts.release
    if found is None:
        return False
    if found.pair is not None:
        return any(side.key == other for side in found.pair.sides)
    kind, namespace, name = parts(other)
    service = next((s for s in facts.services or () if s.key == f"{namespace}/{name}"), None)
    if kind != SERVICE or service is None or found.workload is None:
        return False
    labels = (found.workload.template.get("metadata") or {}).get("labels") or {}
    told = facts.policy.blue_green.labels
    rest = {label: value for label, value in service.spec.selector.items() if label not in told}
    return (bool(rest) and rest.items() <= labels.items()) or found.name in blue_green.declared(service)


def control_plane(draft: Draft) -> Iterator[Check]:
    if draft.facts.node is not None and any(label in draft.facts.node.metadata.labels for label in CONTROL_PLANE):
        yield _block(draft, "control-plane", "control-plane", remedy="use-own-runbook", waivable_by=APPROVER)


def node_answers(draft: Draft) -> Iterator[Check]:
    """A silent kubelet stops no pod: they would stay Terminating for as long as it is silent."""
    node = draft.facts.node
    if node is not None and ready_status(node) not in {"True", "False"}:
        yield _block(draft, "node-answers", "silent", remedy="wait-for-kubelet", waivable_by=APPROVER)


def cordon_owner(draft: Draft) -> Iterator[Check]:
    """Who has cordoned decides when it is lifted."""
    node, mine = draft.facts.node, draft.facts.cordoned_by
    if node is None or not node.spec.unschedulable:
        return
    if draft.facts.kind == "uncordon" and not mine:
        yield _block(draft, "cordon-owner", "foreign", remedy="ask-who-cordoned", waivable_by=OPERATOR)
    elif not mine:
        yield Check("cordon-owner", Outcome.WARN, "stays-cordoned", draft.facts.target)


def telemetry(draft: Draft) -> Iterator[Check]:
    """Recovery is proved by readings: without them nobody can say that the GPUs came back well. No picture is no reading."""
    node, machine = draft.facts.node, draft.facts.machine
    if not machine.measured and (node is None or not _is_gpu_node(node)):
        return
    if not machine.measured:
        yield _block(draft, "telemetry", "not-measured", remedy="measure", waivable_by=APPROVER)
    elif machine.silent or machine.read_at is None or draft.facts.now - machine.read_at > READING_S:
        age_s = None if machine.read_at is None else draft.facts.now - machine.read_at
        yield _block(draft, "telemetry", "silent", (("age_s", age_s),), remedy="restart-agent", waivable_by=APPROVER)


def failure_domain(draft: Draft) -> Iterator[Check]:
    """So many nodes of one rack, zone and pool, and of the whole cluster, may be under maintenance at once. The nodes of a pool
    whose rack or zone no label names count as one: that they are apart is not known."""
    facts, limits = draft.facts, draft.facts.policy.limits
    if facts.node is None:
        return
    pool, zone, rack = place(facts.node)
    others = [other for other in facts.running if other.kind in EMPTYING and other.target != facts.target]
    near = [other for other in others if other.pool == pool]
    counts = (
        ("rack", rack, sum(other.rack == rack for other in (others if rack else near)), limits.nodes_per_rack),
        ("zone", zone, sum(other.zone == zone for other in (others if zone else near)), limits.nodes_per_zone),
        ("pool", pool, len(near), limits.nodes_per_pool),
        ("cluster", facts.cluster, len(others), limits.nodes),
    )
    for scope, name, running, limit in counts:
        if running >= limit:
            evidence: Facts = (("name", name or None), ("pool", pool or None), ("running", running), ("limit", limit))
            reason = scope if name else f"{scope}-unknown"
            remedy = "wait-for-others" if name else "label-nodes"
            subject = name or reason
            yield Check("failure-domain", Outcome.BLOCK, reason, subject, evidence, remedy=remedy, waivable_by=APPROVER)


def breaker(draft: Draft) -> Iterator[Check]:
    """With a large share of the fleet out already, something is wrong that maintenance would make worse."""
    nodes = [node for node in draft.facts.nodes if _is_gpu_node(node)]
    emptied = _emptied(draft)
    out = [
        node
        for node in nodes
        if node.metadata.name != draft.facts.target
        and (not usable(node) or not _gpus(node) or node.metadata.name in emptied)
    ]
    limit = draft.facts.policy.limits.unusable_share
    if nodes and (len(out) + 1) / len(nodes) > limit and len(out) > 0:
        evidence: Facts = (("out", len(out)), ("nodes", len(nodes)), ("limit_pct", round(limit * 100)))
        yield _block(draft, "breaker", "too-many-out", evidence, remedy="bring-back", waivable_by=APPROVER)


def capacity_floor(draft: Draft) -> Iterator[Check]:
    """A pool keeps as many available GPUs as its policy asks for."""
    node = draft.facts.node
    if node is None:
        return
    pool = place(node)[0]
    settings = draft.facts.policy.pools.get(pool)
    if settings is None or not settings.floor_gpus:
        return
    emptied = {draft.facts.target, *_emptied(draft)}
    left = sum(
        _gpus(other)
        for other in draft.facts.nodes
        if other.metadata.name not in emptied and place(other)[0] == pool and usable(other)
    )
    if left < settings.floor_gpus:
        evidence: Facts = (("pool", pool), ("left", left), ("floor", settings.floor_gpus))
        yield _block(draft, "capacity-floor", "below", evidence, remedy="bring-back", waivable_by=APPROVER)


def window(draft: Draft) -> Iterator[Check]:
    """Maintenance begins within its windows, and never in a freeze."""
    if draft.facts.node is None:
        return
    pool, now, policy = place(draft.facts.node)[0], draft.facts.now, draft.facts.policy
    freeze = policy.frozen(pool, now)
    if freeze is not None:
        evidence: Facts = (("until_at", freeze.end.timestamp()), ("why", freeze.reason or None))
        yield _block(draft, "window", "frozen", evidence, remedy="wait-for-window", waivable_by=APPROVER)
    closed = policy.closed_window(pool, now)
    if closed:
        first = closed[0]
        evidence = (
            ("from", first.start.isoformat("minutes")),
            ("to", first.end.isoformat("minutes")),
            ("zone", first.timezone),
        )
        yield _block(draft, "window", "closed", evidence, remedy="wait-for-window", waivable_by=APPROVER)


def _emptied(draft: Draft) -> set[str]:
    """Nodes that other actions empty: they may not be cordoned yet."""
    return {other.target for other in draft.facts.running if other.kind in EMPTYING}


def _is_gpu_node(node: Node) -> bool:
    """Also one whose GPUs are all lost: a device plugin that is gone takes their resource with it, not the label."""
    offered = any(resource.capacity or resource.allocatable for resource in resources(node, {}))
    return offered or bool(machines.product_name(node.metadata.labels))


def _gpus(node: Node) -> int:
    """GPUs that it offers. Slots of divided or shared ones are not so many GPUs; where labels do not tell how many, none."""
    offered = resources(node, {})
    slots, physical = sum(one.allocatable for one in offered), machines.physical(node.metadata.labels)
    if physical is not None:
        return min(slots, physical)
    return sum(one.allocatable for one in offered if not (one.mig or one.shared))


def _block(
    draft: Draft, guard: str, reason: str, evidence: Facts = (), remedy: str = "", waivable_by: str = ""
) -> Check:
    return Check(guard, Outcome.BLOCK, reason, draft.facts.target, evidence, remedy, waivable_by)
