"""The two collections that the inventory keeps: tables of rows that know whether they changed, and joins.

Owns keeping unchanged rows, and unchanged tables, the very same objects: everything after it skips them by identity.
"""

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

from fleet.domain.picture import Row

R = TypeVar("R", bound=Row)
G = TypeVar("G", bound=Hashable)


class Table(Generic[R]):
    """Rows by key, changed in place; `frozen()` gives what a snapshot holds."""

    def __init__(self) -> None:
        self._rows: dict[str, R] = {}
        self._frozen: dict[str, R] = {}
        self._changed = False

    def get(self, key: str) -> R | None:
        return self._rows.get(key)

    def put(self, key: str, row: R | None) -> bool:
        """Set a row, or remove it (None); whether that changed anything."""
        old = self._rows.get(key)
        if old == row:
            return False
        if row is None:
            del self._rows[key]
        else:
            self._rows[key] = row
        self._changed = True
        return True

    def replace(self, rows: Mapping[str, R]) -> None:
        """Set all rows, in their order; equal ones stay the same objects."""
        kept = {
            key: old if (old := self._rows.get(key)) == row and old is not None else row for key, row in rows.items()
        }
        if list(kept) != list(self._rows) or any(kept[key] is not row for key, row in self._rows.items()):
            self._rows = kept
            self._changed = True

    def frozen(self) -> dict[str, R]:
        """The rows as they are now, the same object as last time when nothing changed. Not to be changed by anybody."""
        if self._changed:
            self._frozen = dict(self._rows)
            self._changed = False
        return self._frozen


class Join(Generic[G]):
    """Which members belong to which groups, both ways. A member may be in several groups."""

    def __init__(self) -> None:
        self.groups: dict[G, set[str]] = {}  # to be read only; no group in it is empty
        self._of: dict[str, tuple[G, ...]] = {}

    def members(self, group: G) -> Collection[str]:
        return self.groups.get(group, ())

    def of(self, member: str) -> tuple[G, ...]:
        return self._of.get(member, ())

    def put(self, member: str, groups: tuple[G, ...]) -> None:
        """The groups of `member` are these and no others."""
        old = self._of.get(member, ())
        if old == groups:
            return
        for group in old:
            self._leave(member, group)
        for group in groups:
            self.groups.setdefault(group, set()).add(member)
        if groups:
            self._of[member] = groups
        else:
            del self._of[member]

    def _leave(self, member: str, group: G) -> None:
        found = self.groups[group]
        found.discard(member)
        if not found:
            del self.groups[group]
