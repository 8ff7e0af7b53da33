"""What the API server's bytes become."""

import json
from typing import Any

import pytest

from fleet.domain import kube
from fleet.domain.kube import Bookmark, Changed, Deleted, Kind, Status
from tests.domain import cluster


def line(kind: str, found: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode()


def as_list(*items: Any, **metadata: str) -> bytes:
    return json.dumps({"kind": "PodList", "metadata": metadata, "items": list(items)}).encode()


def test_every_kind_has_its_place_in_the_api() -> None:
    assert {kind: kube.RESOURCES[kind].path for kind in Kind} == {
        Kind.NODE: "/api/v1/nodes",
        Kind.POD: "/api/v1/pods",
        Kind.DEPLOYMENT: "/apis/apps/v1/deployments",
        Kind.REPLICA_SET: "/apis/apps/v1/replicasets",
        Kind.STATEFUL_SET: "/apis/apps/v1/statefulsets",
        Kind.DAEMON_SET: "/apis/apps/v1/daemonsets",
        Kind.JOB: "/apis/batch/v1/jobs",
        Kind.SERVICE: "/api/v1/services",
        Kind.ENDPOINT_SLICE: "/apis/discovery.k8s.io/v1/endpointslices",
        Kind.BUDGET: "/apis/policy/v1/poddisruptionbudgets",
        Kind.EVENT: "/api/v1/events",
    }
    assert [kind for kind in Kind if not kube.RESOURCES[kind].namespaced] == [Kind.NODE]


def test_a_page_has_its_objects_its_version_and_the_way_on() -> None:
    found = kube.page(
        Kind.POD, as_list(cluster.pod("a"), cluster.pod("b"), resourceVersion="42", **{"continue": "next"})
    )
    assert [pod.key for pod in found.objects] == ["lab/a", "lab/b"]
    assert (found.resource_version, found.token) == ("42", "next")


@pytest.mark.parametrize(
    "body", [b'{"metadata":{"resourceVersion":"1"},"items":null}', b'{"metadata":{"resourceVersion":"1"}}']
)
def test_an_empty_page_may_have_no_items(body: bytes) -> None:
    assert kube.page(Kind.POD, body) == kube.Page((), "1", "")


def test_absent_fields_have_the_value_zero() -> None:
    """api-server.md 26: zero-valued fields are absent."""
    found = kube.page(
        Kind.DEPLOYMENT, as_list({"metadata": {"name": "d", "namespace": "lab"}, "spec": {}, "status": {}})
    ).objects[0]
    assert isinstance(found, kube.Deployment)
    assert (found.spec.replicas, found.status.updated_replicas, found.status.available_replicas) == (1, 0, 0)
    assert found.metadata.creation_timestamp is None


def test_an_empty_slice_writes_null() -> None:
    """api-server.md 30."""
    empty = {"metadata": {"name": "web-1", "namespace": "lab"}, "addressType": "IPv4", "endpoints": None, "ports": None}
    event = kube.watch_line(Kind.ENDPOINT_SLICE, line("MODIFIED", empty))
    assert isinstance(event, Changed)
    assert isinstance(event.object, kube.EndpointSlice)
    assert event.object.endpoints == ()


def test_null_is_absence_anywhere() -> None:
    nulls = cluster.pod("a") | {"status": {"phase": "Pending", "conditions": None, "containerStatuses": [None]}}
    nulls["metadata"] |= {"labels": None, "deletionTimestamp": None}
    pod = kube.page(Kind.POD, as_list(nulls)).objects[0]
    assert isinstance(pod, kube.Pod)
    assert (pod.status.conditions, pod.status.container_statuses, pod.metadata.labels) == ((), (), {})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-12-01T19:00:00Z", 1796151600.0),
        ("2026-12-01T19:00:00.250000Z", 1796151600.25),
        ("2026-12-01T20:00:00+01:00", 1796151600.0),
        (None, None),
    ],
)
def test_times_are_seconds_since_1970(text: str | None, seconds: float | None) -> None:
    found = cluster.node() | {"metadata": {"name": "n1", "creationTimestamp": text}}
    assert kube.seconds(cluster.decoded(found).metadata.creation_timestamp if text else None) == seconds


