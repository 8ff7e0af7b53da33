"""Where the checkpoints of a test's workloads are looked for: nowhere, or in a real directory."""

from collections.abc import Collection, Mapping
from pathlib import Path

from fleet.adapters.checkpoints_files import FileStore
from fleet.domain import freshness
from fleet.domain.freshness import Freshness, Report
from fleet.domain.grants import Grant
from fleet.domain.save_history import Usual
from fleet.domain.training import Record, Training
from fleet.stores import Stores


class NoStores:
    """The part of a `fleet.act.Site` that looks: nothing is granted."""

    def records(self) -> Mapping[str, Record]:
        return {}

    def look(self, training: Training, now: float) -> Freshness:
        return freshness.unread(training, now, Usual(), None, "not-granted")


class OneStore:
    """The same where the claim "ckpt" of namespace "lab" is granted, and what workloads say of themselves is known."""

    def __init__(self, shelf: Path) -> None:
        self.reports: dict[str, Report] = {}
        self.stores = self.granting(shelf)

    def granting(self, shelf: Path | None) -> Stores:
        granted = [] if shelf is None else [Grant(namespace="lab", claim="ckpt", path=str(shelf))]
        return Stores(granted, lambda grant: FileStore(Path(grant.path)), self)

    def usual(self, workload: str) -> Usual:
        return Usual()

    def report(self, workload: str) -> Report | None:
        return self.reports.get(workload)

    def first_seen(self, workload: str, wanted: Collection[tuple[str, float]]) -> Mapping[tuple[str, float], float]:
        return {}

    def records(self) -> Mapping[str, Record]:
        return {}

    def look(self, training: Training, now: float) -> Freshness:
        return self.stores.look(training, now, fresh=True)
