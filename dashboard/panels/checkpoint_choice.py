"""Which of the workloads that train the Checkpoints page shows.

Owns the filters alone, by name, place and how a workload stands. Must not judge how it stands.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from dashboard.panels.order import natural
from fleet.domain.freshness import Standing
from fleet.domain.save_picture import CheckpointRow
from fleet.domain.save_rows import BEHIND, UNSEEN

LONGEST: Final = 253
# What of the page may be asked for, by how it stands.
SHOWN: Final = {
    "behind": BEHIND,
    "unseen": UNSEEN,
    "well": frozenset(each.value for each in (Standing.FRESH, Standing.LATE, Standing.REPORTED, Standing.STARTING)),
    "resting": frozenset({Standing.RESTING.value}),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What of the workloads is shown; "" does not narrow. `show`: a key of `SHOWN`."""

    q: str = ""
    show: str = ""
    namespace: str = ""
    team: str = ""

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> Self:
        return cls(**{name: query.get(name, "").strip()[:LONGEST] for name in cls.__slots__})

    def of(self, rows: Mapping[str, CheckpointRow]) -> dict[str, CheckpointRow]:
        return {key: row for key, row in rows.items() if self._shows(key, row)}

    def _shows(self, key: str, row: CheckpointRow) -> bool:
        return (
            (self.show not in SHOWN or row.standing in SHOWN[self.show])
            and self.q.lower() in key.lower()
            and self.namespace in {"", row.namespace}
            and self.team in {"", row.team}
        )


def options(rows: Iterable[CheckpointRow], name: str) -> list[str]:
    """The values of one filter."""
    return sorted({value for row in rows if (value := getattr(row, name))}, key=natural)
