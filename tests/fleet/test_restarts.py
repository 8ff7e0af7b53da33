"""What is remembered of a cluster's readiness, and what counts as a measured load."""

import msgspec
import pytest

from fleet.domain.picture import EMPTY, PodRow
from fleet.domain.readiness import Load
from fleet.domain.readiness_loads import SeenPod, load_s, loads, most_s
from fleet.ports import Declared, PortError
from fleet.restarts import KEPT_S, Restarts, Unanswered
from tests.domain.readiness_cases import good, manifests

LLM = "Deployment/chat/llm"


def pod(name: str, ready: str, *started: str, status: str = "True") -> SeenPod:
    """`ready` and `started`: minutes and seconds of one hour."""
    at = "2026-12-01T10:{}Z".format
    containers = [{"state": {"running": {"startedAt": at(one)}}} for one in started]
    conditions = [{"type": "Ready", "status": status, "lastTransitionTime": at(ready)}]
    raw = {
        "metadata": {"name": name, "namespace": "chat"},
        "status": {"conditions": conditions, "containerStatuses": containers},
    }
    return msgspec.convert(raw, SeenPod)


@pytest.mark.parametrize(
    ("seen", "took_s"),
    [
        (pod("a", "05:00", "01:00"), 240),
        (pod("a", "05:00", "01:00", "02:00"), 180),
        (pod("a", "05:00", "01:00", status="False"), None),
        (pod("a", "05:00", "06:00"), None),
        (pod("a", "05:00"), None),
    ],
)
def test_a_load_is_from_the_start_of_the_last_container_to_ready(seen, took_s):
    assert load_s(seen) == took_s


def test_what_no_startup_probe_would_have_let_pass_is_a_ready_that_came_back():
    (llm,) = (one for one in manifests(good()) if one.key == LLM)
    longest_s = most_s(llm.object.spec.template)
    assert longest_s == 300 + 1 + 2 * 5 + 1
    seen = [pod("a", "01:30", "01:00"), pod("b", "02:00", "01:00"), pod("c", "59:00", "01:00")]
    workloads = {f"chat/{name}": LLM for name in "abc"}
    assert loads(seen, workloads, {LLM: longest_s}) == {LLM: Load(60, 2)}


class Source:
    """A cluster of the good manifests with one pod that took 295 s; it counts how often it is read."""

    def __init__(self) -> None:
        self.reads, self.broken = 0, False

    def read_manifests(self) -> Declared:
        self.reads += 1
        if self.broken:
            raise PortError("silent", retryable=True)
        return Declared(tuple(manifests(good())), (pod("a", "05:55", "01:00"),), ("CronJob",))


def test_a_cluster_is_read_once_in_a_while_and_judged_with_what_was_measured():
    now, source = [1_000.0], Source()
    restarts = Restarts(lambda _: source, lambda: now[0])
    row = PodRow(uid="u", namespace="chat", name="a", workload=LLM)
    snapshot = msgspec.structs.replace(EMPTY, pods={"chat/a": row})
    judged = restarts.judged("paris", snapshot)
    told = {one.rule.value: one for one in judged.report.findings}
    assert (told["R04"].case, told["R04"].facts["load_s"], told["R04"].facts["pods"]) == ("nominal", 295, 1)
    assert told["R16"].facts["slots"] == 0  # no node is in the picture
    assert judged.unread == ("CronJob",)
    now[0] += KEPT_S
    assert restarts.judged("paris", snapshot) is judged
    assert source.reads == 1
    now[0] += 1
    assert restarts.judged("paris", snapshot) is not judged


def test_a_cluster_that_does_not_answer_is_asked_again():
    source = Source()
    source.broken = True
    restarts = Restarts(lambda _: source)
    with pytest.raises(Unanswered):
        restarts.judged("paris", EMPTY)
    source.broken = False
    assert restarts.judged("paris", EMPTY).report.subjects
