"""The stage of a pod: conditions and container states decide, and time never does."""

from typing import Any

import pytest

from fleet.domain.objects import Pod
from fleet.domain.stages import Stage, ready_at, stage
from tests.domain.cluster import EPOCH, EPOCH_AT, decoded, pod

READY = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-12-01T19:03:10Z"}]


def status(state: dict[str, Any], *, init: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    found = {"conditions": [], "containerStatuses": [{"name": "main", "state": state, **more}]}
    return {**found, "initContainerStatuses": [{"name": "fetch", "state": init}]} if init is not None else found


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def made(node: str = "n1", **more: Any) -> Pod:
    found = decoded(pod("p", node, **more))
    assert isinstance(found, Pod)
    return found


RUNS: dict[str, Any] = {"running": {"startedAt": EPOCH}}
ENDED: dict[str, Any] = {"terminated": {"exitCode": 1}}


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param(made(""), Stage.PLACING, id="no node"),
        pytest.param(made(status={"conditions": [], "containerStatuses": []}), Stage.PULLING, id="bound, nothing told"),
        pytest.param(made(status=status(waiting("ContainerCreating"))), Stage.PULLING, id="being made"),
        pytest.param(made(status=status(waiting("ImagePullBackOff"), restartCount=1)), Stage.PULLING, id="no image"),
        pytest.param(made(status=status(waiting("ContainerCreating"), restartCount=1)), Stage.STARTING, id="made anew"),
        pytest.param(made(status=status(waiting("PodInitializing"), init=RUNS)), Stage.STARTING, id="init runs"),
        pytest.param(
            made(status=status(waiting("PodInitializing"), init=waiting("ErrImagePull"))), Stage.PULLING, id="i"
        ),
        pytest.param(made(status=status(waiting("CrashLoopBackOff"))), Stage.STARTING, id="between two starts"),
        pytest.param(made(status=status(waiting("CreateContainerConfigError"))), Stage.STARTING, id="no secret"),
        pytest.param(made(status=status(ENDED)), Stage.STARTING, id="ended, to be started again"),
        pytest.param(made(status=status(RUNS)), Stage.WARMING_UP, id="runs, not Ready"),
        pytest.param(made(status=status(RUNS, started=True, ready=False)), Stage.WARMING_UP, id="readiness fails"),
        pytest.param(made(), Stage.READY, id="Ready"),
        pytest.param(made(deletionTimestamp=EPOCH), Stage.STOPPING, id="terminating, though Ready"),
        pytest.param(made("", deletionTimestamp=EPOCH), Stage.STOPPING, id="terminating without a node"),
        pytest.param(made(phase="Failed"), Stage.ENDED, id="evicted"),
        pytest.param(made(phase="Succeeded", deletionTimestamp=EPOCH), Stage.ENDED, id="through"),
    ],
)
def test_the_stage_of_a_pod(found: Pod, wanted: Stage) -> None:
    assert stage(found) is wanted


def test_since_when_a_pod_is_ready() -> None:
    assert ready_at(made(status={"conditions": READY})) == EPOCH_AT + 190
    assert ready_at(made(status=status(RUNS))) is None
