"""Blue/green: which Services have two sides, which of them serves, and what both hold.

Owns how pairs are found, who else owns a Service, and the selector of each side. Must not judge a switch: `switching` does.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from fleet.domain.capacity import counted, effective_requests, finished
from fleet.domain.objects import Deployment, Object, Pod, Service, StatefulSet
from fleet.domain.owners import reference
from fleet.domain.pods import is_ready

Selector = Mapping[str, str]

# Labels that tell the sides of one service apart, by custom; a policy may name others.
SIDE_LABELS = ("color", "colour", "track", "slot", "vigie.dev/side", "app.kubernetes.io/version", "version")
DECLARED = "vigie.dev/blue-green"  # on a Service: the names of its two workloads, "llm-blue, llm-green"

ARGO_ANNOTATION = "argo-rollouts.argoproj.io/managed-by-rollouts"
ARGO_KEY = "rollouts-pod-template-hash"
CONTROLLERS = {"Rollout": "Argo Rollouts", "Canary": "Flagger"}
# Whoever keeps these in step with a repository puts an edited selector back.
SYNCED = (
    "argocd.argoproj.io/tracking-id",
    "argocd.argoproj.io/instance",
    "kustomize.toolkit.fluxcd.io/name",
    "helm.toolkit.fluxcd.io/name",
)


class Live(StrEnum):
    """How many sides the selector selects."""

    ONE = "one"
    BOTH = "both"
    NEITHER = "neither"


class Side(Struct, frozen=True):
    """One workload of a pair. `selector`: the Service's, if this side served; {} when no label tells the sides apart.

    `ready`: pods that the Service would send requests to; `gpus`: held now, by terminating pods too; `wants_gpus`: at its scale.
    """

    key: str  # of the workload: "Deployment/chat/llm-blue"
    name: str
    uid: str
    selector: Selector
    version: str  # the value that tells it apart
    replicas: int
    pods: int
    ready: int
    terminating: int
    gpus: int
    wants_gpus: int


class Pair(Struct, frozen=True):
    """A Service with its sides, by name; `live`: keys of those that it selects. `labels`: what tells them apart."""

    service: str  # "namespace/name"
    selector: Selector
    sides: tuple[Side, ...]
    live: tuple[str, ...]
    labels: tuple[str, ...]
    declared: bool
    owned_by: str = ""  # "Argo Rollouts", "Flagger" or another controller, which would take an edit back
    synced_by: str = ""  # what keeps the Service in step with a repository

    @property
    def state(self) -> Live:
        count = len(self.live)
        return Live.ONE if count == 1 else Live.BOTH if count else Live.NEITHER

    @property
    def serving(self) -> Side | None:
        """The one side that serves; None when both or neither do."""
        return next((side for side in self.sides if side.key in self.live), None) if len(self.live) == 1 else None

    @property
    def idle(self) -> tuple[Side, ...]:
        return tuple(side for side in self.sides if side.key not in self.live)

    def side(self, name: str) -> Side | None:
        """By its workload's name or key."""
        return next((side for side in self.sides if name in {side.name, side.key}), None)

    @property
    def gpus(self) -> int:
        """What both sides hold now."""
        return sum(side.gpus for side in self.sides)

    @property
    def spare_gpus(self) -> int:
        """The price of holding both: what the sides that do not serve hold."""
        return sum(side.gpus for side in self.idle)


def pairs(
    services: Iterable[Service],
    workloads: Iterable[Object],
    pods: Mapping[str, Sequence[Pod]],
    side_labels: Sequence[str] = SIDE_LABELS,
) -> tuple[Pair, ...]:
    """Every Service with sides, by its key. `pods`: of each workload, by its key ("Deployment/chat/llm")."""
    by_namespace: dict[str, list[Deployment | StatefulSet]] = {}
    for one in workloads:
        if isinstance(one, Deployment | StatefulSet):
            by_namespace.setdefault(one.metadata.namespace, []).append(one)
    found = (pair(s, by_namespace.get(s.metadata.namespace, ()), pods, side_labels) for s in services)
    return tuple(sorted(filter(None, found), key=lambda one: one.service))


