"""What Events tell of a rollout's past: how its versions were scaled, and so how many pods of old ones there were that are gone.

Owns how the words of the Deployment controller are read (deployment/sync.go, scaleReplicaSet). Must not guess: the API server
keeps Events for about an hour, and what is older is not known here.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from fleet.domain.occurrences import newest, workload_of
from fleet.domain.picture import EventRow, Snapshot

SCALED = "ScalingReplicaSet"

# "Scaled down replica set llm-5d from 3 to 2"; until Kubernetes 1.27 "… to 2 from 3", and before that "… to 2".
_WORDS = re.compile(
    r"Scaled (?P<way>up|down) replica set (?P<name>\S+) (?:from (?P<was>\d+) )?to (?P<now>\d+)(?: from (?P<before>\d+))?"
)


class Scaled(Struct, frozen=True, order=True):
    """One version was given another number of pods."""

    at: float
    name: str  # of its ReplicaSet
    was: int
    now: int


def happened(snapshot: Snapshot, workload: str) -> tuple[EventRow, ...]:
    """The newest Events about a workload, the newest first."""
    found = {key: row for key, row in snapshot.events.items() if workload_of(row) == workload}
    return tuple(found[key] for key in newest(found))


def scaled(rows: Iterable[EventRow]) -> tuple[Scaled, ...]:
    """In order; those whose words do not say from what are left out."""
    return tuple(sorted(one for row in rows if row.reason == SCALED and (one := _scaled(row)) is not None))


def _scaled(row: EventRow) -> Scaled | None:
    found = _WORDS.match(row.message)
    was = (found["was"] or found["before"]) if found else None
    if found is None or was is None or row.last_at is None or row.count > 1:
        return None  # repeated words tell one of several times
    return Scaled(row.last_at, found["name"], int(was), int(found["now"]))


def gone(steps: Iterable[Scaled], at: float, newest_set: str, leaving: int) -> int:
    """How many pods of old versions there were at a time that are not there any more. `leaving`: pods of old versions that still
    exist and were asked to stop after that time: the steps count them too."""
    left = sum(one.was - one.now for one in steps if one.at > at and one.name != newest_set)
    return max(0, left - leaving)
