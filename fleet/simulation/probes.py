"""The probes of a container: when it counts as started, as ready, and when the kubelet gives it up.

Follows kubernetes/pkg/kubelet/prober: the first probe comes after initialDelaySeconds, the next ones every periodSeconds; a
startup probe holds the others back. Pure arithmetic in seconds since the container started.
"""

import math
from dataclasses import dataclass
from typing import Any

from fleet.simulation.behaviour import Behaviour

Object = dict[str, Any]


@dataclass(frozen=True)
class Probe:
    delay_s: float
    period_s: float
    failures: int
    successes: int

    @classmethod
    def of(cls, container: Object, kind: str) -> "Probe | None":
        """`kind`: startupProbe, readinessProbe, livenessProbe."""
        spec = container.get(kind)
        if spec is None:
            return None
        return cls(
            float(spec.get("initialDelaySeconds", 0)),
            float(spec.get("periodSeconds", 10)),
            int(spec.get("failureThreshold", 3)),
            int(spec.get("successThreshold", 1)),
        )

    def tick_s(self, at_s: float) -> float:
        """The first probe at or after `at_s`."""
        return self.delay_s + max(0, math.ceil((at_s - self.delay_s) / self.period_s - 1e-9)) * self.period_s

    def succeeds_s(self, from_s: float) -> float:
        """When it has succeeded often enough, if the container answers from `from_s` on."""
        return self.tick_s(from_s) + (self.successes - 1) * self.period_s

    def fails_s(self, from_s: float) -> float:
        """When it has failed often enough, if the container does not answer from `from_s` on."""
        return self.tick_s(from_s) + (self.failures - 1) * self.period_s


@dataclass(frozen=True)
class Outlook:
    """What comes of one container: None is never. `why` names the probe that kills it; `failing_s`: the first readiness probe of
    one that never passes."""

    started_s: float
    ready_s: float | None
    unready_s: float | None = None
    killed_s: float | None = None
    why: str = ""
    failing_s: float | None = None


def outlook(container: Object, does: Behaviour) -> Outlook:
    """The container answers from its warm-up on until it hangs (never, mostly)."""
    startup, readiness, liveness = (Probe.of(container, k) for k in ("startupProbe", "readinessProbe", "livenessProbe"))
    started_s = startup.succeeds_s(does.warmup_s) if startup else 0.0
    if startup and startup.fails_s(0.0) < started_s:
        return Outlook(started_s, None, killed_s=startup.fails_s(0.0), why="Startup")
    ready_s = readiness.succeeds_s(max(does.warmup_s, started_s)) if readiness else max(does.warmup_s, started_s)
    if liveness and max(started_s, liveness.fails_s(started_s)) < does.warmup_s:
        return Outlook(started_s, None, killed_s=liveness.fails_s(started_s), why="Liveness")
    if does.hang_s is None:
        failing_s = readiness.tick_s(started_s) if readiness and not does.ready else None
        return Outlook(started_s, ready_s if does.ready else None, failing_s=failing_s)
    hung_s = max(does.hang_s, started_s)
    return Outlook(
        started_s,
        ready_s if does.ready and ready_s < hung_s else None,
        readiness.fails_s(hung_s) if readiness else None,
        liveness.fails_s(hung_s) if liveness else None,
        "Liveness",
    )
