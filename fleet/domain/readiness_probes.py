"""Rules R01 to R06 and R33: when a pod counts as ready, and whether it gets the time to become so.

Owns their conditions and remedies. Times are seconds.
"""

from collections.abc import Iterator
from math import ceil
from typing import Final

from fleet.domain.capacity import gpu_name
from fleet.domain.manifests import Container, Manifest, Path, Probe, Service
from fleet.domain.readiness_subjects import Finding, Rule, Severity, Subject, of_manifest
from fleet.domain.snippets import Value

CLEARLY_LONGER: Final = 2  # times: how much more patience liveness needs with the same handler
READY_PATH: Final = "/ready"  # of a probe that we suggest: the program has to offer it
SETTLED_S: Final = 10


def findings(subject: Subject) -> Iterator[Finding]:
    yield from _no_readiness(subject)
    for path, container in subject.containers():
        yield from _liveness_while_loading(subject, path, container)
        yield from _startup_budget(subject, path, container)
        yield from _same_probe(subject, path, container)
    yield from _progress_deadline(subject)
    yield from _no_min_ready(subject)


def of_service(service: Manifest) -> Iterator[Finding]:
    found = service.object
    if isinstance(found, Service) and found.spec.publish_not_ready_addresses:
        path = ("spec", "publishNotReadyAddresses")
        remedy: Value = {"spec": {"publishNotReadyAddresses": False}}
        yield of_manifest(service, Rule.NOT_READY_ADDRESSES, Severity.WARNING, path, remedy)


def _no_readiness(subject: Subject) -> Iterator[Finding]:
    """R01. Which container a Service sends requests to is told by its ports; where no container names them, one that can tell
    when it is ready is enough."""
    if not subject.services or not subject.runs_on:
        return
    found = list(subject.containers())
    chosen = [(path, one) for path, one in found if _is_target(subject, one)]
    if not chosen and any(one.readiness_probe for _, one in found):
        return
    for path, one in chosen or found[:1]:
        if one.readiness_probe is None:
            port: Value = one.ports[0].container_port if one.ports else _port(subject)
            change: Value = {"httpGet": {"path": READY_PATH, "port": port}, "periodSeconds": 5}
            remedy = subject.patch_container(path, one, {"readinessProbe": change})
            service = subject.services[0].object.metadata.name
            yield subject.finding(Rule.NO_READINESS, Severity.ERROR, path, remedy, container=one.name, service=service)


def _targets(subject: Subject) -> set[int | str]:
    ports = (port for one in subject.services if isinstance(one.object, Service) for port in one.object.spec.ports)
    return {port.port if port.target_port in {None, "", 0} else port.target_port or 0 for port in ports}


def _is_target(subject: Subject, container: Container) -> bool:
    wanted = _targets(subject)
    return any(port.container_port in wanted or (port.name and port.name in wanted) for port in container.ports)


def _port(subject: Subject) -> int | str:
    return next(iter(sorted(_targets(subject), key=str)), 8080)


def _liveness_while_loading(subject: Subject, path: Path, container: Container) -> Iterator[Finding]:
    """R03."""
    probe, load = container.liveness_probe, subject.times.load
    if probe is None or container.startup_probe is not None or load is None or not _has_gpu(container):
        return
    if probe.nominal_s < load.p95_s:
        budget: Value = {**_handler(probe), "periodSeconds": 10, "failureThreshold": ceil(load.p95_s / 10) + 1}
        yield subject.finding(
            Rule.LIVENESS_WHILE_LOADING,
            Severity.ERROR,
            (*path, "livenessProbe"),
            subject.patch_container(path, container, {"startupProbe": budget}),
            "declared" if not load.pods else "",
            container=container.name,
            budget_s=probe.nominal_s,
            load_s=load.p95_s,
            pods=load.pods,
        )


