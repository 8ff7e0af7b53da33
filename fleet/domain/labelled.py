"""Pods by namespace and label, so that a selector looks at tens of them and not at every pod of the fleet.

Owns which may be selected: more than are, never fewer. Must not decide: whoever asks still applies the selector.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from fleet.domain.objects import LabelSelector

T = TypeVar("T")


class Labelled(Generic[T]):
    """Things that belong to pods."""

    def __init__(self) -> None:
        self._all: defaultdict[str, list[T]] = defaultdict(list)
        self._by_label: defaultdict[tuple[str, str, str], list[T]] = defaultdict(list)

    def add(self, namespace: str, labels: Mapping[str, str], thing: T) -> None:
        self._all[namespace].append(thing)
        for name, value in labels.items():
            self._by_label[namespace, name, value].append(thing)

    def near(self, selector: LabelSelector | None, namespaces: Iterable[str] | None = None) -> Iterator[T]:
        """Everything that the selector may select in these namespaces; None: in any."""
        if selector is None:
            return
        for namespace in tuple(self._all) if namespaces is None else namespaces:
            shelves = [self._by_label.get((namespace, *label), []) for label in selector.match_labels.items()]
            yield from min(shelves, key=len) if shelves else self._all.get(namespace, ())
