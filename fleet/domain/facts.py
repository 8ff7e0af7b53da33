"""The facts of one decision: everything that was read, afresh, to plan, authorise or go on with an action.

Owns their shape and what can be read off them without judging: who owns a pod, whether it trains or serves, which budgets are
over it. Must not judge: `guards` does.
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from fleet.domain import blue_green, budgets, machines, training
from fleet.domain.budgets import Allowance, Scale
from fleet.domain.capacity import effective_requests
from fleet.domain.draining import Answer
from fleet.domain.found_saves import CLOCKS_S
from fleet.domain.gpus import Measure
from fleet.domain.labelled import Labelled
from fleet.domain.objects import Budget, Node, Service
from fleet.domain.policies import Policy
from fleet.domain.releases import Release
from fleet.domain.specs import Claim, FullPod, Storage
from fleet.domain.training import Training, role, workload_of

TRAINS = training.ROLE
CHECKPOINT = training.URI
IN_FLIGHT = "vigie.dev/in-flight"
SCRATCH = "vigie.dev/scratch"  # names of emptyDir volumes whose content nobody misses, or "*"
# Controllers without a scale; others may have one that we do not read.
SCALELESS = frozenset({"Job", "CronJob", "DaemonSet"})
EMPTYING = frozenset({"drain", "maintain"})  # kinds of action that move the pods of a node
REBOOTS = frozenset({"maintain"})  # kinds that end every pod of the node, also those that no drain moves


class Actor(Struct, frozen=True):
    """Who asks. `via`: web, api or console; somebody at a console is recorded, and never counts as a second person."""

    name: str
    role: str  # viewer, operator, approver
    via: str = "web"


class Right(Struct, frozen=True):
    """One verb in one place. `resource`: "pods/eviction", "nodes", "daemonsets.apps"; `namespace`: "" the whole cluster."""

    verb: str
    resource: str
    namespace: str = ""


class Permission(Struct, frozen=True):
    """Whether Vigie's own account has one right, from an access review."""

    verb: str
    resource: str
    namespace: str
    allowed: bool
    reason: str = ""


class Running(Struct, frozen=True):
    """Another action that has been confirmed and has not ended."""

    action: str
    kind: str
    target: str
    pool: str = ""
    zone: str = ""
    rack: str = ""
    since_at: float = 0.0  # confirmed for good


class Saved(Struct, frozen=True):
    """The newest complete checkpoint from which a training pod's workload can go on. `durable`: it outlives the pod and its node.
    `step_s`: seconds per step between its saves. `reported`: nobody has read it, the workload itself says so. `state_at`: what it
    holds may be as old as that, since a save begins with the state and ends with the commit, `at`."""

    at: float
    step: int | None = None
    durable: bool | None = None
    uri: str = ""
    step_s: float | None = None
    reported: bool = False
    state_at: float | None = None

    @property
    def lost_since_at(self) -> float:
        """From when on work is lost that goes on from here."""
        return self.at if self.state_at is None else self.state_at


class Unsaved(Struct, frozen=True):
    """Why no checkpoint of a training pod's workload is known. `why`: "none" (the store was read and holds none that is
    complete), "not-granted", "unreadable", "late" (no answer in time), "undeclared" (nobody says where), "local" (only its own
    pod or node could tell), "shared" (others save below the same directory, so whose they are is not known), "clock" (the newest
    is dated after it was seen, so how old it is is not known), "untimed" (it reports its saves, and nobody says how long they
    take, so how old the state in them is is not known)."""

    why: str
    durable: bool | None = None  # what is saved there
    uri: str = ""


class Owner(Struct, frozen=True):
    """The top controller of a pod. `replicas` None: it has no scale. `ready`: its Ready pods, None unknown. `retries`: so many
    more of its pods may fail before it gives up, None any number."""

    key: str
    kind: str
    name: str
    replicas: int | None = None
    ready: int | None = None
    retries: int | None = None


class Machine(Struct, frozen=True):
    """What is known of the target's GPUs: how old the last reading is and what stands against each (by index)."""

    measured: bool = False
    read_at: float | None = None
    silent: bool = False
    gpus: int | None = None  # in the machine
    troubles: tuple[tuple[int, str], ...] = ()
    in_use: int | None = None  # processes on its GPUs; None unknown