@pytest.mark.parametrize(
    ("times", "at"),
    [
        ({"eventTime": "2026-12-01T19:00:00.500000Z", "firstTimestamp": None, "lastTimestamp": None}, 1796151600.5),
        (
            {"eventTime": None, "firstTimestamp": "2026-12-01T18:00:00Z", "lastTimestamp": "2026-12-01T19:00:00Z"},
            1796151600.0,
        ),
        (
            {"eventTime": "2026-12-01T18:00:00Z", "series": {"count": 3, "lastObservedTime": "2026-12-01T19:00:00Z"}},
            1796151600.0,
        ),
        ({"firstTimestamp": "2026-12-01T19:00:00Z"}, 1796151600.0),
        ({}, None),
    ],
)
def test_an_event_has_whichever_time_is_set(times: dict[str, Any], at: float | None) -> None:
    """api-server.md 36."""
    event = kube.watch_line(
        Kind.EVENT, line("ADDED", {"metadata": {"name": "e", "namespace": "lab"}, "reason": "Killing", **times})
    )
    assert isinstance(event, Changed)
    assert isinstance(event.object, kube.Occurrence)
    assert event.object.last_at == at


@pytest.mark.parametrize("word", ["ADDED", "MODIFIED"])
def test_an_added_or_modified_object_is_a_change(word: str) -> None:
    event = kube.watch_line(Kind.POD, line(word, cluster.pod("a", resourceVersion="7")))
    assert isinstance(event, Changed)
    assert (event.kind, event.object.key, event.resource_version) == (Kind.POD, "lab/a", "7")


def test_a_deletion_needs_its_names_only() -> None:
    """api-server.md 23: an object that leaves the selection is reported like this too, with its new labels."""
    event = kube.watch_line(Kind.POD, line("DELETED", cluster.pod("a", uid="u-1", resourceVersion="8")))
    assert event == Deleted(Kind.POD, "lab", "a", "u-1", "8")


def test_a_bookmark_is_a_version() -> None:
    event = kube.watch_line(
        Kind.NODE, line("BOOKMARK", {"kind": "Node", "metadata": {"resourceVersion": "9", "creationTimestamp": None}})
    )
    assert event == Bookmark(Kind.NODE, "9")


@pytest.mark.parametrize(
    "message", ["too old resource version: 1 (6072)", "The resourceVersion for the provided watch is too old."]
)
def test_an_error_comes_in_the_stream(message: str) -> None:
    """api-server.md 20: HTTP 200 and one ERROR event, in the words of the watch cache or of etcd."""
    body = {"kind": "Status", "metadata": {}, "status": "Failure", "message": message, "reason": "Expired", "code": 410}
    event = kube.watch_line(Kind.POD, line("ERROR", body))
    assert isinstance(event, Status)
    assert event.expired
    assert (event.code, event.reason, event.message) == (410, "Expired", message)


def test_a_status_has_its_causes_and_the_time_to_wait() -> None:
    """api-server.md 2 and 3: the JSON key of a cause's type is `reason`."""
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget web is still being processed by the server.",
    }
    found = kube.status(
        json.dumps(
            {
                "code": 429,
                "reason": "TooManyRequests",
                "details": {"causes": [cause], "retryAfterSeconds": 10},
                "metadata": {},
            }
        ).encode()
    )
    assert found.details.causes[0].reason == "DisruptionBudget"
    assert found.details.retry_after_seconds == 10
    assert not found.expired


@pytest.mark.parametrize(
    "body", [b"", b"<html>502 Bad Gateway</html>", b'{"kind":"Pod', b"\xff\xfe", b'{"code":"no number"}', b"[]"]
)
def test_what_is_not_the_api_is_unreadable(body: bytes) -> None:
    with pytest.raises(kube.Unreadable):
        kube.status(body)


@pytest.mark.parametrize(
    "found",
    [
        b'{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{"nodeName":7}}}',
        b'{"type":"ADDED","object":{"metadata":{"na',
        b'{"type":"UNHEARD-OF","object":{}}',
        b'{"object":{}}',
    ],
)
def test_a_line_that_does_not_fit_is_unreadable(found: bytes) -> None:
    with pytest.raises(kube.Unreadable):
        kube.watch_line(Kind.POD, found)
