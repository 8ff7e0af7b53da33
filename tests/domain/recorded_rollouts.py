"""Recorded updates of a real cluster as the inventory would have heard of them: one event after the other, in the order of their
resourceVersions, after what there was before. Owns the order; must not judge anything."""

import json
from collections.abc import Iterator
from typing import Any

from fleet.domain import kube
from fleet.domain.inventory import Inventory
from fleet.domain.picture import PodRow, Snapshot
from fleet.domain.rollout_picture import RolloutRow
from tests.domain.cluster import KIND_OF
from tests.simulation.packed_recordings import recording

Line = dict[str, Any]
LEFT_OUT = ("deletionTimestamp", "deletionGracePeriodSeconds")


def lines(name: str) -> list[Line]:
    """Every event of every watch once."""
    found: dict[tuple[int, str, str], Line] = {}
    for exchange in recording(name):
        body = exchange["response"]["body"]
        for line in body if isinstance(body, list) else []:
            meta = line["object"].get("metadata", {})
            if line["object"].get("kind") in KIND_OF and "uid" in meta and line["type"] != "BOOKMARK":
                found.setdefault((int(meta["resourceVersion"]), meta["uid"], line["type"]), line)
    return [found[key] for key in sorted(found)]


def beginnings(watched: list[Line]) -> list[Line]:
    """What a list would have told before: objects that are not new when they are first seen, as they were then."""
    first: dict[str, Line] = {}
    for line in watched:
        first.setdefault(line["object"]["metadata"]["uid"], line)
    return [_before(line["object"]) for line in first.values() if line["type"] != "ADDED"]


def _before(found: Line) -> Line:
    meta = {key: value for key, value in found["metadata"].items() if key not in LEFT_OUT}
    return {"type": "ADDED", "object": {**found, "metadata": {**meta, "resourceVersion": "1"}}}


class Moment:
    """The picture after one event."""

    def __init__(self, line: Line, shown: Snapshot, key: str) -> None:
        self.line, self.shown, self.kind = line, shown, line["object"]["kind"]
        self.row: RolloutRow = shown.rollouts[key]
        self.pods: dict[str, PodRow] = {name: pod for name, pod in shown.pods.items() if pod.workload == key}

    @property
    def ready(self) -> int:
        return sum(pod.stage == "ready" for pod in self.pods.values())


def moments(name: str, key: str) -> Iterator[Moment]:
    watched, made = lines(name), Inventory()
    for line in beginnings(watched):
        made.apply(_event(line))
    for line in watched:
        made.apply(_event(line))
        shown = made.snapshot()
        if key in shown.rollouts:
            yield Moment(line, shown, key)


def _event(line: Line) -> kube.Event:
    found = kube.watch_line(KIND_OF[line["object"]["kind"]], json.dumps(line).encode())
    assert not isinstance(found, kube.Status)
    return found
