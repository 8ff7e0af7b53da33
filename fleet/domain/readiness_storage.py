"""Rules R12 to R15: whether what a workload writes outlives its pods, and whether two pods can hold its volume at once.

Owns their conditions and remedies. Where a path leads is `save_sites`' to tell; a claim that nobody shows is no claim of a mode.
"""

from collections.abc import Iterator
from typing import Final

from fleet.domain import save_sites
from fleet.domain.manifests import Container, Path
from fleet.domain.readiness_subjects import Finding, Rule, Severity, Subject
from fleet.domain.save_sites import Durability, Site, Volumes
from fleet.domain.snippets import Value
from fleet.domain.specs import Claim, FullPod, FullVolume

CLAIM: Final = "checkpoints"  # of a claim that we suggest: it has to be made
ONE_NODE: Final = "ReadWriteOnce"
ONE_POD: Final = "ReadWriteOncePod"


def findings(subject: Subject) -> Iterator[Finding]:
    for path, container in subject.containers():
        place = save_sites.of_arguments(container) or save_sites.of_environment(container)
        if place:
            yield from _checkpoint(subject, path, container, place)
    yield from _surge_with_one_volume(subject)
    yield from _shared_volume(subject)


def _checkpoint(subject: Subject, path: Path, container: Container, place: str) -> Iterator[Finding]:
    """R12 and R13."""
    pod = FullPod(subject.template.metadata, subject.template.spec)
    found = save_sites.site(pod, (container,), place, Volumes())
    if found.durability is Durability.POD and not found.volume:
        remedy = _mounted(subject, path, container, place)
        yield subject.finding(
            Rule.CHECKPOINT_IN_CONTAINER, Severity.ERROR, path, remedy, container=container.name, place=place
        )
    elif found.volume:
        yield from _scratch(subject, container, place, found)


def _mounted(subject: Subject, path: Path, container: Container, place: str) -> Value:
    mount: Value = [{"name": CLAIM, "mountPath": place}]
    return subject.patch(
        {
            str(path[-2]): [{"name": container.name, "volumeMounts": mount}],
            "volumes": [{"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}}],
        }
    )


def _scratch(subject: Subject, container: Container, place: str, site: Site) -> Iterator[Finding]:
    i, volume = next((i, v) for i, v in enumerate(subject.template.spec.volumes) if v.name == site.volume)
    case = _case(volume)
    if not case:
        return
    gone = {"hostPath": None} if case == "host" else {"ephemeral": None} if case == "ephemeral" else {"emptyDir": None}
    lasting: Value = {"name": volume.name, **gone, "persistentVolumeClaim": {"claimName": CLAIM}}
    yield subject.finding(
        Rule.CHECKPOINT_ON_SCRATCH,
        Severity.WARNING if case == "host" else Severity.ERROR,
        (*subject.at, "spec", "volumes", i),
        subject.patch({"volumes": [lasting]}),
        case,
        container=container.name,
        place=place,
        volume=volume.name,
    )


def _case(volume: FullVolume) -> str:
    if volume.empty_dir is not None:
        return "memory" if volume.empty_dir.get("medium") == "Memory" else "empty"
    if volume.ephemeral is not None:
        return "ephemeral"
    return "host" if volume.host_path is not None else ""


def _once(subject: Subject) -> Iterator[tuple[int, Claim]]:
    """The pod's volumes whose claim one node, or one pod, can have at a time."""
    for i, volume in enumerate(subject.template.spec.volumes):
        source = volume.persistent_volume_claim
        claim = subject.claims.get(source.claim_name) if source else None
        if claim is not None and claim.spec.access_modes and {*claim.spec.access_modes} <= {ONE_NODE, ONE_POD}:
            yield i, claim


def holds_one_volume(subject: Subject) -> bool:
    return any(True for _ in _once(subject))


def _surge_with_one_volume(subject: Subject) -> Iterator[Finding]:
    """R14: a pod more waits for the volume that the old one gives up only when it goes."""
    if not subject.rolls or not subject.replicas:
        return
    surge, unavailable = subject.bounds
    if surge < 1:
        return
    for i, claim in _once(subject):
        pod_alone = ONE_POD in claim.spec.access_modes
        stuck = unavailable == 0 or pod_alone
        remedy: Value = {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}
        yield subject.finding(
            Rule.SURGE_WITH_ONE_VOLUME,
            Severity.ERROR if stuck else Severity.WARNING,
            (*subject.at, "spec", "volumes", i),
            remedy,
            "pod" if pod_alone else "node" if stuck else "slow",
            claim=claim.metadata.name,
            surge=surge,
        )


def _shared_volume(subject: Subject) -> Iterator[Finding]:
    """R15."""
    if subject.deployment is None or (subject.replicas or 0) < 2:
        return
    for i, claim in _once(subject):
        remedy: Value = {"spec": {"accessModes": ["ReadWriteMany"]}}
        yield subject.finding(
            Rule.SHARED_VOLUME,
            Severity.ERROR,
            (*subject.at, "spec", "volumes", i),
            remedy,
            claim=claim.metadata.name,
            replicas=subject.replicas or 0,
        )
