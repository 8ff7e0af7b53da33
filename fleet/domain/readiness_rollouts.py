"""Rules R16 to R18, R24 to R26 and R31: whether the pods of a workload can be replaced, and do not fall together.

Owns their conditions and remedies. What the cluster has room for comes with the subject.
"""

from collections.abc import Iterator

from fleet.domain import manifests
from fleet.domain.budgets import selects
from fleet.domain.manifests import DaemonSet, Path, Pod
from fleet.domain.readiness_storage import holds_one_volume
from fleet.domain.readiness_subjects import Finding, Rule, Severity, Subject
from fleet.domain.scheduling import HOSTNAME
from fleet.domain.snippets import Value

GENTLE: Value = {"maxSurge": 0, "maxUnavailable": 1}


def findings(subject: Subject) -> Iterator[Finding]:
    if subject.rolls:
        yield from _surge_without_gpu(subject)
        yield from _nothing_may_move(subject)
    yield from _recreate(subject)
    yield from _lone_replica(subject)
    yield from _no_spread(subject)
    yield from _spread_too_strict(subject)
    yield from _pinned(subject)


def _surge_without_gpu(subject: Subject) -> Iterator[Finding]:
    """R16. A surge that finds no GPU stalls the rollout only where no old pod may go first; where some of it finds one, the
    rollout goes on with those."""
    if subject.room is None or not subject.gpus or not subject.replicas:
        return
    surge, unavailable = subject.bounds
    slots = subject.room.slots
    if surge <= slots:
        return
    stalls = unavailable == 0 and slots == 0
    yield subject.finding(
        Rule.SURGE_WITHOUT_GPU,
        Severity.ERROR if stalls else Severity.WARNING,
        ("spec", "strategy"),
        {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": GENTLE}}},
        "stall" if stalls else "slow" if unavailable == 0 else "below",
        surge=surge,
        slots=slots,
        gpus=sum(subject.gpus.values()),
        floor=max(0, subject.replicas - unavailable),
        replicas=subject.replicas,
    )


def _nothing_may_move(subject: Subject) -> Iterator[Finding]:
    """R17: what the API server refuses."""
    found = subject.deployment
    rolling = found.spec.strategy.rolling_update if found else None
    if rolling is None or rolling.max_surge is None or rolling.max_unavailable is None:
        return
    if all(str(amount).removesuffix("%").lstrip("0") == "" for amount in (rolling.max_surge, rolling.max_unavailable)):
        remedy: Value = {"spec": {"strategy": {"rollingUpdate": GENTLE}}}
        yield subject.finding(Rule.NOTHING_MAY_MOVE, Severity.ERROR, ("spec", "strategy", "rollingUpdate"), remedy)


def _recreate(subject: Subject) -> Iterator[Finding]:
    """R18. A volume that two pods cannot share, and a lone GPU, are good reasons."""
    if subject.deployment is None or subject.rolls or not subject.services or not subject.replicas:
        return
    lone = bool(subject.gpus) and subject.replicas == 1 and (subject.room is None or subject.room.slots == 0)
    if lone or holds_one_volume(subject):
        return
    rolling: Value = GENTLE if subject.replicas > 1 and subject.gpus else {"maxSurge": 1, "maxUnavailable": 0}
    remedy: Value = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}}
    yield subject.finding(
        Rule.RECREATE, Severity.WARNING, ("spec", "strategy", "type"), remedy, replicas=subject.replicas
    )


def _lone_replica(subject: Subject) -> Iterator[Finding]:
    """R24."""
    if subject.services and subject.replicas == 1:
        service = subject.services[0].object.metadata.name
        remedy: Value = {"spec": {"replicas": 2}}
        yield subject.finding(Rule.LONE_REPLICA, Severity.WARNING, ("spec", "replicas"), remedy, service=service)