def _startup_budget(subject: Subject, path: Path, container: Container) -> Iterator[Finding]:
    """R04: what is guaranteed is a period less than what people multiply."""
    probe, load = container.startup_probe, subject.times.load
    if probe is None or load is None or probe.guaranteed_s >= load.p95_s:
        return
    enough = ceil((load.p95_s - probe.delay_s) / probe.period_s) + 1
    yield subject.finding(
        Rule.STARTUP_BUDGET,
        Severity.WARNING if probe.nominal_s >= load.p95_s else Severity.ERROR,
        (*path, "startupProbe"),
        subject.patch_container(path, container, {"startupProbe": {"failureThreshold": enough}}),
        ("nominal" if probe.nominal_s >= load.p95_s else "short") + ("" if load.pods else "-declared"),
        container=container.name,
        guaranteed_s=probe.guaranteed_s,
        nominal_s=probe.nominal_s,
        load_s=load.p95_s,
        pods=load.pods,
    )


def _progress_deadline(subject: Subject) -> Iterator[Finding]:
    """R05."""
    found = subject.deployment
    probes = [one.startup_probe for _, one in subject.containers() if one.startup_probe is not None]
    if found is None or not probes:
        return
    startup_s = max(probe.nominal_s for probe in probes)
    pull_s = subject.times.pull_s or 0.0
    needed_s = startup_s + pull_s + found.spec.min_ready_seconds
    if found.spec.progress_deadline_seconds <= needed_s:
        enough = (int(needed_s) // 60 + 1) * 60
        yield subject.finding(
            Rule.PROGRESS_DEADLINE,
            Severity.WARNING,
            ("spec", "progressDeadlineSeconds"),
            {"spec": {"progressDeadlineSeconds": enough}},
            deadline_s=found.spec.progress_deadline_seconds,
            needed_s=needed_s,
            startup_s=startup_s,
            pull_s=pull_s,
            min_ready_s=found.spec.min_ready_seconds,
        )


def _same_probe(subject: Subject, path: Path, container: Container) -> Iterator[Finding]:
    """R06: what takes a pod out of service must not restart it at the same moment."""
    ready, live = container.readiness_probe, container.liveness_probe
    if ready is None or live is None or ready.handler != live.handler:
        return
    patience_s = ready.failures * ready.period_s
    if live.failures * live.period_s >= CLEARLY_LONGER * patience_s:
        return
    enough = ceil(CLEARLY_LONGER * patience_s / live.period_s)
    yield subject.finding(
        Rule.SAME_PROBE,
        Severity.WARNING,
        (*path, "livenessProbe"),
        subject.patch_container(path, container, {"livenessProbe": {"failureThreshold": enough}}),
        container=container.name,
        readiness_s=patience_s,
        liveness_s=live.failures * live.period_s,
    )


def _no_min_ready(subject: Subject) -> Iterator[Finding]:
    """R33."""
    spec = getattr(subject.manifest.object, "spec", None)
    if not subject.services or not subject.gpus or not subject.runs_on:
        return
    if getattr(spec, "min_ready_seconds", None) == 0 and subject.manifest.kind != "ReplicaSet":
        remedy: Value = {"spec": {"minReadySeconds": SETTLED_S}}
        yield subject.finding(Rule.NO_MIN_READY, Severity.INFO, ("spec", "minReadySeconds"), remedy)


def _has_gpu(container: Container) -> bool:
    return any(gpu_name(name) for name in (*container.resources.requests, *container.resources.limits))


def _handler(probe: Probe) -> dict[str, Value]:
    """The same question as a probe asks."""
    if probe.http_get is not None:
        return {"httpGet": {"path": probe.http_get.path or "/", "port": probe.http_get.port}}
    if probe.tcp_socket is not None:
        return {"tcpSocket": {"port": probe.tcp_socket.port}}
    if probe.grpc is not None:
        return {"grpc": {"port": probe.grpc.port}}
    return {"exec": {"command": list(probe.exec.command)}} if probe.exec is not None else {}
