"""A steady load for measurements: small servers lose pods, and their controllers replace them.

Owns how many pods have to go for a wanted number of changes a second. Must not write anything but deletions of pods.
"""

import random
from bisect import bisect_left
from collections.abc import Iterator

from fleet.simulation.clock import Clock
from fleet.simulation.informer import split_key
from fleet.simulation.store import Store

# What people and Vigie watch; heartbeats (leases) and events come on top.
WATCHED = (
    "nodes", "pods", "services", "deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "endpointslices",
    "poddisruptionbudgets",
)  # fmt: skip
PREFIX = "web/web-"  # the keys of the pods that fill a fleet up
TURN_S = 0.1
LEARN_S = 5.0
FIRST_GUESS = 15.0  # changes that follow from one deleted pod


class Churn:
    """`rate`: changes a second of WATCHED kinds, in the cluster's time. ValueError when there is nothing to replace."""

    def __init__(self, store: Store, clock: Clock, seed: int, rate: float) -> None:
        self.store = store
        self.clock = clock
        self.rate = rate
        self.rng = random.Random(f"{seed}/churn")  # noqa: S311 -- not for secrets
        self.yield_each = FIRST_GUESS
        if not any(self._pods()):
            raise ValueError("churn replaces small servers: fill the fleet up with some")

    def changes(self) -> int:
        """How many changes of WATCHED kinds there have been."""
        return sum(self.store.shelf(plural).end for plural in WATCHED)

    async def run(self) -> None:
        owed, removed = 0.0, 0
        before, learnt_at, last = self.changes(), self.clock.now(), self.clock.now()
        while True:
            await self.clock.sleep(TURN_S)
            now = self.clock.now()
            owed += (now - last) * self.rate / self.yield_each
            last = now
            for _ in range(int(owed)):
                self._remove_one()
                removed, owed = removed + 1, owed - 1
            if now - learnt_at >= LEARN_S and removed:
                seen = (self.changes() - before) / removed
                self.yield_each = max(1.0, 0.5 * self.yield_each + 0.5 * seen)
                before, learnt_at, removed = self.changes(), now, 0

    def _pods(self) -> Iterator[str]:
        """A few keys from a random place among the pods that may go."""
        keys = self.store.shelf("pods").keys
        first, end = bisect_left(keys, PREFIX), bisect_left(keys, PREFIX + "\U0010ffff")
        for _ in range(8 if end > first else 0):
            yield keys[self.rng.randrange(first, end)]

    def _remove_one(self) -> None:
        """A pod that is on its way out already is no change: take another."""
        records = self.store.shelf("pods").records
        for key in self._pods():
            if "deletionTimestamp" not in records[key].object["metadata"]:
                namespace, name = split_key(key)
                self.store.delete("pods", namespace, name)
                return
