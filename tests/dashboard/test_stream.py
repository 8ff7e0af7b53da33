"""Server-Sent Events for programs, from a real server: where a stream begins, what comes, and when it ends."""

import contextlib
import json
import threading
from collections.abc import Iterator

import httpx
import pytest
from msgspec.structs import replace

from dashboard import accounts, tokens
from dashboard.api import stream
from dashboard.api.stream import event, version
from fleet.domain.changes import Version
from fleet.domain.picture import PodRow, WorkloadRow
from fleet.domain.rollout_picture import RolloutRow
from tests.dashboard.pictures import Writer, nodes

pytestmark = [pytest.mark.db, pytest.mark.broker, pytest.mark.django_db(transaction=True)]

WITHIN_S = 10


class Events:
    """An open stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def next(self, *kinds: str) -> dict:
        """The next event; of these kinds, when some are named. Its id is under "id", its name under "event"."""
        while True:
            found: dict = {}
            for line in self._lines:
                if not line:
                    break
                name, _, value = line.partition(": ")
                found[name] = value
            if not found:
                raise EOFError
            if not kinds or found.get("event") in kinds:
                return found | {"data": json.loads(found.get("data", "null"))}


@pytest.fixture
def token(people) -> str:
    return tokens.issue(people["viewer"], "a script", 90)[0]


@pytest.fixture
def writer(served, clusters) -> Writer:
    found = Writer(clusters[0])
    found.publish(nodes())
    return found


@pytest.fixture
def follow(served, token):
    """Opens streams."""
    with contextlib.ExitStack() as opened, httpx.Client(timeout=WITHIN_S) as client:

        @contextlib.contextmanager
        def cut(query: str = "", **headers: str) -> Iterator[Events]:
            headers = {"Authorization": f"Bearer {token}", **{k.replace("_", "-"): v for k, v in headers.items()}}
            with client.stream("GET", f"{served.origin}/api/v1/events?{query}", headers=headers) as response:
                yield Events(response)

        def opens(query: str = "", **headers: str) -> Events:
            return opened.enter_context(cut(query, **headers))

        opens.cut = cut
        yield opens


def test_a_snapshot_then_each_change(follow, writer):
    events = follow()
    assert events.response.headers["content-type"] == "text/event-stream"
    first = events.next("snapshot")
    assert set(first["data"]["tables"]) == {
        "fleet",
        "products",
        "nodes",
        "pods",
        "workloads",
        "attention",
        "labels",
        "events",
        "gpus",
        "rollouts",
        "checkpoints",
    }
    assert first["id"] == f"{writer.version.epoch}-1"
    writer.publish(nodes(25))
    change = events.next("delta")
    assert change["id"] == f"{writer.version.epoch}-2"
    assert change["data"]["tables"]["nodes"]["groups"][0]["ids"] == ["node-25"]


def test_a_pulse_comes_again_and_again_and_has_no_id(follow, writer):
    events = follow("view=fleet")
    events.next("snapshot")
    for _ in range(2):
        pulse = events.next("pulse")
        assert "id" not in pulse
        assert pulse["data"]["lost"] in {True, False}


def test_whoever_has_the_newest_gets_no_second_snapshot(follow, writer):
    other = follow()
    events = follow(Last_Event_ID=other.next("snapshot")["id"])
    assert "retry" in events.next()
    writer.publish(nodes(25))
    assert events.next("snapshot", "delta")["event"] == "delta"


@pytest.mark.parametrize("last", ["1-1", "nonsense", "99999999999999-1"])
def test_whoever_missed_something_gets_a_snapshot(follow, writer, last):
    assert follow(Last_Event_ID=last).next("snapshot", "delta")["event"] == "snapshot"


def test_one_node(follow, writer):
    tables = follow("view=node&node=node-02").next("snapshot")["data"]["tables"]
    assert list(tables["nodes"]) == ["node-02"]


def test_one_rollout(follow, writer):
    chat, other = (WorkloadRow("Deployment", "lab", name) for name in ("chat", "other"))
    pods = {
        name: PodRow(name, "lab", name, workload=f"Deployment/lab/{name}", stage="ready") for name in ("chat", "other")
    }
    rollouts = {
        "Deployment/lab/chat": RolloutRow("Deployment", new=1),
        "Deployment/lab/other": RolloutRow("Deployment"),
    }
    owners = {"Deployment/lab/chat": chat, "Deployment/lab/other": other}
    writer.publish(replace(nodes(), pods=pods, workloads=owners, rollouts=rollouts))
    events = follow("view=rollout&workload=Deployment/lab/chat")
    tables = events.next("snapshot")["data"]["tables"]
    assert {name: list(tables[name]) for name in ("pods", "workloads", "rollouts")} == {
        "pods": ["chat"],
        "workloads": ["Deployment/lab/chat"],
        "rollouts": ["Deployment/lab/chat"],
    }
    moved = {key: replace(row, new=2) for key, row in rollouts.items()}
    writer.publish(replace(writer.snapshot, rollouts=moved))
    (group,) = events.next("delta")["data"]["tables"]["rollouts"]["groups"]
    assert group == {"ids": ["Deployment/lab/chat"], "set": {"new": [2]}}


@pytest.mark.parametrize(("query", "status"), [("view=wall", 422), ("view=clusters", 422), ("cluster=elsewhere", 404)])
def test_what_cannot_be_followed_is_a_problem(follow, writer, query, status):
    response = follow(query).response
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"


def test_nobody_follows_without_a_token(served, writer):
    assert httpx.get(f"{served.origin}/api/v1/events", timeout=WITHIN_S).status_code == 401


def revoke(text: str, people) -> None:
    token = tokens.recognise(f"Bearer {text}")
    assert tokens.revoke(token.pk)


def disable(text: str, people) -> None:
    accounts.disable(people["viewer"])


def lose_the_role(text: str, people) -> None:
    accounts.set_role(people["viewer"], None)


@pytest.mark.parametrize(
    ("end", "reason"), [(revoke, "signed-out"), (disable, "signed-out"), (lose_the_role, "forbidden")]
)
def test_it_ends_with_its_right(follow, writer, people, token, end, reason):
    events = follow("view=fleet")
    events.next("snapshot")
    end(token, people)
    assert events.next("bye")["data"]["reason"] == reason
    with pytest.raises(EOFError):
        events.next()


def test_streams_of_one_account_are_bounded_and_freed(follow, writer, monkeypatch):
    monkeypatch.setattr(stream, "MOST_EACH", 2)
    with follow.cut() as first, follow.cut() as second:
        for events in (first, second):
            events.next("snapshot")
        response = follow().response
        assert response.status_code == 429
        assert response.headers["retry-after"]
    freed = threading.Event()
    for _ in range(200):
        if not stream._open.total():
            break
        freed.wait(0.05)
    assert stream._open.total() == 0
    assert follow().next("snapshot")


def test_ids():
    assert event('{"t":"delta","prev":[5,1],"v":[5,2],"at":1.0,"tables":{}}').startswith(
        b"event: delta\nid: 5-2\ndata: {"
    )
    assert version("5-2") == Version(5, 2)
    assert version("5-2-1") is None
    assert version("٥-2") is None