def _spreads(subject: Subject) -> Iterator[tuple[Path, str, bool]]:
    """What keeps its own pods apart: where it stands, over which label of nodes, and whether a pod waits rather than break it."""
    spec, labels = subject.template.spec, subject.template.metadata.labels
    for i, spread in enumerate(spec.topology_spread_constraints):
        if selects(spread.label_selector, labels):
            hard = spread.when_unsatisfiable == "DoNotSchedule"
            yield (*subject.at, "spec", "topologySpreadConstraints", i), spread.topology_key, hard
    anti = spec.affinity.pod_anti_affinity if spec.affinity else None
    for term in manifests.apart(spec):
        if selects(term.label_selector, labels):
            hard = anti is not None and term in anti.required
            yield (*subject.at, "spec", "affinity", "podAntiAffinity"), term.topology_key, hard


def _no_spread(subject: Subject) -> Iterator[Finding]:
    """R25. A spread over zones leaves two pods of a zone on one node; anti-affinity over zones does not."""
    if (subject.replicas or 0) < 2:
        return
    apart = any(key == HOSTNAME or "podAntiAffinity" in path for path, key, _ in _spreads(subject))
    if apart:
        return
    spread: Value = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(subject.template.metadata.labels)},
    }
    at = (*subject.at, "spec")
    remedy = subject.patch({"topologySpreadConstraints": [spread]})
    yield subject.finding(Rule.NO_SPREAD, Severity.WARNING, at, remedy, replicas=subject.replicas or 0)


def _spread_too_strict(subject: Subject) -> Iterator[Finding]:
    """R26: over hosts, since their number is what the cluster has."""
    if subject.room is None or not subject.replicas or not isinstance(subject.replicas, int):
        return
    surge = subject.bounds[0] if subject.rolls else 0
    path = next((path for path, key, hard in _spreads(subject) if hard and key == HOSTNAME), None)
    if path is None or subject.replicas + surge <= subject.room.nodes:
        return
    remedy: Value = None
    if "topologySpreadConstraints" in path:
        remedy = subject.patch(
            {"topologySpreadConstraints": [{"topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"}]}
        )
    elif subject.rolls:
        remedy = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": GENTLE}}}
    yield subject.finding(
        Rule.SPREAD_TOO_STRICT,
        Severity.WARNING,
        path,
        remedy,
        replicas=subject.replicas,
        surge=surge,
        nodes=subject.room.nodes,
    )


def _pinned(subject: Subject) -> Iterator[Finding]:
    """R31. A DaemonSet's pods, and a pod that runs, are on their node anyway."""
    if isinstance(subject.manifest.object, DaemonSet | Pod):
        return
    spec, at = subject.template.spec, (*subject.at, "spec")
    if spec.node_name:
        yield _pin(subject, (*at, "nodeName"), {"nodeName": None}, spec.node_name)
    elif HOSTNAME in spec.node_selector:
        gone: Value = {"nodeSelector": {HOSTNAME: None}}
        yield _pin(subject, (*at, "nodeSelector", HOSTNAME), gone, spec.node_selector[HOSTNAME])
    elif node := _only_node(subject):
        gone = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}}
        yield _pin(subject, (*at, "affinity", "nodeAffinity"), gone, node)


def _pin(subject: Subject, path: Path, change: Value, node: str) -> Finding:
    return subject.finding(Rule.PINNED, Severity.WARNING, path, subject.patch(change), node=node)


def _only_node(subject: Subject) -> str:
    """The one host that required node affinity leaves, "" when it leaves more."""
    affinity = subject.template.spec.affinity
    terms = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    hosts: set[str] = set()
    for term in terms.node_selector_terms if terms else ():
        named = [
            each
            for each in (*term.match_expressions, *term.match_fields)
            if each.key in {HOSTNAME, "metadata.name"} and each.operator == "In"
        ]
        if not named:
            return ""
        hosts |= {value for each in named for value in each.values}
    return hosts.pop() if len(hosts) == 1 else ""
