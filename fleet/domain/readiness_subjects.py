"""What the rules of restart readiness are asked about: one workload with the Services, budgets and claims around it, and what is
known of the cluster. And what a rule answers: a finding.

Owns the words Rule, Severity, Finding and Subject, and how findings know their line and their patch. Must not hold a rule.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, cast

from msgspec import Struct

from fleet.domain import durations, manifests, rollouts
from fleet.domain.capacity import effective_requests
from fleet.domain.manifests import (
    Autoscaler,
    Container,
    DaemonSet,
    Deployment,
    Manifest,
    Path,
    PodTemplate,
    ReplicaSet,
    Service,
    StatefulSet,
)
from fleet.domain.snippets import Value, yaml
from fleet.domain.specs import Claim

Fact = str | int | float

LOAD: Final = "vigie.dev/load-time"  # start of the container → Ready
DRAIN: Final = "vigie.dev/drain-time"  # what requests in flight need after SIGTERM
SAVE: Final = "vigie.dev/save-time"  # what a checkpoint needs after SIGTERM
PULL: Final = "vigie.dev/pull-time"  # of the image, where it is not there yet
COLOURS: Final = frozenset({"blue", "green"})


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Rule(StrEnum):
    """Numbers of the reference on checkpoints and failover; none is ever used again for something else."""

    NO_READINESS = "R01"
    NOT_READY_ADDRESSES = "R02"
    LIVENESS_WHILE_LOADING = "R03"
    STARTUP_BUDGET = "R04"
    PROGRESS_DEADLINE = "R05"
    SAME_PROBE = "R06"
    PRE_STOP_EATS_GRACE = "R07"
    GRACE_TOO_SHORT = "R08"
    NO_PRE_STOP = "R09"
    SLEEP_WITHOUT_SHELL = "R10"
    SIGTERM_LOST = "R11"
    CHECKPOINT_IN_CONTAINER = "R12"
    CHECKPOINT_ON_SCRATCH = "R13"
    SURGE_WITH_ONE_VOLUME = "R14"
    SHARED_VOLUME = "R15"
    SURGE_WITHOUT_GPU = "R16"
    NOTHING_MAY_MOVE = "R17"
    RECREATE = "R18"
    BUDGET_NEVER = "R19"
    NO_BUDGET = "R20"
    BUDGET_SELECTS = "R21"
    UNHEALTHY_EVICTION = "R22"
    BUDGET_SPANS_COLOURS = "R23"
    LONE_REPLICA = "R24"
    NO_SPREAD = "R25"
    SPREAD_TOO_STRICT = "R26"
    GPU_REQUEST = "R27"
    IMAGE_TAG = "R28"
    BARE_POD = "R29"
    COLOUR_NOT_IN_TEMPLATE = "R30"
    PINNED = "R31"
    BACKOFF_COUNTS_DISRUPTIONS = "R32"
    NO_MIN_READY = "R33"
    GRACE_OVER_NOTICE = "R34"


class Finding(Struct, frozen=True):
    """One mistake. `case`: which of a rule's sentences says it, "" its only one; `facts`: what the sentence holds, times in
    seconds; `remedy`: a patch as YAML, or an object to add; "" where somebody has to choose first. `line` 0: no file."""

    rule: Rule
    severity: Severity
    file: str
    line: int
    object: str  # "Deployment/chat/llm"
    case: str = ""
    facts: Mapping[str, Fact] = {}
    remedy: str = ""


class Load(Struct, frozen=True):
    """How long pods took from the start of their containers to Ready. `pods` 0: nobody measured, somebody says so."""

    p95_s: float
    pods: int


class Times(Struct, frozen=True):
    """None: nobody has said or measured."""

    load: Load | None = None
    drain_s: float | None = None
    save_s: float | None = None
    pull_s: float | None = None
    unread: tuple[str, ...] = ()  # annotations that are no durations


class Room(Struct, frozen=True):
    """What the cluster has for pods of one workload now: places for one more pod, none of which needs another to go, and nodes
    that a pod of it could be on at all."""

    slots: int
    nodes: int


class Subject(Struct, frozen=True):
    """One workload. `services`: those that send it requests, and blue/green ones that did before a switch; `room` None: there is
    no cluster to look at."""

    manifest: Manifest
    template: PodTemplate
    at: Path
    services: tuple[Manifest, ...] = ()
    budgets: tuple[Manifest, ...] = ()
    claims: Mapping[str, Claim] = {}  # of its namespace, by name
    scaler: Autoscaler | None = None
    times: Times = Times()
    room: Room | None = None

    @property
    def gpus(self) -> dict[str, int]:
        """GPU slots of one pod by resource; what is no whole number counts as the next one."""
        return effective_requests(self.template.spec)

    @property
    def replicas(self) -> int | None:
        """How many pods it is to have, the fewest of an autoscaler; None: its kind has no such number."""
        found = self.manifest.object
        if not isinstance(found, Deployment | StatefulSet | ReplicaSet):
            return None
        if found.spec.replicas is not None:
            return found.spec.replicas
        return self.scaler.spec.min_replicas if self.scaler else 1

    @property
    def most(self) -> int | None:
        return self.scaler.spec.max_replicas if self.scaler and self.replicas is not None else self.replicas

    @property
    def deployment(self) -> Deployment | None:
        return self.manifest.object if isinstance(self.manifest.object, Deployment) else None

    @property
    def rolls(self) -> bool:
        """Whether it is a Deployment that replaces its pods in waves."""
        return self.deployment is not None and self.deployment.spec.strategy.type != "Recreate"

    @property
    def bounds(self) -> tuple[int, int]:
        """Of a rolling Deployment: pods more and pods fewer; none of both where the API server refuses what it says."""
        rolling = cast(Deployment, self.manifest.object).spec.strategy.rolling_update
        told = (
            rollouts.DEFAULT if amount is None else amount for amount in (rolling.max_surge, rolling.max_unavailable)
        )
        try:
            found = rollouts.bounds(self.replicas or 0, *told)
        except ValueError:
            return 0, 0
        return found.surge, found.unavailable

    @property
    def runs_on(self) -> bool:
        """Whether its pods are meant to run for ever."""
        return isinstance(self.manifest.object, Deployment | StatefulSet | ReplicaSet | DaemonSet)

    def containers(self) -> Iterator[tuple[Path, Container]]:
        """Those that live as long as the pod: its containers, and sidecars among the ones that begin it."""
        for path, container in manifests.containers(self.at, self.template.spec):
            if "containers" in path or container.restart_policy == "Always":
                yield path, container

    def finding(
        self, rule: Rule, severity: Severity, path: Path, remedy: Value = None, case: str = "", **facts: Fact
    ) -> Finding:
        return of_manifest(self.manifest, rule, severity, path, remedy, case, **facts)

    def patch(self, spec: Value = None, **template: Value) -> Value:
        """Of the pods' spec, or of other parts of their template."""
        found: Value = {**template, **({} if spec is None else {"spec": spec})}
        for name in reversed(self.at):
            found = {str(name): found}
        return found

    def patch_container(self, path: Path, container: Container, change: Mapping[str, Value]) -> Value:
        return self.patch({str(path[-2]): [{"name": container.name, **change}]})


