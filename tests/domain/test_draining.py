"""Selection as kubectl's drain filters do it (case T1), replies of the eviction subresource (case T4), and whose turn it is."""

from datetime import UTC, datetime
from typing import Any

import pytest

from fleet.domain import kube
from fleet.domain.draining import Blocker, Cause, Meaning, Options, Reply, Stay, Turn, classify, next_turns, select
from tests.domain import cluster

NOW = cluster.EPOCH_AT
SCRATCH = {"volumes": [{"name": "scratch", "emptyDir": {}}]}


def made(number: int, owner: str = "", *, spec: dict[str, Any] | None = None, **more: Any) -> kube.Pod:
    references = cluster.owned_by(owner, owner.lower()) if owner else []
    more.setdefault("ownerReferences", references)
    found = cluster.decoded(cluster.pod(f"p{number}", spec=spec or {}, uid=str(number), **more))
    assert isinstance(found, kube.Pod)
    return found


def stamp(offset_s: float) -> str:
    return datetime.fromtimestamp(NOW + offset_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


PODS = (
    made(1, "DaemonSet"),
    made(2, annotations={"kubernetes.io/config.mirror": "hash"}),
    made(3, "Job", phase="Succeeded", spec=SCRATCH),
    made(4),
    made(5, "ReplicaSet", spec=SCRATCH),
    made(6, "DaemonSet", phase="Failed"),
    made(7, ownerReferences=cluster.owned_by("DaemonSet", "deleted")),
    made(8, "ReplicaSet", deletionTimestamp=stamp(-30)),
    made(9, ownerReferences=[{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": False}]),
    made(10, "StatefulSet"),
)
DAEMONS = {"lab/daemonset"}
ALL = Options(empty_dir=True, unmanaged=True)


def numbers(uids: Any) -> set[int]:
    return {int(uid) for uid in uids}


def evicted(options: Options, daemons: set[str] | None = DAEMONS) -> set[int]:
    return numbers(pod.metadata.uid for pod in select(PODS, daemons, options, NOW).evict)


def test_with_nothing_accepted_four_pods_block_and_the_drain_may_not_begin() -> None:
    found = select(PODS, DAEMONS, Options(), NOW)
    assert numbers(found.blockers) == {4, 5, 7, 9}
    assert set(found.blockers.values()) == {Blocker.UNMANAGED, Blocker.EMPTY_DIR, Blocker.DAEMON_GONE}
    assert found.stay == {"1": Stay.DAEMON, "2": Stay.MIRROR}
    assert numbers(pod.metadata.uid for pod in found.evict) == {3, 6, 8, 10}
    assert not found.complete


def test_with_everything_accepted_eight_go() -> None:
    found = select(PODS, DAEMONS, ALL, NOW)
    assert numbers(pod.metadata.uid for pod in found.evict) == {3, 4, 5, 6, 7, 8, 9, 10}
    assert found.complete


@pytest.mark.parametrize(("limit_s", "goes"), [(20, False), (30, True), (0, True)])
def test_a_pod_that_has_been_going_for_too_long_is_not_waited_for(limit_s: float, goes: bool) -> None:
    assert (8 in evicted(Options(True, True, limit_s))) is goes


def test_daemon_sets_that_may_not_be_read_block_their_running_pods() -> None:
    found = select(PODS, None, ALL, NOW)
    assert found.blockers == {"1": Blocker.DAEMON_UNREADABLE, "7": Blocker.DAEMON_UNREADABLE}
    assert 6 in numbers(pod.metadata.uid for pod in found.evict)


BUDGET = "The disruption budget web needs 3 healthy pods and has 3 currently"
UNOBSERVED = "The disruption budget web is still being processed by the server."


def refused(message: str, retry_after_s: float | None = None) -> Reply:
    return Reply(429, "TooManyRequests", "no", (Cause("DisruptionBudget", message),), retry_after_s)


@pytest.mark.parametrize(
    ("reply", "meaning", "retry_in_s"),
    [
        pytest.param(Reply(201), Meaning.ACCEPTED, None, id="accepted is not done"),
        pytest.param(Reply(200), Meaning.ACCEPTED, None, id="200"),
        pytest.param(Reply(404, "NotFound"), Meaning.GONE, None, id="gone"),
        pytest.param(Reply(409, "Conflict"), Meaning.GONE, None, id="the original is gone"),
        pytest.param(refused(BUDGET), Meaning.BUDGET, 5.0, id="budget"),
        pytest.param(refused(UNOBSERVED, 10), Meaning.BUDGET_UNOBSERVED, 10.0, id="budget not observed yet"),
        pytest.param(Reply(429, "TooManyRequests", retry_after_s=1), Meaning.THROTTLED, 1.0, id="throttled"),
        pytest.param(Reply(429, "TooManyRequests"), Meaning.THROTTLED, 1.0, id="throttled without a header"),
        pytest.param(
            Reply(403, causes=(Cause("NamespaceTerminating"),), terminating=True),
            Meaning.ACCEPTED,
            None,
            id="ns, going",
        ),
        pytest.param(Reply(403, causes=(Cause("NamespaceTerminating"),)), Meaning.NAMESPACE, 5.0, id="ns, not going"),
        pytest.param(Reply(403, "Forbidden"), Meaning.FORBIDDEN, None, id="no permission"),
        pytest.param(
            Reply(500, message="This pod has more than one PodDisruptionBudget, which the eviction …"),
            Meaning.TWO_BUDGETS,
            None,
            id="two budgets",
        ),
        pytest.param(Reply(504, "Timeout", retry_after_s=10), Meaning.TRY_AGAIN, 10.0, id="conflicts on the budget"),
        pytest.param(Reply(500, message="etcd"), Meaning.TRY_AGAIN, 5.0, id="a fault of the server"),
        pytest.param(Reply(422, "Invalid"), Meaning.REJECTED, None, id="never taken"),
    ],
)
def test_what_a_reply_means(reply: Reply, meaning: Meaning, retry_in_s: float | None) -> None:
    found = classify(reply)
    assert (found.meaning, found.retry_in_s) == (meaning, retry_in_s)


def test_a_budgets_refusal_names_it_with_its_numbers() -> None:
    found = classify(refused(BUDGET))
    assert (found.budget, found.needs, found.has) == ("web", 3, 3)
    assert classify(refused(UNOBSERVED, 10)).budget == "web"
    spent = classify(refused("The disruption budget web does not allow evicting pods currently"))
    assert (spent.budget, spent.needs) == ("web", None)
    assert classify(refused("something else")).message == "something else"


def test_a_free_pod_gets_its_first_try_before_ten_held_ones_get_their_second() -> None:
    held = [Turn(str(n), n, tries=1, retry_at=0) for n in range(10)]
    assert next_turns([*held, Turn("free", 10)], now=1.0)[0].uid == "free"
    assert next_turns([Turn("later", 0, 1, retry_at=5.0)], now=1.0) == []
