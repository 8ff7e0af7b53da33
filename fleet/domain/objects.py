"""The Kubernetes objects that we read, as typed structs with only the fields used.

Owns the shape of the API's JSON: attribute names are the API's in snake case, an absent field has the API's zero value,
`None` says that it was absent. Quantities stay text (`quantities` reads them). Must not decide anything
about what the objects mean. `kube` decodes them and offers them under its own name.
"""

from datetime import datetime

from msgspec import Struct, field


class Part(Struct, frozen=True, gc=False, rename="camel"):
    """Base of every struct here. `gc=False`: they are trees, and a fleet has a million of them."""


class OwnerReference(Part, frozen=True):
    kind: str
    name: str
    uid: str = ""
    controller: bool = False


class Metadata(Part, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()


class Object(Part, frozen=True):
    """Base of the kinds."""

    metadata: Metadata

    @property
    def key(self) -> str:
        """ "namespace/name", or the name alone where the kind has no namespaces."""
        return f"{self.metadata.namespace}/{self.metadata.name}" if self.metadata.namespace else self.metadata.name

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages this object."""
        return next((o for o in self.metadata.owner_references if o.controller), None)


class Condition(Part, frozen=True):
    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    last_update_time: datetime | None = None  # only a Deployment's conditions have it


class Requirement(Part, frozen=True):
    """One of a selector's `matchExpressions`."""

    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist
    values: tuple[str, ...] = ()


class LabelSelector(Part, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class Taint(Part, frozen=True):
    key: str
    effect: str
    value: str = ""
    time_added: datetime | None = None


class ManagedSpec(Part, frozen=True):
    unschedulable: dict[str, str] | None = field(default=None, name="f:unschedulable")


class ManagedFields(Part, frozen=True):
    spec: ManagedSpec = field(default=ManagedSpec(), name="f:spec")


class ManagedEntry(Part, frozen=True):
    """Who set which fields; of the fields we read the cordon alone."""

    manager: str = ""
    time: datetime | None = None
    fields: ManagedFields = field(default=ManagedFields(), name="fieldsV1")


class NodeMetadata(Metadata, frozen=True):
    managed_fields: tuple[ManagedEntry, ...] = ()


class NodeSpec(Part, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeAddress(Part, frozen=True):
    type: str
    address: str


class NodeInfo(Part, frozen=True):
    boot_id: str = field(default="", name="bootID")
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""


class NodeStatus(Part, frozen=True):
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(Object, frozen=True):
    metadata: NodeMetadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Requests(Part, frozen=True):
    """A container's `resources`."""

    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class Container(Part, frozen=True):
    name: str
    resources: Requests = Requests()
    restart_policy: str = ""  # "Always" makes an init container a sidecar


class Named(Part, frozen=True):
    """Anything of which only the name counts, such as a resource claim (dynamic resource allocation)."""

    name: str


class Volume(Part, frozen=True):
    name: str
    empty_dir: dict[str, str] | None = None


class PodSpec(Part, frozen=True):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_selector: dict[str, str] = {}
    termination_grace_period_seconds: int | None = None
    resource_claims: tuple[Named, ...] = ()


class Waiting(Part, frozen=True):
    reason: str = ""
    message: str = ""


class Running(Part, frozen=True):
    """Its presence is all that is asked."""


class Terminated(Part, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""  # what the container left, or the end of its log (terminationMessagePolicy)


class ContainerState(Part, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Part, frozen=True):
    name: str = ""
    ready: bool = False
    started: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Part, frozen=True):
    phase: str = ""
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Probe(Part, frozen=True):
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    failure_threshold: int = 3


class TemplateContainer(Container, frozen=True):
    startup_probe: Probe | None = None


class TemplateSpec(PodSpec, frozen=True):
    containers: tuple[TemplateContainer, ...] = ()


class PodTemplate(Part, frozen=True):
    metadata: Metadata = Metadata()
    spec: TemplateSpec = TemplateSpec()


class RollingUpdate(Part, frozen=True):
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None
    partition: int | None = None


class UpdateStrategy(Part, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(Part, frozen=True):
    replicas: int = 1
    paused: bool = False
    strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    progress_deadline_seconds: int = 600
    template: PodTemplate = PodTemplate()


class ReplicaSetStatus(Part, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0


class DeploymentStatus(ReplicaSetStatus, frozen=True):
    updated_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class Deployment(Object, frozen=True):
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicatedSpec(Part, frozen=True):
    """What a ReplicaSet and a StatefulSet ask for."""

    replicas: int = 1
    template: PodTemplate = PodTemplate()


class ReplicaSet(Object, frozen=True):
    spec: ReplicatedSpec = ReplicatedSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class StatefulSetSpec(ReplicatedSpec, frozen=True):
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0


class StatefulSetStatus(ReplicaSetStatus, frozen=True):
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(Object, frozen=True):
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(Part, frozen=True):
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    template: PodTemplate = PodTemplate()


class DaemonSetStatus(Part, frozen=True):
    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_ready: int = 0
    number_available: int = 0


class DaemonSet(Object, frozen=True):
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class PodConditionPattern(Part, frozen=True):
    type: str = ""
    status: str = "True"


class PodFailureRule(Part, frozen=True):
    action: str = ""
    on_pod_conditions: tuple[PodConditionPattern, ...] = ()


class PodFailurePolicy(Part, frozen=True):
    rules: tuple[PodFailureRule, ...] = ()


class JobSpec(Part, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    suspend: bool = False
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    template: PodTemplate = PodTemplate()


class JobStatus(Part, frozen=True):
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class ServiceSpec(Part, frozen=True):
    selector: dict[str, str] = {}
    cluster_ip: str = field(default="", name="clusterIP")  # "None": headless, peers find each other by it
    session_affinity: str = ""


class Service(Object, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ObjectReference(Part, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class BudgetSpec(Part, frozen=True):
    """`selector`: absent selects nothing, empty selects everything in the namespace (policy/v1)."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str = ""  # "" is IfHealthyBudget


class BudgetStatus(Part, frozen=True):
    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, datetime] = {}  # evicted, and not known to be gone yet
    conditions: tuple[Condition, ...] = ()


class Budget(Object, frozen=True):
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


def seconds(moment: datetime | None) -> float | None:
    """A moment of the API as seconds since 1970."""
    return None if moment is None else moment.timestamp()
