"""A process's view of the cluster: per resource a cache with indexes, fed by one subscription, and handlers told of changes.

Owns what a client-go shared informer owns. Reading first takes in what has happened since, so a controller sees its own
writes. Must not write, and must not know what an object means beyond its owner and its node.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fleet.simulation.history import Change, Subscription
from fleet.simulation.refusals import ApiError
from fleet.simulation.store import Store

Object = dict[str, Any]
Handler = Callable[[Change], None]
IndexOf = Callable[[Object], Iterable[str]]

logger = logging.getLogger(__name__)


def key_of(obj: Object) -> str:
    """ "namespace/name", or "name" of what belongs to no namespace: the key of every queue and cache."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def split_key(key: str) -> tuple[str | None, str]:
    """The namespace (None when there is none) and the name of a key."""
    namespace, _, name = key.rpartition("/")
    return namespace or None, name


def controller_of(obj: Object) -> Object | None:
    """The owner reference with `controller: true`."""
    for owner in obj["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            found: Object = owner
            return found
    return None


def by_controller(obj: Object) -> Iterable[str]:
    owner = controller_of(obj)
    return (owner["uid"],) if owner else ()


def by_owner(obj: Object) -> Iterable[str]:
    return [o["uid"] for o in obj["metadata"].get("ownerReferences", ())]


def by_namespace(obj: Object) -> Iterable[str]:
    return (obj["metadata"].get("namespace", ""),)


def by_node(obj: Object) -> Iterable[str]:
    node = obj.get("spec", {}).get("nodeName")
    return (node,) if node else ()


INDEXES: dict[str, IndexOf] = {
    "controller": by_controller,
    "owner": by_owner,
    "namespace": by_namespace,
    "node": by_node,
}


def by_label(label: str) -> IndexOf:
    """Objects by namespace and value of one label."""

    def values(obj: Object) -> Iterable[str]:
        metadata = obj["metadata"]
        value = (metadata.get("labels") or {}).get(label)
        return () if value is None else (f"{metadata.get('namespace', '')}/{value}",)

    return values


class Informer:
    """One resource. Objects are the store's own: never change them."""

    def __init__(self, store: Store, plural: str) -> None:
        self.plural = plural
        self.objects: dict[str, Object] = {}
        self._store = store
        self._of = dict(INDEXES)
        self._indexes: dict[str, dict[str, dict[str, Object]]] = {}
        self._handlers: list[Handler] = []
        self._subscription: Subscription
        self._listed = False
        self._untold: deque[Change] = deque()
        self._telling = False

    def on_change(self, handler: Handler) -> Callable[[], None]:
        """Call `handler` with every later change, in order; returns what ends that."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def get(self, key: str) -> Object | None:
        self.catch_up()
        return self.objects.get(key)

    def all(self) -> list[Object]:
        self.catch_up()
        return list(self.objects.values())

    def indexed(self, index: str, value: str) -> list[Object]:
        """The objects whose `index` (in INDEXES, or made by `labelled`) is `value`, in the order in which they came."""
        self.catch_up()
        if index not in self._indexes:
            self._build(index)
        return list(self._indexes[index].get(value, {}).values())

    def labelled(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """The objects of a namespace that carry all these labels; with no labels, all of them."""
        if not labels:
            return self.indexed("namespace", namespace)
        first, *rest = sorted(labels.items())
        index = f"label {first[0]}"
        self._of.setdefault(index, by_label(first[0]))
        found = self.indexed(index, f"{namespace}/{first[1]}")
        if not rest:
            return found
        return [o for o in found if all((o["metadata"].get("labels") or {}).get(k) == v for k, v in rest)]

    def catch_up(self) -> None:
        """Take in whatever the store has that this cache has not."""
        if not self._listed:
            self._list()
            return
        try:
            changes = self._subscription.take()
        except ApiError:  # 410: fell behind the window; what happened in between shows as a fresh list
            logger.info("the cache of %s fell behind and lists again", self.plural)
            self._list()
            return
        for change in changes:
            self._apply(change)
        self._untold.extend(changes)
        self._tell()

    def _tell(self) -> None:
        """Tell the handlers, in order even when one of them reads and so takes in later changes."""
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                change = self._untold.popleft()
                for handler in list(self._handlers):
                    try:
                        handler(change)
                    except Exception:
                        logger.exception("a handler of %s failed on %s", self.plural, change.key)
        finally:
            self._telling = False

    async def run(self) -> None:
        """Keep up with the store for as long as the task lives, so that handlers hear of changes at once."""
        self.catch_up()
        while True:
            await self._subscription.wait()
            self.catch_up()

    def _list(self) -> None:
        self._subscription = self._store.subscribe(self.plural)
        self._listed = True
        self.objects = {key_of(o): o for o in self._store.list(self.plural)}
        for index in self._indexes:
            self._build(index)

    def _build(self, index: str) -> None:
        table: dict[str, dict[str, Object]] = {}
        for key, obj in self.objects.items():
            for value in self._of[index](obj):
                table.setdefault(value, {})[key] = obj
        self._indexes[index] = table

    def _apply(self, change: Change) -> None:
        key = key_of(change.object)
        gone = change.type == "DELETED"
        previous = self.objects.get(key)
        for index, table in self._indexes.items():
            of = self._of[index]
            if previous is not None:
                self._drop(table, of(previous), key, () if gone else of(change.object))
            if not gone:
                for value in of(change.object):
                    table.setdefault(value, {})[key] = change.object
        if gone:
            self.objects.pop(key, None)
        else:
            self.objects[key] = change.object

    @staticmethod
    def _drop(table: dict[str, dict[str, Object]], values: Iterable[str], key: str, kept: Iterable[str]) -> None:
        stay = set(kept)
        for value in values:
            entry = table.get(value)
            if entry is None or value in stay:
                continue
            entry.pop(key, None)
            if not entry:
                del table[value]


class Informers:
    """The informers of one process, made when first asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._informers: dict[str, Informer] = {}

    def __getitem__(self, plural: str) -> Informer:
        if plural not in self._informers:
            self._informers[plural] = Informer(self._store, plural)
        return self._informers[plural]

    def __iter__(self) -> Iterator[Informer]:
        return iter(list(self._informers.values()))
