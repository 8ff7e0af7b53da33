"""What trains, and where it saves: as a pod declares it, as its command line shows, or as an operator has recorded it.

Owns the annotations about checkpoints and the rule of what counts as training. Must not read a checkpoint, nor judge how fresh
one is (`freshness` does).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from fleet.domain import durations, machines, save_sites
from fleet.domain.capacity import effective_requests
from fleet.domain.objects import Pod
from fleet.domain.save_sites import Durability, Site, Volumes
from fleet.domain.specs import FullContainer, FullPod

ROLE: Final = "vigie.dev/role"  # "training" or "serving", where nothing else tells
URI: Final = "vigie.dev/checkpoint-uri"
FORMAT: Final = "vigie.dev/checkpoint-format"
INTERVAL: Final = "vigie.dev/checkpoint-interval"
HOOK: Final = "vigie.dev/checkpoint-hook"
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
KINDS: Final = frozenset(
    {"PyTorchJob", "TFJob", "MPIJob", "JAXJob", "XGBoostJob", "PaddleJob", "TrainJob", "JobSet", "RayJob"}
)
# The pods of one job on several nodes: none goes on without the others, also where one of them holds no GPU.
GANG: tuple[str, ...] = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
    "leaderworkerset.sigs.k8s.io/name",
)
LEAST_INTERVAL_S: Final = 1.0
LONGEST_INTERVAL_S: Final = 30 * 86_400.0


class Source(StrEnum):
    """Who says where it saves."""

    ANNOTATION = "annotation"
    ARGUMENT = "argument"
    ENVIRONMENT = "environment"
    RECORD = "record"
    NONE = "none"


class Life(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"
    FINISHED = "finished"


class Signal(StrEnum):
    USR1 = "USR1"
    USR2 = "USR2"
    TERM = "TERM"
    HUP = "HUP"


class Hook(Struct, frozen=True):
    """How to ask it for a checkpoint: a POST to `path` on `port` of that pod, or `signal` to PID 1 of `container`."""

    port: int = 0
    path: str = ""
    signal: Signal | None = None
    container: str = ""


class Record(Struct, frozen=True):
    """What an operator has noted about a workload. `uri`: a path in the container, or an address."""

    uri: str = ""
    format: str = ""
    interval_s: float | None = None


class Training(Struct, frozen=True):
    """One workload that trains. `workload`: its key in the picture. `uri`: see `save_sites.Site`, "" unknown; `place`: as it was
    declared. `unread`: annotations that make no sense, which count as not there."""

    workload: str
    namespace: str
    uri: str = ""
    place: str = ""
    format: str = ""
    interval_s: float | None = None  # the target; None: nobody says
    source: Source = Source.NONE
    durability: Durability = Durability.UNKNOWN
    volume: str = ""
    claim: str = ""
    shared: bool = False
    hook: Hook | None = None
    team: str = ""
    life: Life = Life.ACTIVE
    started_at: float | None = None  # the workload, if that is known, else the pod
    running_since_at: float | None = None  # its youngest pod
    pods: int = 1  # that train together
    bound: bool = False  # its kind or a label says that they do; else each may be a run of its own
    unread: tuple[str, ...] = ()

    @property
    def apart(self) -> bool:
        """Whether its pods may save each for itself: nothing says that they are ranks of one run."""
        return self.pods > 1 and not self.bound

    @property
    def durable(self) -> bool | None:
        """Whether what it saves outlives its pods and their nodes; None: nobody knows."""
        if self.durability in {Durability.UNKNOWN, Durability.REPORTED}:
            return None
        return self.durability in {Durability.DURABLE, Durability.OBJECT}


def trains(pod: FullPod, owner_kind: str, *, serves: Callable[[], bool]) -> bool:
    """Whether work in progress would be lost with the pod: it says so, or where it saves, its kind trains, it belongs to a gang,
    or it holds GPUs and serves nobody, or is meant to end some day: a batch job is no server, whatever Service fetches its
    metrics. When in doubt it does: what nobody declared may be somebody's week."""
    if said := role(pod):
        return said == "training"
    if declares(pod) or owner_kind in KINDS:
        return True
    if gang_labels(pod):
        return True
    holds = sum(effective_requests(pod.spec).values()) > 0
    return holds and (pod.spec.restart_policy in {"Never", "OnFailure"} or not serves())


def role(pod: Pod) -> str:
    """Its role in its own words, "" for any word that is none of the two: a slip of the pen is no way round a guard."""
    said = pod.metadata.annotations.get(ROLE, "").strip().lower()
    return said if said in {"training", "serving"} else ""


def declares(pod: Pod) -> bool:
    """Whether its annotations alone say that it trains."""
    return role(pod) == "training" or (not role(pod) and bool({URI, HOOK} & pod.metadata.annotations.keys()))


