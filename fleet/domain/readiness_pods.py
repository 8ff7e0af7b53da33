"""Rules R27 to R29 and R32: what a pod asks for, which image it is, and who brings it back.

Owns their conditions and remedies.
"""

from collections.abc import Iterator
from typing import Final

from fleet.domain.capacity import gpu_name
from fleet.domain.manifests import BatchSpec, Container, CronJob, Job, Path, Pod
from fleet.domain.quantities import quantity
from fleet.domain.readiness_subjects import Finding, Rule, Severity, Subject, identity
from fleet.domain.snippets import Value

MIRROR: Final = "kubernetes.io/config.mirror"  # a pod that a kubelet has from a file of its node
DISRUPTED: Final = "DisruptionTarget"


def findings(subject: Subject) -> Iterator[Finding]:
    for path, container in subject.containers():
        yield from _gpu_request(subject, path, container)
        yield from _image_tag(subject, path, container)
    yield from _bare_pod(subject)
    yield from _backoff(subject)


def _gpu_request(subject: Subject, path: Path, container: Container) -> Iterator[Finding]:
    """R27: extended resources are not overcommitted, so the API server refuses these."""
    asked, limits = container.resources.requests, container.resources.limits
    for name in sorted(filter(gpu_name, {*asked, *limits})):
        request, limit = asked.get(name), limits.get(name)
        told = [text for text in (request, limit) if text is not None]
        if any(quantity(text).denominator != 1 for text in told):
            case = "fraction"
        elif limit is None:
            case = "no-limit"
        elif request is not None and quantity(request) != quantity(limit):
            case = "differ"
        else:
            continue
        whole = str(max(1, *(-(-quantity(text) // 1) for text in told)))
        amounts: Value = {"requests": {name: whole}, "limits": {name: whole}}
        yield subject.finding(
            Rule.GPU_REQUEST,
            Severity.ERROR,
            (*path, "resources"),
            subject.patch_container(path, container, {"resources": amounts}),
            case,
            container=container.name,
            resource=name,
            request=request or "",
            limit=limit or "",
        )


def _image_tag(subject: Subject, path: Path, container: Container) -> Iterator[Finding]:
    """R28. A digest after the name counts as a tag here: it stays the same even more."""
    image = container.image
    if not image:
        return
    tag = image.rpartition("/")[2].partition(":")[2]
    if tag in {"", "latest"}:
        yield subject.finding(
            Rule.IMAGE_TAG,
            Severity.WARNING,
            (*path, "image"),
            subject.patch_container(path, container, {"image": f"{image.removesuffix(':latest')}:VERSION"}),
            "latest" if tag else "none",
            container=container.name,
            image=image,
        )


def _bare_pod(subject: Subject) -> Iterator[Finding]:
    """R29."""
    found = subject.manifest.object
    if not isinstance(found, Pod) or MIRROR in found.metadata.annotations:
        return
    kind = "Job" if found.spec.restart_policy in {"Never", "OnFailure"} else "Deployment"
    labels = dict(found.metadata.labels) or {"app": found.metadata.name}
    containers = [{"name": one.name, "image": one.image} for one in found.spec.containers]
    template: Value = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec: dict[str, Value] = {"template": template}
    if kind == "Deployment":
        spec = {"selector": {"matchLabels": labels}, **spec}
    remedy: Value = {**identity(kind, found.metadata.name, found.metadata.namespace), "spec": spec}
    yield subject.finding(Rule.BARE_POD, Severity.WARNING, (), remedy)


def _batch(subject: Subject) -> BatchSpec | None:
    match subject.manifest.object:
        case Job(spec=spec):
            return spec
        case CronJob(spec=spec):
            return spec.job_template.spec
        case _:
            return None


def _backoff(subject: Subject) -> Iterator[Finding]:
    """R32. An Ignore rule for disrupted pods keeps a drain from using up the retries."""
    spec = _batch(subject)
    if spec is None:
        return
    rules = spec.pod_failure_policy.rules if spec.pod_failure_policy else ()
    if any(rule.action == "Ignore" and any(c.type == DISRUPTED for c in rule.on_pod_conditions) for rule in rules):
        return
    rule: Value = {"action": "Ignore", "onPodConditions": [{"type": DISRUPTED, "status": "True"}]}
    change: Value = {"podFailurePolicy": {"rules": [rule]}, "template": {"spec": {"restartPolicy": "Never"}}}
    remedy: Value = {"spec": change}
    if isinstance(subject.manifest.object, CronJob):
        remedy = {"spec": {"jobTemplate": remedy}}
    at = (*subject.at[:-1], "backoffLimit")
    yield subject.finding(Rule.BACKOFF_COUNTS_DISRUPTIONS, Severity.WARNING, at, remedy, backoff=spec.backoff_limit)
