"""A store that gives what is generated the names of a recording, and remembers every state of every object.

For lived replays: requests that name a pod find it, and a read can be compared with what was at any moment. Must not change
what is stored otherwise.
"""

import json

from fleet.simulation.clock import ManualClock
from fleet.simulation.informer import controller_of
from fleet.simulation.resources import Resource
from fleet.simulation.store import Store
from tests.simulation import lived_start
from tests.simulation.lived_start import PLURALS, Exchange, Object

State = tuple[float, Object | None]


class RecordedNames(Store):
    """Gives what is generated (pods' suffixes, template hashes) the names that the recording has, in order of creation."""

    def __init__(self, clock: ManualClock, exchanges: list[Exchange], present: set[str]) -> None:
        self._names: dict[str, list[str]] = {}
        self.past: dict[tuple[str, str], list[State]] = {}
        super().__init__(clock, seed=1)
        seen = set(present)
        for _, _, obj in lived_start.sights(exchanges):
            if obj["metadata"]["uid"] not in seen and obj["kind"] != "Event":
                seen.add(obj["metadata"]["uid"])
                self._names.setdefault(_maker(obj), []).append(obj["metadata"]["name"])

    def create(self, plural: str, obj: Object, *, manager: str, dry_run: bool = False) -> Object:
        names = self._names.get(_maker({"kind": _kind_of(plural), **obj}), [])
        if names and not dry_run and manager == "kube-controller-manager":
            if obj["metadata"].get("generateName"):
                obj = {**obj, "metadata": {**obj["metadata"], "name": names.pop(0)}}
            else:
                ours, recorded = obj["metadata"]["name"], names.pop(0)
                hashes = ours.rpartition("-")[2], recorded.rpartition("-")[2]
                obj = json.loads(json.dumps(obj).replace(*hashes))
        return super().create(plural, obj, manager=manager, dry_run=dry_run)

    def _commit(self, resource: Resource, kind: str, key: str, new: Object, *, dry_run: bool = False) -> Object:
        written = super()._commit(resource, kind, key, new, dry_run=dry_run)
        if not dry_run:
            shown = None if kind == "DELETED" else written
            self.past.setdefault((resource.plural, key), []).append((self.clock.now(), shown))
        return written

    def states(self, plural: str, key: str, since: float, until: float) -> list[Object | None]:
        """What an object was between two moments; None: not there."""
        past = self.past.get((plural, key), [])
        before = [obj for at, obj in past if at < since]
        return [before[-1] if before else None, *(obj for at, obj in past if since <= at <= until)]


def _kind_of(plural: str) -> str:
    return next((k for k, p in PLURALS.items() if p == plural), "")


def _maker(obj: Object) -> str:
    """Whoever gave the object its name."""
    metadata, owner = obj["metadata"], controller_of(obj)
    if metadata.get("generateName"):
        return f"{obj['kind']}/{metadata.get('namespace')}/{metadata['generateName']}"
    return f"{obj['kind']}/{owner['kind']}/{owner['name']}" if owner and obj["kind"] != "Pod" else ""
