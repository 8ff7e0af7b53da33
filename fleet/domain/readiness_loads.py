"""How long pods took to load: from the start of their containers to Ready, as the API server has both times.

Owns what counts as a measurement. The time of Ready is that of its last change: a pod that lost Ready and has it again would seem
to have loaded for days. So what no startup probe would have let pass, and what took longer than an hour, is none.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from math import ceil
from typing import Final

from fleet.domain.manifests import PodTemplate
from fleet.domain.objects import Condition, Object, Part, seconds
from fleet.domain.readiness_subjects import Load

LONGEST_S: Final = 3_600.0


class SeenRunning(Part, frozen=True):
    started_at: datetime | None = None


class SeenState(Part, frozen=True):
    running: SeenRunning | None = None


class SeenStatus(Part, frozen=True):
    state: SeenState = SeenState()


class SeenPodStatus(Part, frozen=True):
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[SeenStatus, ...] = ()


class SeenPod(Object, frozen=True):
    """A pod with what tells how long it took."""

    status: SeenPodStatus = SeenPodStatus()


def load_s(pod: SeenPod) -> float | None:
    """None: it is not Ready, or its times tell nothing."""
    ready = next((c for c in pod.status.conditions if c.type == "Ready" and c.status == "True"), None)
    begun = [seconds(one.state.running.started_at) for one in pod.status.container_statuses if one.state.running]
    ready_at = seconds(ready.last_transition_time) if ready else None
    if ready_at is None or not begun or any(at is None for at in begun):
        return None
    took_s = ready_at - max(at for at in begun if at is not None)
    return took_s if 0 <= took_s <= LONGEST_S else None


def most_s(template: PodTemplate) -> float:
    """What a start may take before a startup probe ends it, and readiness notices it after that."""
    bounds = [LONGEST_S]
    for container in template.spec.containers:
        probe, ready = container.startup_probe, container.readiness_probe
        if probe is not None:
            after = ready.delay_s + ready.period_s * (ready.success_threshold + 1) + ready.timeout_s if ready else 0
            bounds.append(probe.nominal_s + probe.timeout_s + after)
    return min(bounds)


def loads(pods: Iterable[SeenPod], workloads: Mapping[str, str], longest_s: Mapping[str, float]) -> dict[str, Load]:
    """By workload; `workloads`: of each pod, by "namespace/name"; `longest_s`: by workload, see `most_s`. The 95th percentile is
    by nearest rank: of up to 19 pods the longest."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for pod in pods:
        key, took_s = workloads.get(pod.key, ""), load_s(pod)
        if key and took_s is not None and took_s <= longest_s.get(key, LONGEST_S):
            found[key].append(took_s)
    return {key: Load(sorted(took)[ceil(0.95 * len(took)) - 1], len(took)) for key, took in found.items()}