def of_manifest(
    manifest: Manifest,
    rule: Rule,
    severity: Severity,
    path: Path,
    remedy: Value = None,
    case: str = "",
    **facts: Fact,
) -> Finding:
    text = "" if remedy is None else yaml(remedy)
    return Finding(rule, severity, manifest.file, manifest.line_of(path), manifest.key, case, facts, text)


def times(manifest: Manifest, template: PodTemplate, measured: Load | None) -> Times:
    """What its annotations say, those of the pods first, and what was measured. What is measured counts before what is said."""
    told, unread = dict[str, float](), []
    annotations = {**manifest.object.metadata.annotations, **template.metadata.annotations}
    for name in (LOAD, DRAIN, SAVE, PULL):
        if name in annotations:
            try:
                told[name] = durations.parse(annotations[name])
            except durations.DurationError:
                unread.append(name)
    load = measured or (Load(told[LOAD], 0) if LOAD in told else None)
    return Times(load, told.get(DRAIN), told.get(SAVE), told.get(PULL), tuple(unread))


def colours(selector: Mapping[str, str]) -> frozenset[str]:
    """The keys of a selector that choose a colour."""
    return frozenset(key for key, value in selector.items() if value.lower() in COLOURS)


def serves(service: Service, labels: Mapping[str, str]) -> bool:
    """Whether a Service sends requests to pods with these labels, or would after a switch of colour."""
    selector = service.spec.selector
    if selector and selector.items() <= labels.items():
        return True
    chosen = colours(selector)
    rest = {key: value for key, value in selector.items() if key not in chosen}
    return (
        bool(rest)
        and rest.items() <= labels.items()
        and all(key not in labels or labels[key].lower() in COLOURS for key in chosen)
    )


def identity(kind: str, name: str, namespace: str) -> dict[str, Value]:
    """The head of an object to add."""
    group = manifests.GROUPS[kind]
    where: dict[str, Value] = {"namespace": namespace} if namespace else {}
    return {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": {"name": name, **where}}
