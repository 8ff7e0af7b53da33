"""How a pod stops and starts, second by second, as its template says: the line of a stop and the line of a start.

Owns the order of events and their times as data for a picture. Must not draw, nor judge: the rules of `readiness` do.

A stop (kubelet, kuberuntime_container.go): the endpoint is taken away while the preStop hook already runs; SIGTERM follows the
hook; SIGKILL ends the grace period, which began with the hook. A hook that outlives the grace period is cut off, and 2 s are left
between SIGTERM and SIGKILL (`minimumGracePeriodInSeconds`). A start: liveness and readiness wait for the startup probe.
"""

from typing import Final

from msgspec import Struct

from fleet.domain import stopping
from fleet.domain.manifests import Container, Probe
from fleet.domain.readiness_subjects import Load, Subject

LEAST_AFTER_TERM_S: Final = 2


class Stop(Struct, frozen=True):
    """One container's stop, from the moment its pod is deleted. `hook_s` None: its hook does not tell how long it takes,
    so `term_s` is the earliest; `need_s`: what its team says it needs after SIGTERM, `need` "drain" or "save"."""

    container: str
    has_hook: bool
    hook_s: float | None
    cut_off: bool  # the hook would go on for longer than the grace period
    term_s: float
    kill_s: float
    grace_s: int
    need: str
    need_s: float | None

    @property
    def left_s(self) -> float:
        """Between SIGTERM and SIGKILL."""
        return self.kill_s - self.term_s

    @property
    def lacks_s(self) -> float:
        """Of what is needed, what SIGKILL cuts off; 0 when it fits or nobody says."""
        return max(0.0, (self.need_s or 0.0) - self.left_s)


class Watch(Struct, frozen=True):
    """A probe: from `from_s` on, every `period_s`; it acts after `failures` in a row, which takes from `least_s` to `most_s`."""

    from_s: int
    period_s: int
    timeout_s: int
    failures: int
    least_s: int
    most_s: int


class Start(Struct, frozen=True):
    """One container's start, from the moment it runs. `guaranteed_s` and `nominal_s`: when a startup probe, or without one the
    liveness probe, would restart it at the earliest and at the latest; None: nothing would."""

    container: str
    guarded_by: str  # "startup", "liveness" or "": what restarts it when it does not come up
    guaranteed_s: int | None
    nominal_s: int | None
    load: Load | None
    startup: Watch | None
    readiness: Watch | None
    liveness: Watch | None


class Lifelines(Struct, frozen=True):
    """`min_ready_s`: how long a pod has to be Ready to be available; `deadline_s`: when a rollout that does not get on counts
    as failed, None where the kind has none; `begins_after`: containers that have to end before the others begin."""

    stops: tuple[Stop, ...]
    starts: tuple[Start, ...]
    grace_s: int
    min_ready_s: int
    deadline_s: int | None
    begins_after: tuple[str, ...]


def lifelines(subject: Subject) -> Lifelines:
    """Of every container that lives as long as the pod."""
    spec, found = subject.template.spec, subject.manifest.object
    containers = [container for _, container in subject.containers()]
    deployment = subject.deployment
    return Lifelines(
        tuple(stop(subject, container) for container in containers),
        tuple(start(container, subject.times.load) for container in containers),
        spec.grace_s,
        getattr(getattr(found, "spec", None), "min_ready_seconds", 0),
        deployment.spec.progress_deadline_seconds if deployment else None,
        tuple(one.name for one in spec.init_containers if one.restart_policy != "Always"),
    )


def stop(subject: Subject, container: Container) -> Stop:
    grace_s, hook_s = subject.template.spec.grace_s, stopping.pre_stop_s(container.pre_stop)
    cut_off = hook_s is not None and hook_s >= grace_s and container.pre_stop is not None
    term_s = float(grace_s) if cut_off else hook_s or 0.0
    told = [
        (s, name) for name, s in (("save", subject.times.save_s), ("drain", subject.times.drain_s)) if s is not None
    ]
    need_s, need = max(told, default=(None, ""))
    return Stop(
        container=container.name,
        has_hook=container.pre_stop is not None,
        hook_s=hook_s,
        cut_off=cut_off,
        term_s=term_s,
        kill_s=term_s + LEAST_AFTER_TERM_S if cut_off else float(grace_s),
        grace_s=grace_s,
        need=need,
        need_s=need_s,
    )


def start(container: Container, load: Load | None) -> Start:
    guard = container.startup_probe or container.liveness_probe
    return Start(
        container=container.name,
        guarded_by="startup" if container.startup_probe else "liveness" if container.liveness_probe else "",
        guaranteed_s=guard.guaranteed_s if guard else None,
        nominal_s=guard.nominal_s if guard else None,
        load=load,
        startup=_watch(container.startup_probe),
        readiness=_watch(container.readiness_probe),
        liveness=_watch(container.liveness_probe),
    )


def _watch(probe: Probe | None) -> Watch | None:
    if probe is None:
        return None
    return Watch(
        from_s=probe.delay_s,
        period_s=probe.period_s,
        timeout_s=probe.timeout_s,
        failures=probe.failures,
        least_s=(probe.failures - 1) * probe.period_s,
        most_s=probe.failures * probe.period_s + probe.timeout_s,
    )
