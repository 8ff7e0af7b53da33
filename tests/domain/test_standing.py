"""A node as a whole: counts that disagree, and work that Kubernetes announces."""

import pytest

from fleet.domain import standing
from fleet.domain.gpus import DriverStatus
from fleet.domain.health import NodeContext
from tests.domain.gpu_readings import NODE, Told, eight


def counted(*, readings=14, count=8, **context):
    told = Told(NodeContext(node=NODE, gpu_labelled=True, **context))
    for _ in range(readings):
        told.reads(count=count)
    return told


@pytest.mark.parametrize(
    ("context", "count", "mismatch"),
    [
        ({"physical": 8, "capacity": 8}, 8, False),
        ({"physical": None, "capacity": None}, 8, False),
        ({"physical": 8, "capacity": 80, "replicas": 10}, 8, False),
        ({"physical": 8, "capacity": 80, "replicas": 0}, 8, True),
        ({"physical": 4, "capacity": 8}, 8, True),
        ({"physical": 8, "capacity": 7}, 8, True),
        ({"physical": 8, "capacity": 8}, 7, True),
        ({"physical": 4}, None, False),
    ],
)
def test_counts_of_gpus(context, count, mismatch):
    assert counted(count=count, **context).concerns() == (["gpu-count-mismatch"] if mismatch else [])


def test_counts_may_disagree_for_a_minute():
    assert counted(readings=12, physical=4).concerns() == []
    told = counted(physical=4)
    assert dict(told.last.standing.findings[0].facts) == {"driver": 8, "labels": 4, "slots": None, "known": 8}


def test_no_count_is_compared_while_the_driver_is_away():
    told = counted(physical=4, readings=5)
    for _ in range(20):
        told.reads((), status=DriverStatus.NO_DRIVER, count=0)
    assert told.concerns() == ["driver-missing"]


def test_what_the_node_row_needs():
    told = Told()
    told.reads(eight(), cuda="12.8", driver="570.148.08")
    found = told.last.standing
    assert (found.driver, found.cuda, found.source, found.driver_status) == (
        "570.148.08",
        "12.8",
        "nvml",
        "ok",
    )
    told.reads((), status=DriverStatus.NO_DRIVER, driver="", count=None)
    assert told.last.standing.driver == "570.148.08", "the last that is known"


def test_since_when_work_is_planned():
    told = Told(NodeContext(node=NODE, gpu_labelled=True, upgrade_state="cordon-required"))
    told.reads()
    began_at = told.now
    for state in ("drain-required", "pod-restart-required", "validation-required"):
        told.context = NodeContext(node=NODE, gpu_labelled=True, upgrade_state=state)
        told.reads(after_s=400.0)
        assert (told.last.standing.planned, told.last.standing.planned_since_at) == ("driver-upgrade", began_at)
    told.reads(after_s=601.0)
    assert (told.last.standing.planned, told.last.standing.planned_since_at) == ("", None)
    assert told.concerns() == ["upgrade-stuck"]
    told.context = NodeContext(node=NODE, gpu_labelled=True, upgrade_state="upgrade-done")
    told.reads()
    assert told.concerns() == []


def test_a_node_that_waits_for_its_upgrade_is_at_work_until_it_has_waited_for_days():
    """gpu-operator 2509: upgrade-required for weeks."""
    told = Told(NodeContext(node=NODE, gpu_labelled=True, upgrade_state="upgrade-required"))
    told.reads()
    told.reads(after_s=standing.UPGRADE_STANDS_S)
    assert (told.concerns(), told.last.standing.planned) == ([], "")
    told.reads(after_s=1.0)
    assert (told.concerns(), told.last.standing.planned, told.states()) == (["upgrade-stuck"], "", ["ok"] * 8)
    told.waits(61.0)
    assert "upgrade-stuck" in told.concerns(), "whoever reads its GPUs or not"
    told.context = NodeContext(node=NODE, gpu_labelled=True, upgrade_state="cordon-required")
    told.reads()
    assert (told.concerns(), told.last.standing.planned) == ([], "driver-upgrade"), "its turn has come"


def test_other_work_on_a_node_that_waits_for_its_upgrade_is_planned():
    context = NodeContext(node=NODE, gpu_labelled=True, upgrade_state="upgrade-required", mig_state="pending")
    told = Told(context)
    told.reads()
    assert told.last.standing.planned == "mig-change"


def test_a_driver_upgrade_over_a_healthy_gpu_changes_no_verdict():
    told = Told(NodeContext(node=NODE, gpu_labelled=True, upgrade_state="wait-for-jobs-required"))
    told.reads()
    assert told.states() == ["ok"] * 8
    assert told.last.standing.planned == "driver-upgrade"
