"""Where the checkpoints of a test's workloads are looked for: nowhere, or in a real directory."""

import time
from collections.abc import Mapping
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
