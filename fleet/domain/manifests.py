"""Kubernetes objects as people write them: workloads, Services, budgets, autoscalers and claims, each field with its line.

Owns the shape of what the rules of restart readiness read, from a file or from the API server alike, and where in a file a field
stands. Must not judge an object; `documents` makes these of plain values.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, field

from fleet.domain.objects import Budget, JobSpec, Metadata, Object, Part
from fleet.domain.specs import Claim, FullContainer, FullPodSpec, PodTerm

Path = tuple[str | int, ...]
Port = int | str
Amount = int | str  # a count, or a percentage


# Probes and hooks


class HttpGet(Part, frozen=True):
    path: str = ""
    port: Port = 0
    scheme: str = "HTTP"
    host: str = ""


class TcpSocket(Part, frozen=True):
    port: Port = 0
    host: str = ""


class Grpc(Part, frozen=True):
    port: int = 0
    service: str = ""


class Exec(Part, frozen=True):
    command: tuple[str, ...] = ()


class Probe(Part, frozen=True):
    """A zero counts as absent where the API server sets a default for it."""

    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    grpc: Grpc | None = None
    exec: Exec | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    failure_threshold: int = 3
    success_threshold: int = 1

    @property
    def delay_s(self) -> int:
        return max(0, self.initial_delay_seconds)

    @property
    def period_s(self) -> int:
        return self.period_seconds if self.period_seconds > 0 else 10

    @property
    def timeout_s(self) -> int:
        return self.timeout_seconds if self.timeout_seconds > 0 else 1

    @property
    def failures(self) -> int:
        return self.failure_threshold if self.failure_threshold > 0 else 3

    @property
    def handler(self) -> tuple[object, ...]:
        return self.http_get, self.tcp_socket, self.grpc, self.exec

    @property
    def guaranteed_s(self) -> int:
        """No probe counts before the delay; the N-th failure may come N - 1 periods later (kubelet, prober/worker.go)."""
        return self.delay_s + (self.failures - 1) * self.period_s

    @property
    def nominal_s(self) -> int:
        """And at the latest a period after that; the last probe may take its timeout besides."""
        return self.delay_s + self.failures * self.period_s


class Sleep(Part, frozen=True):
    seconds: int = 0


class Hook(Part, frozen=True):
    exec: Exec | None = None
    http_get: HttpGet | None = None
    sleep: Sleep | None = None


class Lifecycle(Part, frozen=True):
    pre_stop: Hook | None = None


class Container(FullContainer, frozen=True):
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    lifecycle: Lifecycle | None = None

    @property
    def pre_stop(self) -> Hook | None:
        return self.lifecycle.pre_stop if self.lifecycle else None


class Template(FullPodSpec, frozen=True):
    """The spec of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    share_process_namespace: bool = False

    @property
    def grace_s(self) -> int:
        told = self.termination_grace_period_seconds
        return 30 if told is None else told


class PodTemplate(Part, frozen=True):
    metadata: Metadata = Metadata()
    spec: Template = Template()


# Kinds


class RollingUpdate(Part, frozen=True):
    max_surge: Amount | None = None
    max_unavailable: Amount | None = None


