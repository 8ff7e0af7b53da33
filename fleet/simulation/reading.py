"""GET of one object and of lists: versions, pages, selectors and the three forms of an answer.

Owns the semantics of list options. Must not change anything.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec

from fleet.simulation import event_views, paging, tables
from fleet.simulation.columns import printer_of
from fleet.simulation.exchange import Form, Reply, Request, Target, reply, wanted_form
from fleet.simulation.history import Frozen, Record, Shelf
from fleet.simulation.label_selectors import FieldSelector, LabelSelector
from fleet.simulation.refusals import (
    ApiError,
    Cause,
    bad_request,
    forbidden_value,
    invalid,
    too_large_version,
    unsupported_value,
)
from fleet.simulation.store import Store

Object = dict[str, Any]

PATIENCE_S = 3.0  # how long a list waits for a version that does not exist yet
MATCHES = ("Exact", "NotOlderThan")


class Selection:
    """The label and field selectors of a request."""

    def __init__(self, request: Request, target: Target) -> None:
        labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
        self.labels = LabelSelector.parse(labels) if labels else None
        self.fields = FieldSelector.parse(target.plural, fields) if fields else None
        if target.name:
            self.fields = FieldSelector.parse(target.plural, f"metadata.name={target.name}")
        self.everything = self.labels is None and self.fields is None

    def matches(self, obj: Object) -> bool:
        if self.labels is not None and not self.labels.matches(obj["metadata"].get("labels") or {}):
            return False
        return self.fields is None or self.fields.matches(obj)


def get(store: Store, request: Request, target: Target) -> Reply:
    """ApiError 404, 406."""
    form = wanted_form(request)
    record = store.record(target.plural, target.namespace, target.name)
    return shown(store, request, target, record.object, form, raw=record.raw)


def shown(
    store: Store,
    request: Request,
    target: Target,
    obj: Object,
    form: Form,
    *,
    raw: bytes | None = None,
    status: int = 200,
) -> Reply:
    """One object in the form that was asked for."""
    if form is Form.TABLE:
        made = tables.table(target.resource, [obj], printer_of(target.resource), store.clock.now(), _include(request))
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return reply(_with_metadata(made, metadata), status)
    if form is Form.METADATA:
        return reply(tables.partial(obj), status)
    if target.resource.group == "events.k8s.io":
        return reply(event_views.to_v1(obj), status)
    return Reply(status, raw if raw is not None else msgspec.json.encode(obj))


def _include(request: Request) -> str:
    return request.query.get("includeObject", "Metadata")


def _with_metadata(table: Object, metadata: Object) -> Object:
    return {"kind": table.pop("kind"), "apiVersion": table.pop("apiVersion"), "metadata": metadata, **table}


def check_list_options(request: Request) -> None:
    """ApiError 422 for options that exclude each other."""
    query, causes = request.query, []
    match = query.get("resourceVersionMatch", "")
    if match and query.get("continue"):
        causes.append(forbidden_value("resourceVersionMatch", "resourceVersionMatch is forbidden with continue"))
    elif match and not query.get("resourceVersion"):
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        causes.append(forbidden_value("resourceVersionMatch", why))
    elif match and match not in MATCHES:
        causes.append(unsupported_value("resourceVersionMatch", match, ["Exact", "NotOlderThan", ""]))
    elif match == "Exact" and query.get("resourceVersion") == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append(forbidden_value("resourceVersionMatch", why))
    if "sendInitialEvents" in query:
        causes.append(forbidden_value("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    refuse_options(causes)


def refuse_options(causes: list[Cause]) -> None:
    if causes:
        raise invalid("ListOptions.meta.k8s.io", "", causes)


async def list_objects(store: Store, request: Request, target: Target) -> Reply:
    """ApiError 400, 406, 410, 422, 504."""
    form = wanted_form(request)
    selection = Selection(request, target)
    check_list_options(request)
    prefix = f"{target.namespace}/" if target.namespace else ""
    page = await _page(store, request, target, prefix)
    records, metadata = page.take(selection)
    if form is Form.TABLE:
        objects = (r.object for r in records)
        made = tables.table(target.resource, objects, printer_of(target.resource), store.clock.now(), _include(request))
        return reply(_with_metadata(made, metadata))
    if form is Form.METADATA:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        return reply({**head, "items": [tables.partial(r.object) for r in records]})
    return Reply(200, _list_body(target, records, metadata))


def _list_body(target: Target, records: list[Record], metadata: Object) -> bytes:
    """The list from the objects' own bytes; items carry neither kind nor apiVersion."""
    resource = target.resource
    if resource.group == "events.k8s.io":
        views = (event_views.to_v1(r.object) for r in records)
        items = [msgspec.json.encode({k: v for k, v in e.items() if k not in {"kind", "apiVersion"}}) for e in views]
    else:
        cut = len(resource.head)
        items = [b"{" + r.raw[cut:] for r in records]
    head = f'{{"kind":"{resource.kind}List","apiVersion":"{resource.api_version}","metadata":'.encode()
    return b"".join((head, msgspec.json.encode(metadata), b',"items":[', b",".join(items), b"]}"))


