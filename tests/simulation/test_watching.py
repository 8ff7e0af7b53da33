"""Watches: what comes, in which form, and how a stream begins and ends. Numbers in names are lines of api-server.md."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fleet.simulation.exchange import Request, target_of
from fleet.simulation.refusals import ApiError
from fleet.simulation.watching import Watch
from tests.simulation.http import TABLE, Api

NODES = "/api/v1/nodes"


class Time:
    """Seconds that the test sets; the loop's own time goes by between two settings as well."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stream:
    """A watch being read: `await events()` gives what is there by now."""

    def __init__(self, api: Api, path: str = NODES, accept: str = "application/json", **query: str) -> None:
        self.time = Time()
        request = Request("GET", path, {"watch": "true", **query}, {"accept": accept})
        target = target_of(path)
        assert target is not None
        self.watch = Watch(api.store, request, target, self.time)
        self._lines = self.watch.lines()
        self._events: list[dict[str, Any]] = []
        self.ended = False
        self._reading = asyncio.create_task(self._read(self._lines))

    async def _read(self, lines: AsyncIterator[bytes]) -> None:
        async for chunk in lines:
            assert chunk.endswith(b"\n")
            self._events += [json.loads(line) for line in chunk.splitlines()]
        self.ended = True

    async def events(self) -> list[dict[str, Any]]:
        for _ in range(5):
            await asyncio.sleep(0)
        if self._reading.done():
            self._reading.result()
        taken, self._events = self._events, []
        return taken

    async def shown(self) -> list[tuple[str, str]]:
        return [(e["type"], e["object"]["metadata"].get("name", "")) for e in await self.events()]


@pytest.fixture
def api() -> Api:
    return Api()


def cordon(api: Api, name: str) -> None:
    def change(draft: dict[str, Any]) -> None:
        draft["spec"]["unschedulable"] = not draft["spec"].get("unschedulable", False)

    api.store.mutate("nodes", None, name, change, manager="test")


def relabel(api: Api, name: str, **labels: str) -> None:
    def change(draft: dict[str, Any]) -> None:
        draft["metadata"]["labels"] = labels

    api.store.mutate("nodes", None, name, change, manager="test")


async def test_changes_since_a_version(api: Api) -> None:
    since = str(api.store.resource_version)
    api.node("n1")
    stream = Stream(api, resourceVersion=since)
    assert await stream.shown() == [("ADDED", "n1")]
    cordon(api, "n1")
    api.store.delete("nodes", None, "n1")
    modified, deleted = await stream.events()
    assert (modified["type"], modified["object"]["spec"]) == ("MODIFIED", {"unschedulable": True})
    assert (deleted["type"], deleted["object"]["kind"]) == ("DELETED", "Node")
    assert int(deleted["object"]["metadata"]["resourceVersion"]) == api.store.resource_version