def pair(
    service: Service,
    workloads: Iterable[Object],
    pods: Mapping[str, Sequence[Pod]],
    side_labels: Sequence[str] = SIDE_LABELS,
) -> Pair | None:
    """The sides of one Service; `workloads`: those of its namespace. None when it has none, and no controller that switches it
    either: such a Service is a pair whose sides we may not know. One is enough where a label is there for another."""
    mine = {one.metadata.name: one for one in workloads if isinstance(one, Deployment | StatefulSet)}
    names = declared(service)
    chosen = (
        [mine[name] for name in names if name in mine] if names else _by_custom(service, mine.values(), side_labels)
    )
    owner = owned_by(service)
    labels = _telling(service, chosen, side_labels) if len(chosen) > 1 else _alone(service, chosen, side_labels)
    if (len(chosen) < 2 and not labels and owner not in CONTROLLERS.values()) or not service.spec.selector:
        return None
    sides = tuple(
        sorted((_side(service, one, labels, pods, side_labels) for one in chosen), key=lambda side: side.name)
    )
    selected = {one.metadata.name for one in chosen if selects(service.spec.selector, _labels(one))}
    return Pair(
        service=service.key,
        selector=service.spec.selector,
        sides=sides,
        live=tuple(side.key for side in sides if side.name in selected),
        labels=labels,
        declared=bool(names),
        owned_by=owner,
        synced_by=next((name for name in SYNCED if name in _marks(service)), ""),
    )


def declared(service: Service) -> tuple[str, ...]:
    """The workloads that the Service's annotation names."""
    found = service.metadata.annotations.get(DECLARED, "")
    return tuple(dict.fromkeys(name.strip() for name in found.split(",") if name.strip()))


def owned_by(service: Service) -> str:
    """Who would take an edit of the selector back; "" nobody that we can see."""
    if ARGO_ANNOTATION in service.metadata.annotations or ARGO_KEY in service.spec.selector:
        return CONTROLLERS["Rollout"]
    owner = service.controller or next((o for o in service.metadata.owner_references if o.kind in CONTROLLERS), None)
    return CONTROLLERS.get(owner.kind, owner.kind) if owner else ""


def _marks(service: Service) -> set[str]:
    return {*service.metadata.annotations, *service.metadata.labels}


def _by_custom(
    service: Service, workloads: Iterable[Deployment | StatefulSet], side_labels: Sequence[str]
) -> list[Deployment | StatefulSet]:
    """Those that the selector would select without the labels of sides, if each carries one. What is left of the selector has to
    say which service it is: nothing at all would make sides of the whole namespace."""
    rest = {n: value for n, value in service.spec.selector.items() if n not in side_labels and n != ARGO_KEY}
    if not rest:
        return []
    return [
        one for one in workloads if selects(rest, _labels(one)) and any(name in _labels(one) for name in side_labels)
    ]


def _telling(
    service: Service, sides: Sequence[Deployment | StatefulSet], side_labels: Sequence[str]
) -> tuple[str, ...]:
    """The labels whose values tell the sides apart: those of the selector that do, else the first by custom, else any other."""
    labels = [_labels(one) for one in sides]

    def tells(name: str) -> bool:
        values = [found.get(name) for found in labels]
        return None not in values and len(set(values)) == len(values)

    if used := tuple(sorted(name for name in service.spec.selector if tells(name))):
        return used
    others = sorted(set(labels[0]) - set(side_labels))
    return tuple(name for name in (*side_labels, *others) if tells(name))[:1]


def _alone(service: Service, sides: Sequence[Deployment | StatefulSet], side_labels: Sequence[str]) -> tuple[str, ...]:
    """The label that would tell the one side from another: the selector's; of a declared one, the first by custom."""
    carried = [name for name in side_labels if all(name in _labels(one) for one in sides)] if sides else []
    used = tuple(name for name in carried if name in service.spec.selector)
    return used or tuple(carried[:1] if declared(service) else ())


def _side(
    service: Service,
    workload: Deployment | StatefulSet,
    telling: Sequence[str],
    pods: Mapping[str, Sequence[Pod]],
    side_labels: Sequence[str],
) -> Side:
    meta, labels = workload.metadata, _labels(workload)
    key = reference(type(workload).__name__, meta.namespace, meta.name)
    kept = {
        name: value
        for name, value in service.spec.selector.items()
        if name not in telling and (name not in side_labels or labels.get(name) == value)
    }
    selector = {**kept, **{name: labels[name] for name in telling}} if telling else {}
    mine = [pod for pod in pods.get(key, ()) if not finished(pod)]
    alive = [pod for pod in mine if pod.metadata.deletion_timestamp is None]
    return Side(
        key=key,
        name=meta.name,
        uid=meta.uid,
        selector=selector,
        version=labels[telling[0]] if telling else "",
        replicas=workload.spec.replicas,
        pods=len(alive),
        ready=sum(selects(selector, pod.metadata.labels) and is_ready(pod) for pod in alive) if selector else 0,
        terminating=len(mine) - len(alive),
        gpus=sum(sum(effective_requests(pod.spec).values()) for pod in mine if counted(pod)),
        wants_gpus=sum(effective_requests(workload.spec.template.spec).values()) * workload.spec.replicas,
    )


def _labels(workload: Deployment | StatefulSet) -> Mapping[str, str]:
    return workload.spec.template.metadata.labels


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """A Service without a selector selects nothing."""
    return bool(selector) and selector.items() <= labels.items()
