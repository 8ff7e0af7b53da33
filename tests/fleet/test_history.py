"""The ledger of GPUs: transitions that nobody can change, minutes that become hours, and what is pruned."""

from datetime import UTC, datetime

import pytest
from django.db import DatabaseError, connection, transaction
from msgspec.structs import replace

from fleet import history
from fleet.domain.spans import Sample
from fleet.domain.verdicts import Transition
from fleet.models import GpuHour, GpuLineup, GpuMinute, HealthTransition

pytestmark = [pytest.mark.db, pytest.mark.django_db]

CLUSTER = "paris"
NOW = 1_800_000_000.0


def transition(gpu="GPU-a", at=NOW, to="lost", reason="xid-79", **changes) -> Transition:
    found = Transition(
        node="n1",
        gpu=gpu,
        at=at,
        from_state="ok",
        to_state=to,
        reason=reason,
        action="reboot-node",
        evidence={"text": "fallen off", "since_at": at, "state": to, "name": "NVIDIA H100 80GB HBM3"},
        boot_id="b1",
    )
    return replace(found, **changes)


def record(*found: Transition, cluster: str = CLUSTER) -> None:
    history.record(cluster, found, {"n1": "NVIDIA-H100-80GB-HBM3"})


def everything(**wanted):
    return history.transitions(CLUSTER, since=0, until=NOW * 2, **wanted)


# Transitions


def test_what_is_recorded_is_read_back():
    given = [transition(), transition("GPU-b", NOW + 1.25, "degraded", "remap-pending", soft=True, planned=True)]
    record(*given)
    assert everything() == given
    assert HealthTransition.objects.first().product == "H100"


def test_the_same_again_is_written_once():
    record(transition(), transition("GPU-b"))
    record(transition(), transition("GPU-c"))
    assert [found.gpu for found in everything()] == ["GPU-a", "GPU-b", "GPU-c"]


@pytest.mark.parametrize(
    "statement", ["UPDATE vigie_health_transition SET to_state = 'ok'", "DELETE FROM vigie_health_transition"]
)
def test_the_database_refuses_to_change_what_happened(statement):
    record(transition())
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert everything() == [transition()]


def test_nor_to_forget_it():
    record(transition())
    table = "vigie_health_transition"
    sql = f"TRUNCATE {table}" if connection.vendor == "postgresql" else f"DELETE FROM {table}"
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)
    assert everything() == [transition()]


def test_neither_can_the_product():
    record(transition())
    row = HealthTransition.objects.get()
    row.to_state = "ok"
    for change in (row.save, row.delete, HealthTransition.objects.all().delete):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            change()


def test_a_window_by_gpu_node_and_time():
    record(transition(at=NOW - 10), transition("GPU-b", NOW), replace(transition("GPU-c", NOW + 10), node="n2"))
    record(transition("GPU-d"), cluster="another")
    assert [t.gpu for t in history.transitions(CLUSTER, since=NOW - 10, until=NOW)] == ["GPU-a"], "its end is not in it"
    assert [t.gpu for t in everything(gpu="GPU-b")] == ["GPU-b"]
    assert [t.gpu for t in everything(node="n2")] == ["GPU-c"]


def test_how_a_window_begins():
    record(transition(at=NOW - 20), transition(at=NOW - 10, to="ok", closes="reboot"), transition(at=NOW + 10))
    assert history.before(CLUSTER, NOW)["GPU-a"].to_state == "ok"
    assert history.before(CLUSTER, NOW - 15)["GPU-a"].to_state == "lost"
    assert history.before(CLUSTER, NOW - 25) == {}
    assert history.before(CLUSTER, NOW, gpu="GPU-b") == {}


def test_what_led_to_how_a_window_begins():
    record(transition(at=NOW - 30), transition(at=NOW - 20, to="lost", reason="ecc-uncorrected"), transition("GPU-b"))
    found = history.leading(CLUSTER, NOW - 10, ["GPU-a"])
    assert [t.at for t in found] == [NOW - 30, NOW - 20]
    assert history.leading(CLUSTER, NOW - 10, []) == []
    assert history.leading(CLUSTER, NOW + history.OPEN_FOR_S, ["GPU-a"]) == [], "too long ago to be remembered"


def test_the_product_of_every_gpu():
    record(transition(), transition(at=NOW + 5, to="ok"), replace(transition("GPU-b"), node="n2"))
    assert history.products(CLUSTER) == {"GPU-a": "H100", "GPU-b": "H100"}, "by its own name where no label says"


