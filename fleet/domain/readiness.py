"""Restart readiness: what of a workload's manifests makes a restart lose work, requests or the workload itself.

Owns how objects are brought together for the rules (which Services, budgets, claims and autoscaler are a workload's), and the
order of findings. The rules are in `readiness_*`, numbered as in the reference on checkpoints and failover; nothing here is a
guess: what nobody has measured or declared, no rule counts with.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, structs

from fleet.domain import (
    manifests,
    readiness_budgets,
    readiness_pods,
    readiness_probes,
    readiness_rollouts,
    readiness_stops,
    readiness_storage,
)
from fleet.domain.budgets import selects
from fleet.domain.manifests import Autoscaler, Manifest, Service, StatefulSet
from fleet.domain.objects import Budget, Object
from fleet.domain.readiness_subjects import (
    Finding,
    Load,
    Room,
    Rule,
    Severity,
    Subject,
    Times,
    serves,
    times,
)
from fleet.domain.specs import Claim

__all__ = [
    "Doubt",
    "Finding",
    "Load",
    "Report",
    "Room",
    "Rule",
    "Severity",
    "Subject",
    "Times",
    "live",
    "report",
    "subjects",
]

SEVERITIES = tuple(Severity)  # the worst first
_RULES = (
    readiness_probes.findings,
    readiness_stops.findings,
    readiness_storage.findings,
    readiness_rollouts.findings,
    readiness_budgets.findings,
    readiness_pods.findings,
)


class Doubt(Struct, frozen=True):
    """An annotation that is no duration, so that nothing is known that it should tell."""

    file: str
    line: int
    object: str
    annotation: str


class Report(Struct, frozen=True):
    """`findings`: the files in their order and the lines in theirs, live ones by object; `subjects`: the workloads judged."""

    findings: tuple[Finding, ...]
    subjects: tuple[Subject, ...]
    doubts: tuple[Doubt, ...] = ()

    @property
    def counts(self) -> Mapping[Severity, int]:
        found = Counter(one.severity for one in self.findings)
        return {severity: found[severity] for severity in SEVERITIES}

    def by_workload(self) -> dict[str, tuple[Finding, ...]]:
        """Everything about each workload: its own findings, and those of its Services and budgets."""
        own: defaultdict[str, list[Finding]] = defaultdict(list)
        for one in self.findings:
            own[one.object].append(one)
        return {
            subject.manifest.key: tuple(
                one for each in (subject.manifest, *subject.services, *subject.budgets) for one in own[each.key]
            )
            for subject in self.subjects
        }


def report(found: Iterable[Manifest]) -> Report:
    """Over files: every object that they hold, and nothing else."""
    everything = tuple(found)
    return _report(everything, subjects(everything))


def live(found: Iterable[Manifest], loads: Mapping[str, Load], room: Callable[[Subject], Room | None]) -> Report:
    """Over a cluster. `loads`: measured, by workload ("Deployment/chat/llm"); `room`: what there is for a workload now."""
    everything = tuple(found)
    return _report(everything, subjects(everything, loads, room))


def subjects(
    found: Sequence[Manifest],
    loads: Mapping[str, Load] | None = None,
    room: Callable[[Subject], Room | None] | None = None,
) -> tuple[Subject, ...]:
    """The workloads that nothing else owns, each with what is around it in its namespace."""
    around = _Around(found)
    judged = []
    for one in found:
        at, template = manifests.template(one.object)
        if template is None or (one.object.controller is not None):
            continue
        subject = around.subject(one, at, template, (loads or {}).get(one.key))
        judged.append(subject if room is None else _with_room(subject, room(subject)))
    return tuple(judged)


def _with_room(subject: Subject, room: Room | None) -> Subject:
    return structs.replace(subject, room=room)


class _Around:
    """Services, budgets, claims and autoscalers by namespace."""

    def __init__(self, found: Iterable[Manifest]) -> None:
        self.services: defaultdict[str, list[Manifest]] = defaultdict(list)
        self.budgets: defaultdict[str, list[Manifest]] = defaultdict(list)
        self.claims: defaultdict[str, dict[str, Claim]] = defaultdict(dict)
        self.scalers: dict[tuple[str, str, str], Autoscaler] = {}
        for one in found:
            self._add(one)

    def _add(self, one: Manifest) -> None:
        match one.object:
            case Service():
                self.services[one.namespace].append(one)
            case Budget():
                self.budgets[one.namespace].append(one)
            case Claim() as claim:
                self.claims[one.namespace][claim.metadata.name] = claim
            case Autoscaler() as scaler:
                target = scaler.spec.scale_target_ref
                self.scalers[one.namespace, target.kind, target.name] = scaler

    def subject(
        self, one: Manifest, at: manifests.Path, template: manifests.PodTemplate, measured: Load | None
    ) -> Subject:
        labels, space = template.metadata.labels, one.namespace
        return Subject(
            one,
            template,
            at,
            tuple(s for s in self.services[space] if _sends_requests(s.object, one.object, labels)),
            tuple(
                b
                for b in self.budgets[space]
                if isinstance(b.object, Budget) and selects(b.object.spec.selector, labels)
            ),
            self.claims[space],
            self.scalers.get((space, one.kind, one.object.metadata.name)),
            times(one, template, measured),
        )


def _sends_requests(service: Object, workload: Object, labels: Mapping[str, str]) -> bool:
    """A headless Service that a StatefulSet names as its own gives its pods names for each other, and is no way in."""
    if not isinstance(service, Service) or not serves(service, labels):
        return False
    own = isinstance(workload, StatefulSet) and workload.spec.service_name == service.metadata.name
    return not (own and service.spec.cluster_ip == "None")


def _report(found: Sequence[Manifest], judged: Sequence[Subject]) -> Report:
    by_namespace: defaultdict[str, list[Subject]] = defaultdict(list)
    services: defaultdict[str, list[Manifest]] = defaultdict(list)
    for subject in judged:
        by_namespace[subject.manifest.namespace].append(subject)
    for one in found:
        if isinstance(one.object, Service):
            services[one.namespace].append(one)
    told = [finding for subject in judged for rule in _RULES for finding in rule(subject)]
    for one in found:
        told += readiness_probes.of_service(one)
        told += readiness_budgets.of_budget(one, by_namespace[one.namespace], services[one.namespace])
    files = {name: i for i, name in enumerate(dict.fromkeys(one.file for one in found))}
    told.sort(key=lambda one: (files[one.file], one.line, one.object, one.rule))
    return Report(tuple(told), tuple(judged), tuple(doubt for subject in judged for doubt in _doubts(subject)))


def _doubts(subject: Subject) -> Iterable[Doubt]:
    manifest = subject.manifest
    for name in subject.times.unread:
        lines = (manifest.line_of((*at, "metadata", "annotations", name)) for at in (subject.at, ()))
        yield Doubt(manifest.file, max(lines), manifest.key, name)