def gang_labels(pod: Pod) -> dict[str, str]:
    """The labels that name the job on several nodes that it belongs to."""
    return {name: pod.metadata.labels[name] for name in GANG if name in pod.metadata.labels}


def workload_of(pod: FullPod, owner_key: str) -> str:
    """Its key: the owner's, or its own where nothing owns it."""
    return owner_key or f"Pod/{pod.metadata.namespace}/{pod.metadata.name}"


def training(
    pod: FullPod,
    workload: str,
    records: Mapping[str, Record],
    volumes: Volumes,
    *,
    reported: bool = False,
) -> Training:
    """What one pod of a workload that trains declares, and where that leads. `records` by workload; `reported`: policy trusts the
    trainer's own reports, which then stand in where no place is known. Times, life and the number of pods are left out."""
    notes, record = pod.metadata.annotations, records.get(workload, Record())
    place, source, containers = _place(pod, record)
    where = save_sites.site(pod, containers, place, volumes) if place else Site()
    if not place and reported:
        where = Site(durability=Durability.REPORTED)
    interval_s, hook = _interval(notes.get(INTERVAL, "")), hook_of(pod)
    unread = [INTERVAL] if INTERVAL in notes and interval_s is None else []
    unread += [HOOK] if HOOK in notes and hook is None else []
    unread += [URI] if URI in notes and not where.uri and source is Source.ANNOTATION else []
    return Training(
        workload=workload,
        namespace=pod.metadata.namespace,
        uri=where.uri,
        place=place,
        format=notes.get(FORMAT, "").strip()[:40] or record.format,
        interval_s=record.interval_s if interval_s is None else interval_s,
        source=source,
        durability=where.durability,
        volume=where.volume,
        claim=where.claim,
        shared=where.shared,
        hook=hook,
        team=machines.first(pod.metadata.labels, machines.TEAM),
        bound=bool(gang_labels(pod)) or workload.partition("/")[0] in KINDS,
        unread=tuple(unread),
    )


def _place(pod: FullPod, record: Record) -> tuple[str, Source, Sequence[FullContainer]]:
    """Where it saves, who says so, and the containers that this is said of."""
    trainers = _trainers(pod)
    if said := pod.metadata.annotations.get(URI, "").strip():
        return said[: save_sites.LONGEST_PLACE + 1], Source.ANNOTATION, trainers
    for source, found in ((Source.ARGUMENT, save_sites.of_arguments), (Source.ENVIRONMENT, save_sites.of_environment)):
        for container in trainers:
            if place := found(container):
                return place, source, (container,)
    return (record.uri, Source.RECORD, trainers) if record.uri else ("", Source.NONE, ())


def _trainers(pod: FullPod) -> Sequence[FullContainer]:
    """The containers of which one trains: those that hold GPUs, else all; of several, the one that the pod names first. Others
    beside them put something else somewhere else."""
    found = [each for each in pod.spec.containers if _holds_gpus(each)] or pod.spec.containers
    named = pod.metadata.annotations.get(DEFAULT_CONTAINER)
    return [each for each in found if each.name == named] or found


def _holds_gpus(container: FullContainer) -> bool:
    asked = {*container.resources.requests, *container.resources.limits}
    return any("gpu" in name or name.startswith("nvidia.com/mig-") for name in asked)


def _interval(said: str) -> float | None:
    try:
        found = durations.parse(said) if said else None
    except durations.DurationError:
        return None
    return found if found is not None and LEAST_INTERVAL_S <= found <= LONGEST_INTERVAL_S else None


_HTTP: Final = re.compile(r"http:(\d{1,5})(/[!-~]{0,999})")
_SIGNAL: Final = re.compile(rf"signal:({'|'.join(Signal)}):([a-z0-9](?:[a-z0-9-]{{0,61}}[a-z0-9])?)")


def hook_of(pod: FullPod) -> Hook | None:
    """How the pod wants to be asked for a checkpoint: "http:8080/save" or "signal:USR1:trainer"; None: it says nothing, or
    nothing that can be done. A path leads nowhere but to the pod, a container is one of its own."""
    said = pod.metadata.annotations.get(HOOK, "").strip()
    if (http := _HTTP.fullmatch(said)) and 0 < int(http[1]) < 65536 and _stays(http[2]):
        return Hook(port=int(http[1]), path=http[2])
    signal = _SIGNAL.fullmatch(said)
    if signal and signal[2] in {each.name for each in pod.spec.containers}:
        return Hook(signal=Signal(signal[1]), container=signal[2])
    return None


def _stays(path: str) -> bool:
    """No way up, written out or encoded, no query and no fragment: the path is all that is sent."""
    return not re.search(r"[?#\\]|//|%(?:2e|2f|5c)|/\.{1,2}(?:/|$)", path, re.IGNORECASE)
