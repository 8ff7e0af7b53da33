"""Pods, claims and volumes with everything that a decision about them reads.

Owns what `objects` leaves out to keep the watch small: affinity, tolerations, ports, volumes, commands. Must not decide anything.
"""

from msgspec import field

from fleet.domain import objects
from fleet.domain.objects import LabelSelector, Metadata, Object, Part, Requirement


class Toleration(Part, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class NodeTerm(Part, frozen=True):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeTerms(Part, frozen=True):
    node_selector_terms: tuple[NodeTerm, ...] = ()


class NodeAffinity(Part, frozen=True):
    required: NodeTerms | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodTerm(Part, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class WeightedPodTerm(Part, frozen=True):
    pod_affinity_term: PodTerm = PodTerm()


class PodAffinity(Part, frozen=True):
    required: tuple[PodTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WeightedPodTerm, ...] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(Part, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Spread(Part, frozen=True):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None


class Port(Part, frozen=True):
    container_port: int = 0
    host_port: int = 0
    name: str = ""
    protocol: str = "TCP"


class Variable(Part, frozen=True):
    """Of a container's environment; one that is taken from elsewhere (a Secret, the pod's own fields) has no value here."""

    name: str = ""
    value: str = ""


class Mount(Part, frozen=True):
    name: str = ""  # of the volume
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""  # the same with $(VARIABLES) in it
    read_only: bool = False


class FullContainer(objects.Container, frozen=True):
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    env: tuple[Variable, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()


class EmptyDir(Part, frozen=True):
    medium: str = ""
    size_limit: str = ""


class ClaimSource(Part, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class HostPath(Part, frozen=True):
    path: str = ""


class FullVolume(objects.Volume, frozen=True):
    persistent_volume_claim: ClaimSource | None = None
    host_path: HostPath | None = None
    ephemeral: dict[str, object] | None = None


class FullPodSpec(objects.PodSpec, frozen=True):
    containers: tuple[FullContainer, ...] = ()
    init_containers: tuple[FullContainer, ...] = ()
    volumes: tuple[FullVolume, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[Spread, ...] = ()
    overhead: dict[str, str] = field(default_factory=dict)
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    host_network: bool = False
    restart_policy: str = ""


class FullPod(objects.Pod, frozen=True):
    """A pod with everything that a decision about it reads."""

    spec: FullPodSpec = FullPodSpec()


class ClaimSpec(Part, frozen=True):
    access_modes: tuple[str, ...] = ()
    volume_name: str = ""
    storage_class_name: str = ""


class Claim(Object, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: Metadata
    spec: ClaimSpec = ClaimSpec()


class VolumeAffinity(Part, frozen=True):
    required: NodeTerms | None = None


class StorageSpec(Part, frozen=True):
    node_affinity: VolumeAffinity | None = None
    local: dict[str, object] | None = None
    host_path: HostPath | None = None


class Storage(Object, frozen=True):
    """A PersistentVolume."""

    metadata: Metadata
    spec: StorageSpec = StorageSpec()
