"""Watches: one client's stream of a resource's changes, in the form and selection it asked for.

Owns the semantics of watch options, bookmarks and the end of a stream. Must not know sockets: it hands over lines.
"""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec

from fleet.simulation import event_views, tables
from fleet.simulation.columns import printer_of
from fleet.simulation.exchange import Form, Request, Target, wanted_form
from fleet.simulation.history import Change, Record, Subscription
from fleet.simulation.reading import Selection, refuse_options
from fleet.simulation.refusals import ApiError, forbidden_value, unsupported_value
from fleet.simulation.store import Store

Object = dict[str, Any]

BOOKMARK_EVERY_S = 60.0
BOOKMARK_BEFORE_END_S = 2.0
LONGEST_S = (1800, 3600)  # a watch without timeoutSeconds ends after a random time between these
UNCACHED_TOO_OLD = "The resourceVersion for the provided watch is too old."
# What a bookmark's object shows besides its version, as Go writes an empty object of the kind.
_EMPTY: dict[str, Object] = {
    "pods": {"spec": {"containers": None}, "status": {}},
    "events": {"involvedObject": {}, "source": {}, "firstTimestamp": None, "lastTimestamp": None},
}


class Watch:
    """One stream. `lines` gives chunks of whole lines until the timeout, `stop` or an error event.

    ApiError 406, 422 and 500 when it cannot begin; too old a version is an ERROR event instead.
    """

    def __init__(self, store: Store, request: Request, target: Target, time: Callable[[], float]) -> None:
        self._store = store
        self._target = target
        self._form = wanted_form(request)
        self._selection = Selection(request, target)
        self._prefix = f"{target.namespace}/" if target.namespace else ""
        self._include = request.query.get("includeObject", "Metadata")
        self._bookmarks = request.flag("allowWatchBookmarks") if "allowWatchBookmarks" in request.query else False
        self._heads_shown = False
        self._initial = _initial_events(request)
        self._time = time
        self._ends_at = time() + _timeout_s(request)
        self._subscription: Subscription | None = None
        self._stopped = False
        self.broken = False
        self._since = _version(request)

    def stop(self, *, broken: bool = False) -> None:
        """End the stream soon; `broken` leaves the answer without its end, as a killed server does."""
        self._stopped = True
        self.broken = broken
        if self._subscription is not None:
            self._subscription.close()

    async def lines(self) -> AsyncIterator[bytes]:
        store, plural = self._store, self._target.plural
        initial = b""
        try:
            if self._initial.objects:
                initial = b"".join(self._added())
                self._subscription = store.subscribe(plural)
                if self._initial.mark and self._bookmarks:
                    initial += self._bookmark(end_mark=True)
            else:
                self._subscription = store.subscribe(plural, self._since)
        except ApiError as error:
            yield self._error(error)
            return
        if initial:
            yield initial
        async for chunk in self._changes(self._subscription):
            yield chunk

    async def _changes(self, subscription: Subscription) -> AsyncIterator[bytes]:
        bookmark_at = self._next_bookmark()
        while not self._stopped:
            try:
                chunk = b"".join(line for change in subscription.take() for line in self._lines_of(change))
            except ApiError as error:
                yield self._error(error)
                return
            if chunk:
                yield chunk
            now = self._time()
            if now >= self._ends_at:
                return
            if self._bookmarks and now >= bookmark_at:
                yield self._bookmark()
                bookmark_at = self._next_bookmark()
            await subscription.wait(min(self._ends_at, bookmark_at) - self._time())

    def _next_bookmark(self) -> float:
        now = self._time()
        last = self._ends_at - BOOKMARK_BEFORE_END_S
        return min(now + BOOKMARK_EVERY_S, last if last > now else self._ends_at)

    def _added(self) -> Iterator[bytes]:
        for _, record in self._store.shelf(self._target.plural).range(self._prefix):
            if self._selection.matches(record.object):
                yield self._line("ADDED", record)

    def _lines_of(self, change: Change) -> Iterator[bytes]:
        if self._prefix and not change.key.startswith(self._prefix):
            return
        if self._selection.everything:
            yield self._line(change.type, change.record)
            return
        was = change.before is not None and self._selection.matches(change.before.object)
        now = change.type != "DELETED" and self._selection.matches(change.record.object)
        if now:
            yield self._line("MODIFIED" if was else "ADDED", change.record)
        elif was and change.type == "DELETED":
            yield self._line("DELETED", change.record)
        elif was and change.before is not None:
            yield self._line("DELETED", _left(change.before, change.resource_version))

    def _line(self, kind: str, record: Record) -> bytes:
        if self._form is Form.OBJECT and self._target.resource.group != "events.k8s.io":
            return b'{"type":"' + kind.encode() + b'","object":' + record.raw + b"}\n"
        return _event(kind, self._view(record.object))

    def _view(self, obj: Object) -> Object:
        if self._form is Form.METADATA:
            return tables.partial(obj)
        if self._form is Form.OBJECT:
            return event_views.to_v1(obj)
        return self._table([obj], obj["metadata"]["resourceVersion"])

    def _table(self, objects: list[Object], version: str) -> Object:
        """Only the first table of a stream says what its columns are."""
        resource, now = self._target.resource, self._store.clock.now()
        head = not self._heads_shown
        made = tables.table(resource, objects, printer_of(resource), now, self._include, head=head)
        self._heads_shown = True
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": version},
            "columnDefinitions": made["columnDefinitions"],
            "rows": made["rows"],
        }

    def _bookmark(self, *, end_mark: bool = False) -> bytes:
        metadata: Object = {"resourceVersion": str(self._store.resource_version)}
        if end_mark:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        resource = self._target.resource
        if self._form is Form.TABLE:
            return _event("BOOKMARK", self._table([], metadata["resourceVersion"]))
        if self._form is Form.METADATA:
            return _event("BOOKMARK", tables.partial({"metadata": metadata}))
        head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return _event("BOOKMARK", {**head, **_EMPTY.get(resource.plural, {"spec": {}, "status": {}})})

    def _error(self, error: ApiError) -> bytes:
        if self._target.resource.kind == "Event":
            error = ApiError(error.status, error.reason, UNCACHED_TOO_OLD)
        return _event("ERROR", error.body())