class Page:
    """A part of a list: from which state, after which key, how much."""

    def __init__(
        self, view: Shelf | Frozen, version: int, prefix: str, after: str, limit: int, *, cached: bool
    ) -> None:
        self.view = view
        self.version = version
        self.prefix = prefix
        self.after = after
        self.limit = limit
        self.cached = cached

    def take(self, selection: Selection) -> tuple[list[Record], Object]:
        """The records and the list's metadata."""
        taken: list[Record] = []
        last, more = "", False
        matching = self._matching(selection)
        for key, record in matching:
            if self.limit and len(taken) == self.limit:
                more = True
                break
            taken.append(record)
            last = key
        metadata: Object = {"resourceVersion": str(self.version)}
        if more:
            metadata["continue"] = paging.token(self.version, last, self.prefix, cached=self.cached)
            if selection.everything:
                metadata["remainingItemCount"] = self.view.count(self.prefix, last)
        return taken, metadata

    def _matching(self, selection: Selection) -> Iterator[tuple[str, Record]]:
        found = self.view.range(self.prefix, self.after)
        if selection.everything:
            return found
        return ((k, r) for k, r in found if selection.matches(r.object))


async def _page(store: Store, request: Request, target: Target, prefix: str) -> Page:
    query = request.query
    shelf = store.shelf(target.plural)
    cached = target.resource.kind != "Event"
    limit = max(0, request.number("limit") or 0)
    if query.get("continue"):
        if query.get("resourceVersion") not in {None, "", "0"}:
            raise bad_request("specifying resource version is not allowed when using continue")
        place = paging.parse(query["continue"], prefix)
        view, version = _continued(store, shelf, place, prefix)
        return Page(view, version, prefix, place.after, limit, cached=cached)
    version = parse_version(query.get("resourceVersion", ""))
    if query.get("resourceVersionMatch") == "Exact":
        if version > store.resource_version:
            raise too_large_version(version, store.resource_version)
        return Page(shelf.as_of(version), version, prefix, "", limit, cached=cached)
    await _caught_up(store, version)
    if query.get("resourceVersion") == "0":
        limit = 0  # served from the watch cache, which ignores it
    return Page(shelf, store.resource_version, prefix, "", limit, cached=cached)


def _continued(store: Store, shelf: Shelf, place: paging.Place, prefix: str) -> tuple[Shelf | Frozen, int]:
    if place.version == paging.INCONSISTENT:
        return shelf, store.resource_version
    try:
        return shelf.as_of(place.version), place.version
    except ApiError as error:
        raise paging.too_old(place, prefix) from error


async def _caught_up(store: Store, version: int) -> None:
    """Wait a moment for a version still to come; ApiError 504 when it does not."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while version > store.resource_version:
        if asyncio.get_running_loop().time() >= deadline:
            raise too_large_version(version, store.resource_version)
        await asyncio.sleep(0.05)


def parse_version(text: str) -> int:
    """ApiError 400 for what is no version."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit():
        raise bad_request(f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)
