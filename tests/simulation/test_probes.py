"""When a container counts as started, ready, or lost, by its probes."""

from typing import Any

import pytest

from fleet.simulation.behaviour import Behaviour
from fleet.simulation.probes import Outlook, Probe, outlook

Object = dict[str, Any]

HTTP: Object = {"httpGet": {"path": "/healthz", "port": 8000}}


@pytest.mark.parametrize(
    ("spec", "from_s", "succeeds_s", "fails_s"),
    [
        ({}, 0, 0, 20),
        ({}, 0.1, 10, 30),
        ({"initialDelaySeconds": 5, "periodSeconds": 2}, 0, 5, 9),
        ({"initialDelaySeconds": 5, "periodSeconds": 2}, 6, 7, 11),
        ({"periodSeconds": 1, "failureThreshold": 1, "successThreshold": 3}, 4, 6, 4),
    ],
)
def test_probes_tick_by_their_delay_and_period(spec: Object, from_s: float, succeeds_s: float, fails_s: float) -> None:
    probe = Probe.of({"readinessProbe": HTTP | spec}, "readinessProbe")
    assert probe is not None
    assert (probe.succeeds_s(from_s), probe.fails_s(from_s)) == (succeeds_s, fails_s)


@pytest.mark.parametrize(
    ("probes", "does", "expected"),
    [
        ({}, Behaviour(warmup_s=3), Outlook(0, 3)),
        ({}, Behaviour(warmup_s=3, ready=False), Outlook(0, None)),
        (
            {"startupProbe": {"periodSeconds": 4}, "readinessProbe": {"periodSeconds": 5}},
            Behaviour(warmup_s=3, ready=False),
            Outlook(4, None, failing_s=5),
        ),
        ({"readinessProbe": {"periodSeconds": 5}}, Behaviour(warmup_s=3), Outlook(0, 5)),
        ({"startupProbe": {"periodSeconds": 4}, "readinessProbe": {"periodSeconds": 5}}, Behaviour(warmup_s=3), Outlook(4, 5)),
        ({"startupProbe": {"periodSeconds": 1}}, Behaviour(warmup_s=9), Outlook(9, None, killed_s=2, why="Startup")),
        ({"livenessProbe": {"periodSeconds": 1}}, Behaviour(warmup_s=9), Outlook(0, None, killed_s=2, why="Liveness")),
        (
            {"livenessProbe": {"periodSeconds": 10}, "readinessProbe": {"periodSeconds": 5}},
            Behaviour(warmup_s=3, hang_s=12),
            Outlook(0, 5, unready_s=25, killed_s=40, why="Liveness"),
        ),
        ({}, Behaviour(warmup_s=3, hang_s=12), Outlook(0, 3, why="Liveness")),
    ],
)  # fmt: skip
def test_what_comes_of_a_container(probes: dict[str, Object], does: Behaviour, expected: Outlook) -> None:
    assert outlook({k: HTTP | v for k, v in probes.items()}, does) == expected