def _event(kind: str, obj: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def _left(before: Record, version: int) -> Record:
    """An object that left the selection: as it was, with the version of the change."""
    obj = {**before.object, "metadata": {**before.object["metadata"], "resourceVersion": str(version)}}
    return Record(obj, version)


class _Initial:
    """What comes before the changes: the present objects, and whether their end is marked."""

    def __init__(self, *, objects: bool, mark: bool) -> None:
        self.objects = objects
        self.mark = mark


def _initial_events(request: Request) -> _Initial:
    """ApiError 422 for options that exclude each other."""
    query, causes = request.query, []
    match = query.get("resourceVersionMatch", "")
    asked = "sendInitialEvents" in query
    if asked and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(forbidden_value("resourceVersionMatch", why))
        if match:
            causes.append(unsupported_value("resourceVersionMatch", match, ["NotOlderThan"]))
    elif match and not asked:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(forbidden_value("resourceVersionMatch", why))
    refuse_options(causes)
    if asked:
        wanted = request.flag("sendInitialEvents")
        return _Initial(objects=wanted, mark=wanted)
    return _Initial(objects=query.get("resourceVersion", "") in {"", "0"}, mark=False)


def _version(request: Request) -> int | None:
    """The version to begin after, None for now; ApiError 500 for what is no version, as the real server has it."""
    version = request.query.get("resourceVersion", "")
    if version and not (version.isascii() and version.isdigit()):
        words = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise ApiError(500, "", f'resourceVersion: Invalid value: "{version}": {words}')
    return int(version) if version and version != "0" else None


def _timeout_s(request: Request) -> float:
    asked = request.number("timeoutSeconds")
    return float(asked) if asked else random.uniform(*LONGEST_S)  # noqa: S311 (spreads reconnects, no secret)