def test_findings_that_came_and_have_not_gone():
    record(
        transition(at=NOW - 50),
        transition(at=NOW - 40, to="lost", reason="ecc-uncorrected"),
        transition("GPU-b", NOW - 40),
        transition(at=NOW - 30, to="lost", reason="ecc-uncorrected", closes="reset"),
        transition("GPU-b", NOW - 20, "", "xid-79", closes="replaced"),
        transition("GPU-c", NOW - 10, "ok", ""),
    )
    assert [(t.gpu, t.reason) for t in history.open_findings(CLUSTER, "n1", NOW)] == [("GPU-a", "xid-79")]
    assert history.open_findings(CLUSTER, "n2", NOW) == []
    assert history.open_findings(CLUSTER, "n1", NOW + history.OPEN_FOR_S) == [], "too long ago to be believed"


def test_text_that_a_database_cannot_hold_is_no_obstacle():
    record(transition(evidence={"text": "a\x00b", "name": "x" * 500}, reason="r"))
    assert everything()[0].evidence["text"] == "a�b"


# Minutes and hours


def sample(busy: int) -> Sample:
    return Sample(busy, busy, 50, 400, 1600)


def minutes(node: str, first: int, values: list[int], keys=("GPU-a", "GPU-b")) -> None:
    history.record_minutes(CLUSTER, [(node, first + i, {key: sample(v) for key in keys}) for i, v in enumerate(values)])


MINUTE = int(NOW // 3600) * 60  # the first of an hour


def test_minutes_are_one_row_per_node():
    minutes("n1", MINUTE, [10, 20, 30])
    minutes("n2", MINUTE, [40])
    assert GpuMinute.objects.count() == 4
    assert GpuLineup.objects.count() == 2
    found = history.minutes(CLUSTER, "n1", MINUTE * 60, MINUTE * 60 + 120)
    assert found == {key: [(MINUTE * 60.0, sample(10)), (MINUTE * 60.0 + 60, sample(20))] for key in ("GPU-a", "GPU-b")}


def test_a_minute_that_is_there_stays():
    minutes("n1", MINUTE, [10])
    minutes("n1", MINUTE, [99])
    assert history.minutes(CLUSTER, "n1", NOW - 7200, NOW + 7200)["GPU-a"] == [(MINUTE * 60.0, sample(10))]


def test_a_board_that_is_replaced_begins_another_lineup():
    minutes("n1", MINUTE, [10])
    minutes("n1", MINUTE + 1, [20], keys=("GPU-a", "GPU-new"))
    found = history.minutes(CLUSTER, "n1", NOW - 7200, NOW + 7200)
    assert {key: len(line) for key, line in found.items()} == {"GPU-a": 2, "GPU-b": 1, "GPU-new": 1}


def test_hours_are_made_of_minutes_once_they_have_ended():
    minutes("n1", MINUTE, [10] * 30 + [30] * 30 + [99])
    assert history.make_hours((MINUTE + 59) * 60.0) == 0, "it has not ended"
    assert history.make_hours((MINUTE + 61) * 60.0) == 1
    assert history.make_hours((MINUTE + 62) * 60.0) == 0
    found = history.hours(CLUSTER, "n1", MINUTE * 60, MINUTE * 60 + 3600)
    assert found["GPU-a"] == [(MINUTE * 60.0, Sample(20, 30, 50, 400, 1600))]


def test_what_is_too_old_goes_and_transitions_stay():
    record(transition(at=1.0))
    minutes("n1", MINUTE, [10])
    minutes("n2", MINUTE + 20, [10])
    history.make_hours((MINUTE + 120) * 60.0)
    assert history.prune((MINUTE + 10) * 60 + history.MINUTES_KEPT_S) == 1
    assert (GpuMinute.objects.count(), GpuHour.objects.count(), GpuLineup.objects.count()) == (1, 2, 2)
    history.prune((MINUTE + 120) * 60 + history.HOURS_KEPT_S)
    assert (GpuMinute.objects.count(), GpuHour.objects.count(), GpuLineup.objects.count()) == (0, 0, 0)
    assert HealthTransition.objects.get().at == datetime.fromtimestamp(1, UTC)


def test_reading_a_page_of_history_costs_few_queries(django_assert_num_queries):
    minutes("n1", MINUTE, list(range(50)))
    record(*(transition(f"GPU-{i}", NOW + i) for i in range(50)))
    with django_assert_num_queries(2):
        history.minutes(CLUSTER, "n1", NOW - 7200, NOW + 7200)
    with django_assert_num_queries(1):
        everything()
    with django_assert_num_queries(1):
        history.before(CLUSTER, NOW * 2)