@pytest.mark.parametrize("query", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
async def test_without_a_version_what_exists_comes_first(api: Api, query: dict[str, str]) -> None:
    api.node("n2")
    api.node("n1")
    stream = Stream(api, **query)
    assert await stream.shown() == [("ADDED", "n1"), ("ADDED", "n2")]
    cordon(api, "n2")
    assert await stream.shown() == [("MODIFIED", "n2")]


async def test_a_selection_is_entered_and_left_23(api: Api) -> None:
    api.node("n1", pool="a")
    stream = Stream(api, resourceVersion=str(api.store.resource_version), labelSelector="pool=a")
    relabel(api, "n1", pool="b")
    (left,) = await stream.events()
    assert left["type"] == "DELETED"
    assert left["object"]["metadata"]["labels"] == {"pool": "a"}
    assert left["object"]["metadata"]["resourceVersion"] == str(api.store.resource_version)
    cordon(api, "n1")
    assert await stream.shown() == []
    relabel(api, "n1", pool="a")
    cordon(api, "n1")
    assert await stream.shown() == [("ADDED", "n1"), ("MODIFIED", "n1")]
    api.store.delete("nodes", None, "n1")
    assert await stream.shown() == [("DELETED", "n1")]


async def test_a_field_selection(api: Api) -> None:
    api.node("n1")
    api.node("n2")
    stream = Stream(api, resourceVersion=str(api.store.resource_version), fieldSelector="metadata.name=n2")
    cordon(api, "n1")
    cordon(api, "n2")
    assert await stream.shown() == [("MODIFIED", "n2")]


async def test_a_namespace_sees_its_own(api: Api) -> None:
    api.namespace("one")
    api.namespace("one-more")
    stream = Stream(api, "/api/v1/namespaces/one/pods", resourceVersion=str(api.store.resource_version))
    api.pod("a", namespace="one")
    api.pod("b", namespace="one-more")
    assert await stream.shown() == [("ADDED", "a")]


async def test_too_old_is_an_event_20(api: Api) -> None:
    api.node("n1")
    api.store.expire()
    stream = Stream(api, resourceVersion="1")
    (error,) = await stream.events()
    assert error["type"] == "ERROR"
    assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")
    assert error["object"]["message"] == f"too old resource version: 1 ({api.store.resource_version})"
    assert stream.ended
    (error,) = await Stream(api, "/api/v1/events", resourceVersion="1").events()
    assert error["object"]["message"] == "The resourceVersion for the provided watch is too old."


async def test_who_falls_behind_is_told_so() -> None:
    api = Api(window=3)
    api.node("n1")
    stream = Stream(api, resourceVersion=str(api.store.resource_version))
    assert await stream.shown() == []
    for _ in range(8):
        cordon(api, "n1")
    assert (await stream.events())[-1]["type"] == "ERROR"
    assert stream.ended


async def test_a_restart_ends_streams_and_expires_versions_21(api: Api) -> None:
    api.node("n1")
    before = str(api.store.resource_version)
    cordon(api, "n1")
    api.app.restart()
    assert [e["type"] for e in await Stream(api, resourceVersion=before).events()] == ["ERROR"]
    now = Stream(api, resourceVersion=str(api.store.resource_version))
    assert await now.shown() == []


async def test_a_version_to_come_is_silence_22(api: Api) -> None:
    stream = Stream(api, resourceVersion="999999", timeoutSeconds="5")
    api.node("n1")
    assert await stream.shown() == []
    assert not stream.ended


async def test_garbage_is_an_error_of_the_server_22(api: Api) -> None:
    with pytest.raises(ApiError) as refused:
        Stream(api, resourceVersion="abc")
    body = refused.value.body()
    assert (body["code"], "reason" in body) == (500, False)


INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


class TestInitialEvents:
    async def test_their_end_is_marked_23(self, api: Api) -> None:
        api.node("n1")
        stream = Stream(api, **INITIAL, allowWatchBookmarks="true")
        added, mark = await stream.events()
        assert added["type"] == "ADDED"
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"] == {
            "resourceVersion": str(api.store.resource_version),
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
        cordon(api, "n1")
        assert await stream.shown() == [("MODIFIED", "n1")]

    async def test_without_bookmarks_there_is_no_mark_23(self, api: Api) -> None:
        api.node("n1")
        assert await Stream(api, **INITIAL).shown() == [("ADDED", "n1")]

    @pytest.mark.parametrize(
        ("query", "fields"),
        [
            ({"sendInitialEvents": "true"}, ["resourceVersionMatch"]),
            ({"sendInitialEvents": "true", "resourceVersionMatch": "Exact"}, ["resourceVersionMatch"] * 2),
            ({"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}, ["resourceVersionMatch"]),
        ],
    )
    async def test_options_that_are_refused_23(self, api: Api, query: dict[str, str], fields: list[str]) -> None:
        with pytest.raises(ApiError) as refused:
            Stream(api, **query)
        assert [c["field"] for c in refused.value.body()["details"]["causes"]] == fields

    async def test_they_can_be_declined(self, api: Api) -> None:
        api.node("n1")
        stream = Stream(api, sendInitialEvents="false", resourceVersionMatch="NotOlderThan", resourceVersion="")
        assert await stream.shown() == []


class TestTime:
    async def test_bookmarks_come_every_minute_and_before_the_end(self, api: Api) -> None:
        since = str(api.store.resource_version)
        stream = Stream(api, resourceVersion=since, allowWatchBookmarks="true", timeoutSeconds="100")
        marks = [(0, e["type"]) for e in await stream.events()]
        for second in (59, 61, 97, 99):
            stream.time.now = float(second)
            api.store.shelf("nodes").wake()
            marks += [(second, e["type"]) for e in await stream.events()]
        assert marks == [(61, "BOOKMARK"), (99, "BOOKMARK")]

    async def test_no_bookmarks_unless_asked_for(self, api: Api) -> None:
        stream = Stream(api, resourceVersion=str(api.store.resource_version), timeoutSeconds="100")
        await stream.events()
        stream.time.now = 99.0
        api.store.shelf("nodes").wake()
        assert await stream.events() == []

    async def test_the_stream_ends_at_its_time(self, api: Api) -> None:
        stream = Stream(api, resourceVersion=str(api.store.resource_version), timeoutSeconds="5")
        await stream.events()
        stream.time.now = 5.0
        api.store.shelf("nodes").wake()
        await stream.events()
        assert stream.ended

    async def test_stopping_ends_it_at_once(self, api: Api) -> None:
        stream = Stream(api, resourceVersion=str(api.store.resource_version))
        await stream.events()
        stream.watch.stop()
        await stream.events()
        assert stream.ended


class TestForms:
    async def test_tables_name_their_columns_once(self, api: Api) -> None:
        api.node("n1")
        stream = Stream(api, accept=TABLE)
        (first,) = (e["object"] for e in await stream.events())
        cordon(api, "n1")
        (second,) = (e["object"] for e in await stream.events())
        assert [c["name"] for c in first["columnDefinitions"]][:2] == ["Name", "Status"]
        assert second["columnDefinitions"] is None
        assert second["rows"][0]["cells"][1] == "Unknown,SchedulingDisabled"
        assert second["metadata"]["resourceVersion"] == str(api.store.resource_version)

    async def test_metadata_only(self, api: Api) -> None:
        api.node("n1")
        partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
        (event,) = await Stream(api, accept=partial).events()
        assert set(event["object"]) == {"kind", "apiVersion", "metadata"}

    async def test_events_of_the_new_group(self, api: Api) -> None:
        about = {"kind": "Node", "name": "n1"}
        event = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": about, "message": "hello"}
        api.store.create("events", event, manager="test")
        (shown,) = await Stream(api, "/apis/events.k8s.io/v1/events").events()
        assert (shown["object"]["apiVersion"], shown["object"]["note"]) == ("events.k8s.io/v1", "hello")
