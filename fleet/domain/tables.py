"""The two collections that the inventory keeps: tables of rows that know whether they changed, and joins.

Owns keeping unchanged rows, and unchanged tables, the very same objects: everything after it skips them by identity.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from fleet.domain.picture import Row

R = TypeVar("R", bound=Row)


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


class Join:
    """Which members belong to which groups, both ways. A member may be in several groups."""

    def __init__(self) -> None:
        self._members: defaultdict[str, set[str]] = defaultdict(set)
        self._groups: dict[str, tuple[str, ...]] = {}

    def members(self, group: str) -> Iterable[str]:
        return self._members.get(group, ())

    def put(self, member: str, groups: tuple[str, ...]) -> None:
        """The groups of `member` are these and no others; the empty text is no group."""
        old = self._groups.get(member, ())
        if old == groups:
            return
        for group in old:
            self._leave(member, group)
        for group in filter(None, groups):
            self._members[group].add(member)
        if groups:
            self._groups[member] = groups
        else:
            self._groups.pop(member, None)

    def _leave(self, member: str, group: str) -> None:
        found = self._members.get(group)
        if found is not None:
            found.discard(member)
            if not found:
                del self._members[group]
