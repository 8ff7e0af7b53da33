"""Where a pod may go: sizes of pods, room on nodes, and the filters of the scheduler with the reasons that they give.

Pure arithmetic over objects of the API. Sizes follow kubernetes/component-helpers (resource/helpers.go), wording and order
of the reasons follow the scheduler's plugins. Must not choose among the nodes that fit: that is the scheduler's policy.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

Object = dict[str, Any]
Amounts = dict[str, int]  # cpu in thousandths of a core, memory in bytes, everything else in units

SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal(1000),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}  # fmt: skip
QUANTITY = re.compile(r"([0-9.]*[0-9](?:[eE][-+]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i|)")
FINISHED = frozenset({"Succeeded", "Failed"})
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


@lru_cache(maxsize=4096)
def quantity(text: str, *, cpu: bool = False) -> int:
    """A Kubernetes quantity as a whole number, rounded up; thousandths when `cpu`. ValueError when it is none."""
    found = QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f"not a quantity: {text!r}")
    value = Decimal(found[1]) * SUFFIXES[found[2]] * (1000 if cpu else 1)
    return int(value.to_integral_value(ROUND_CEILING))


def amounts(raw: Object | None) -> Amounts:
    return {name: quantity(str(text), cpu=name == "cpu") for name, text in (raw or {}).items()}


def _requests(container: Object) -> Amounts:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, 0), amount)


def effective_request(spec: Object) -> Amounts:
    """What a pod takes: the larger of its running containers and of any one step of its start, plus overhead."""
    running: Amounts = {}
    sidecars: Amounts = {}
    start: Amounts = {}
    for container in spec.get("containers", ()):
        _add(running, _requests(container))
    for container in spec.get("initContainers", ()):
        step = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(running, step)
            _add(sidecars, step)
            step = dict(sidecars)
        else:
            _add(step, sidecars)
        _raise_to(start, step)
    _raise_to(running, start)
    _add(running, amounts(spec.get("overhead")))
    return running


def tolerates(tolerations: Iterable[Object], taint: Object) -> bool:
    return any(_tolerated(t, taint) for t in tolerations)


def _tolerated(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key = toleration.get("key")
    if key and key != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(key) and toleration.get("value", "") == taint.get("value", "")


def _expression_holds(expression: Object, labels: dict[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In" | "NotIn" as operator:
            return bool((value in values) == (operator == "In"))
        case "Exists" | "DoesNotExist" as operator:
            return bool((value is not None) == (operator == "Exists"))
        case operator:
            more = value is not None and int(value) > int(values[0])
            less = value is not None and int(value) < int(values[0])
            return more if operator == "Gt" else less


def _term_holds(term: Object, node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    name = {"metadata.name": node["metadata"]["name"]}
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    return (
        bool(expressions or fields)
        and all(_expression_holds(e, labels) for e in expressions)
        and all(_expression_holds(f, name) for f in fields)
    )


def affinity_matches(spec: Object, node: Object) -> bool:
    """nodeSelector and the required node affinity."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term_holds(term, node) for term in required.get("nodeSelectorTerms") or [])


@dataclass(frozen=True)
class Refusal:
    """Why a node does not take a pod. `hopeless`: removing other pods from it would not help."""

    reasons: tuple[str, ...]
    hopeless: bool


def blocked(spec: Object, node: Object) -> Refusal | None:
    """The filters that do not depend on room, in the scheduler's order: the first that fails gives the reason."""
    tolerations = spec.get("tolerations") or []
    cordon = {"key": UNSCHEDULABLE, "effect": "NoSchedule"}
    if node["spec"].get("unschedulable") and not tolerates(tolerations, cordon):
        return Refusal(("node(s) were unschedulable",), hopeless=True)
    for taint in node["spec"].get("taints") or []:
        if taint["effect"] in {"NoSchedule", "NoExecute"} and not tolerates(tolerations, taint):
            return Refusal(("node(s) had untolerated taint(s)",), hopeless=True)
    if not affinity_matches(spec, node):
        return Refusal(("node(s) didn't match Pod's node affinity/selector",), hopeless=True)
    return None


@dataclass
class Room:
    """What a node has and what its bound, unfinished pods take of it (terminating ones included)."""

    allocatable: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    pods: int = 0

    def free(self, resource: str) -> int:
        return self.allocatable.get(resource, 0) - self.used.get(resource, 0)

    def take(self, request: Amounts) -> None:
        _add(self.used, request)
        self.pods += 1

    def give_back(self, request: Amounts) -> None:
        _add(self.used, {name: -amount for name, amount in request.items()})
        self.pods -= 1

    def refuses(self, request: Amounts) -> Refusal | None:
        """ "Too many pods" and "Insufficient <resource>", each that applies."""
        reasons = ["Too many pods"] if self.pods + 1 > self.allocatable.get("pods", 0) else []
        short = [name for name, amount in request.items() if amount > 0 and amount > self.free(name)]
        reasons += [f"Insufficient {name}" for name in short]
        if not reasons:
            return None
        hopeless = any(request[name] > self.allocatable.get(name, 0) for name in short)
        return Refusal(tuple(reasons), hopeless=hopeless)


def unavailable_message(nodes: int, refusals: Iterable[Refusal]) -> str:
    """The text of FailedScheduling: how many nodes refuse for which reason, and why preemption does not help."""
    reasons: dict[str, int] = {}
    helpless = victimless = 0
    for refusal in refusals:
        for reason in refusal.reasons:
            reasons[reason] = reasons.get(reason, 0) + 1
        helpless += refusal.hopeless
        victimless += not refusal.hopeless
    if not nodes:
        return "no nodes available to schedule pods"
    told = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    preemption = {
        "No preemption victims found for incoming pod": victimless,
        "Preemption is not helpful for scheduling": helpless,
    }
    tried = ", ".join(sorted(f"{count} {reason}" for reason, count in preemption.items() if count))
    available = f"0/{nodes} nodes are available"
    return f"{available}: {told}. no new claims to deallocate, preemption: {available}: {tried}."