class Facts(Struct, frozen=True, dict=True):
    """Everything of one cluster that a decision about one target needs. `None`: we could not or may not read it."""

    cluster: str
    kind: str
    target: str
    actor: Actor
    now: float
    read_at: float  # when the oldest of this was read
    policy: Policy
    actions_allowed: bool  # the site lets Vigie change this cluster
    nodes: tuple[Node, ...] = ()
    pods: tuple[FullPod, ...] = ()  # of every node, and those that wait for one
    owners: Mapping[str, Owner] = {}  # by pod UID; without an entry: it has no controller
    daemon_sets: frozenset[str] | None = None
    budgets: tuple[Budget, ...] | None = None
    services: tuple[Service, ...] | None = None
    claims: Mapping[str, Claim] | None = None
    storage: Mapping[str, Storage] | None = None
    permissions: tuple[Permission, ...] = ()
    dry_runs: Mapping[str, Answer] = {}  # by pod UID: what the server says to an eviction that changes nothing
    running: tuple[Running, ...] = ()
    machine: Machine = Machine()
    degraded: frozenset[str] = frozenset()  # nodes with a GPU in trouble
    in_flight: Mapping[str, Measure] = {}  # requests by pod UID; no entry: it declares no metric
    warm_up_s: Mapping[str, Measure] = {}  # by owner key, measured from its earlier pods
    scratch_bytes: Mapping[str, Measure] = {}  # by "pod UID/volume"
    trainings: Mapping[str, Training] = {}  # by pod UID, of those that end with the action
    saved: Mapping[str, Saved] = {}  # by pod UID
    unsaved: Mapping[str, Unsaved] = {}  # by pod UID, of those in `saved` none
    save_first: bool = False  # whoever asks wants workloads to save before their pods go
    cordoned_by: str = ""  # the action or person that our annotation names
    picture_at: float | None = None
    release: Release | None = None  # of an action on a workload or a Service
    ending: frozenset[str] | None = None  # UIDs of the pods that end with it; None: those of the target, a node

    @cached_property
    def node(self) -> Node | None:
        return next((node for node in self.nodes if node.metadata.name == self.target), None)

    @cached_property
    def target_pods(self) -> tuple[FullPod, ...]:
        if self.ending is not None:
            return tuple(pod for pod in self.pods if pod.metadata.uid in self.ending)
        return tuple(pod for pod in self.pods if pod.spec.node_name == self.target)

    @cached_property
    def labelled(self) -> Labelled[FullPod]:
        found: Labelled[FullPod] = Labelled()
        for pod in self.pods:
            found.add(pod.metadata.namespace, pod.metadata.labels, pod)
        return found

    @cached_property
    def services_by_label(self) -> Mapping[tuple[str, str, str], list[Service]]:
        """Every service that selects anything, under its namespace and the first label that it asks for."""
        found: defaultdict[tuple[str, str, str], list[Service]] = defaultdict(list)
        for service in self.services or ():
            for name, value in tuple(service.spec.selector.items())[:1]:
                found[service.metadata.namespace, name, value].append(service)
        return found

    @cached_property
    def services_of(self) -> Mapping[str, list[Service]]:
        """By namespace."""
        found: defaultdict[str, list[Service]] = defaultdict(list)
        for service in self.services or ():
            found[service.metadata.namespace].append(service)
        return found

    @cached_property
    def of_owner(self) -> Mapping[str, list[FullPod]]:
        """The pods of each controller, by its key."""
        found: defaultdict[str, list[FullPod]] = defaultdict(list)
        for pod in self.pods:
            owner = self.owners.get(pod.metadata.uid)
            if owner is not None:
                found[owner.key].append(pod)
        return found

    @cached_property
    def over(self) -> Mapping[str, tuple[Budget, ...]]:
        """The budgets that select each of the target's pods, by UID."""
        found = self.budgets or ()
        return {pod.metadata.uid: tuple(b for b in found if covers(b, pod)) for pod in self.target_pods}

    @cached_property
    def allowances(self) -> Mapping[str, Allowance]:
        """The arithmetic of every budget over a pod of the target, by key. The server's own number counts where it is lower: with
        several budgets on one pod it may be stale, and a stale permission must not be used."""
        concerned = {budget.key: budget for mine in self.over.values() for budget in mine}
        return {key: self._allowance(budget) for key, budget in concerned.items()}

    def _allowance(self, budget: Budget) -> Allowance:
        near = self.labelled.near(budget.spec.selector, (budget.metadata.namespace,))
        pods = [(pod, self._scale(pod)) for pod in near if covers(budget, pod)]
        found = budgets.allowance(budget, pods, self.now)
        stated = budget.status.disruptions_allowed
        if budget.status.observed_generation < budget.metadata.generation or stated >= found.allowed:
            return found
        return Allowance(found.expected, found.healthy, found.desired, stated, budgets.standing(found, stated))

    def _scale(self, pod: FullPod) -> Scale | None:
        owner = self.owners.get(pod.metadata.uid)
        if owner is None:
            return None
        return Scale(owner.key, owner.replicas, known=owner.replicas is not None or owner.kind in SCALELESS)