class Strategy(Part, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class DeploymentSpec(Part, frozen=True):
    replicas: int | None = None
    template: PodTemplate = PodTemplate()
    strategy: Strategy = Strategy()
    min_ready_seconds: int = 0
    progress_deadline_seconds: int = 600


class Deployment(Object, frozen=True):
    spec: DeploymentSpec = DeploymentSpec()


class ReplicatedSpec(Part, frozen=True):
    """Of the other kinds whose pods serve; a DaemonSet has no count. `service_name`: by which a StatefulSet's pods find each
    other."""

    replicas: int | None = None
    service_name: str = ""
    template: PodTemplate = PodTemplate()
    min_ready_seconds: int = 0


class StatefulSet(Object, frozen=True):
    spec: ReplicatedSpec = ReplicatedSpec()


class ReplicaSet(Object, frozen=True):
    spec: ReplicatedSpec = ReplicatedSpec()


class DaemonSet(Object, frozen=True):
    spec: ReplicatedSpec = ReplicatedSpec()


class BatchSpec(JobSpec, frozen=True):
    template: PodTemplate = PodTemplate()  # type: ignore[assignment]


class Job(Object, frozen=True):
    spec: BatchSpec = BatchSpec()


class JobTemplate(Part, frozen=True):
    spec: BatchSpec = BatchSpec()


class CronJobSpec(Part, frozen=True):
    job_template: JobTemplate = JobTemplate()


class CronJob(Object, frozen=True):
    spec: CronJobSpec = CronJobSpec()


class Pod(Object, frozen=True):
    spec: Template = Template()


class ServicePort(Part, frozen=True):
    name: str = ""
    port: int = 0
    target_port: Port | None = None


class ServiceSpec(Part, frozen=True):
    selector: dict[str, str] = field(default_factory=dict)
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False
    cluster_ip: str = field(default="", name="clusterIP")


class Service(Object, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ScaleTarget(Part, frozen=True):
    kind: str = ""
    name: str = ""


class AutoscalerSpec(Part, frozen=True):
    scale_target_ref: ScaleTarget = ScaleTarget()
    min_replicas: int = 1
    max_replicas: int = 1


class Autoscaler(Object, frozen=True):
    spec: AutoscalerSpec = AutoscalerSpec()


KINDS: Final[Mapping[tuple[str, str], type[Object]]] = {
    ("apps", "Deployment"): Deployment,
    ("apps", "StatefulSet"): StatefulSet,
    ("apps", "DaemonSet"): DaemonSet,
    ("apps", "ReplicaSet"): ReplicaSet,
    ("batch", "Job"): Job,
    ("batch", "CronJob"): CronJob,
    ("", "Pod"): Pod,
    ("", "Service"): Service,
    ("policy", "PodDisruptionBudget"): Budget,
    ("autoscaling", "HorizontalPodAutoscaler"): Autoscaler,
    ("", "PersistentVolumeClaim"): Claim,
}
_NAMES: Final = {type_: name for (_, name), type_ in KINDS.items()}
GROUPS: Final = {name: group for group, name in KINDS}


class Manifest(Struct, frozen=True):
    """One object, and where its fields stand."""

    object: Object
    file: str = ""
    line: int = 0
    lines: Mapping[Path, int] = {}
    root: Path = ()  # of the object in its document: an item of a List

    @property
    def kind(self) -> str:
        return _NAMES[type(self.object)]

    @property
    def namespace(self) -> str:
        return self.object.metadata.namespace

    @property
    def key(self) -> str:
        """ "Deployment/chat/llm"; without a namespace, the one of whoever applies it, "Deployment//llm"."""
        return f"{self.kind}/{self.namespace}/{self.object.metadata.name}"

    def line_of(self, path: Path) -> int:
        """Of the field, or of the nearest one around it that is written; 0 where there is no file."""
        whole = (*self.root, *path)
        for length in range(len(whole), len(self.root) - 1, -1):
            if (line := self.lines.get(whole[:length])) is not None:
                return line
        return self.line


def containers(at: Path, spec: Template) -> Iterator[tuple[Path, Container]]:
    """Every container, those that only begin the pod first; `at`: of the template."""
    for i, container in enumerate(spec.init_containers):
        yield (*at, "spec", "initContainers", i), container
    for i, container in enumerate(spec.containers):
        yield (*at, "spec", "containers", i), container


def apart(spec: Template) -> tuple[PodTerm, ...]:
    """Which pods it keeps away from, or would rather."""
    anti = spec.affinity.pod_anti_affinity if spec.affinity else None
    return (*anti.required, *(each.pod_affinity_term for each in anti.preferred)) if anti else ()


def template(found: Object) -> tuple[Path, PodTemplate | None]:
    """Where a workload's pod template stands, and the template; (), None: it makes no pods."""
    match found:
        case Deployment() | StatefulSet() | DaemonSet() | ReplicaSet() | Job():
            return ("spec", "template"), found.spec.template
        case CronJob():
            return ("spec", "jobTemplate", "spec", "template"), found.spec.job_template.spec.template
        case Pod():
            return (), PodTemplate(found.metadata, found.spec)
        case _:
            return (), None


def is_amount(amount: Amount | None) -> bool:
    if amount is None or isinstance(amount, int):
        return amount is None or 0 <= amount < 2**31
    return bool(re.fullmatch(r"[0-9]{1,9}%", amount))