def covers(budget: Budget, pod: FullPod) -> bool:
    return budget.metadata.namespace == pod.metadata.namespace and budgets.selects(
        budget.spec.selector, pod.metadata.labels
    )


def gpus(pod: FullPod) -> int:
    return sum(effective_requests(pod.spec).values())


def place(node: Node) -> tuple[str, str, str]:
    """Pool, zone and rack of a node, "" where no label tells."""
    labels = node.metadata.labels
    found = machines.machine(labels)
    return found.pool, found.zone, labels.get("topology.kubernetes.io/rack", "")


def serves(facts: Facts, pod: FullPod) -> bool:
    """Whether others send it requests: it says so, or a Service that is not headless selects it (peers of a training job find
    each other through a headless one)."""
    if said := role(pod):
        return said == "serving"
    if IN_FLIGHT in pod.metadata.annotations or spare(facts, pod):
        return True
    return any(service.spec.cluster_ip != "None" for service in selecting(facts, pod))


def spare(facts: Facts, pod: FullPod) -> bool:
    """Whether it may be of that side of a blue/green pair which nobody sends requests to: a server all the same."""
    labels, owner, told = pod.metadata.labels, facts.owners.get(pod.metadata.uid), facts.policy.blue_green.labels
    for service in facts.services_of.get(pod.metadata.namespace, ()):
        selector = service.spec.selector
        rest = {name: value for name, value in selector.items() if name not in told}
        by_custom = bool(rest) and rest != selector and any(name in labels for name in told)
        if by_custom and rest.items() <= labels.items() and service.spec.cluster_ip != "None":
            return True
        if owner is not None and owner.name in blue_green.declared(service):
            return True
    return False


def selecting(facts: Facts, pod: FullPod) -> list[Service]:
    """The Services that send requests to the pod."""
    labels = pod.metadata.labels
    return [
        service
        for label in labels.items()
        for service in facts.services_by_label.get((pod.metadata.namespace, *label), ())
        if service.spec.selector.items() <= labels.items()
    ]


def trains(facts: Facts, pod: FullPod) -> bool:
    """Whether work in progress would be lost with it: by the rule of `training`, and whatever has saved trains, unless it says
    that it serves."""
    owner = facts.owners.get(pod.metadata.uid)
    if pod.metadata.uid in facts.saved and not role(pod):
        return True
    return training.trains(pod, owner.kind if owner else "", serves=lambda: serves(facts, pod))


def workload(facts: Facts, pod: FullPod) -> str:
    """The key of what a pod belongs to: its top controller, or itself."""
    owner = facts.owners.get(pod.metadata.uid)
    return workload_of(pod, owner.key if owner else "")


def saved(facts: Facts, pod: FullPod) -> Saved | None:
    """Its newest complete checkpoint. One from the future was dated by another clock: how old it is, nobody knows."""
    found = facts.saved.get(pod.metadata.uid)
    return None if found is None or found.at > facts.now + CLOCKS_S else found
