"""Requests of the write path to one API server: whole lists by pages, single objects, and writes in Vigie's name.

Owns their deadlines and what an answer that is no success becomes. Must not know what any of them is for.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct, field

from fleet.adapters.cluster_kubernetes import JSON, ApiServer, Reply
from fleet.adapters.cluster_streams import decoded, refusal
from fleet.domain import kube
from fleet.ports import PortError

T = TypeVar("T")

MANAGER = "vigie"
PAGE = 500
READ_WITHIN_S = 15.0
WRITE_WITHIN_S = 10.0


class _ListMetadata(Struct):
    token: str = field(default="", name="continue")


class _Items(Struct):
    """A list whose items are decoded on their own."""

    metadata: _ListMetadata = field(default_factory=_ListMetadata)
    items: list[msgspec.Raw] | None = None


_ITEMS = msgspec.json.Decoder(_Items)


class Requests:
    """Over one API server's connection."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def _write(self, method: str, path: str, body: object, kind: str = JSON, *, dry_run: bool = False) -> Reply:
        """The answer, which is a success; `dry_run`: the server says what it would answer, and changes nothing."""
        query = {"fieldManager": MANAGER, **({"dryRun": "All"} if dry_run else {})}
        reply = self._server.send(
            method, path, msgspec.json.encode(body), query=query, kind=kind, within_s=WRITE_WITHIN_S
        )
        if not 200 <= reply.status < 300:
            raise refused(reply)
        return reply

    def _get(self, path: str, type_: type[T]) -> T | None:
        try:
            body = self._server.read(path, within_s=READ_WITHIN_S)
        except PortError as error:
            if error.status == 404:
                return None
            raise
        return decoded(msgspec.json.Decoder(type_).decode, body)

    def _list(self, path: str, type_: type[T], query: Mapping[str, str] | None = None) -> tuple[T, ...]:
        """The whole list, by pages of one version. One that expires between two pages is begun again, once."""
        try:
            return self._pages(path, type_, query or {})
        except PortError as error:
            if error.status != 410:
                raise
            return self._pages(path, type_, query or {})

    def _pages(self, path: str, type_: type[T], query: Mapping[str, str]) -> tuple[T, ...]:
        decode = tolerant(msgspec.json.Decoder(type_).decode)
        found: list[T] = []
        token = ""
        while True:
            asked = {**query, "limit": str(PAGE), **({"continue": token} if token else {})}
            page = decoded(_ITEMS.decode, self._server.read(path, asked))
            found += [decoded(decode, bytes(item)) for item in page.items or ()]
            token = page.metadata.token
            if not token:
                return tuple(found)


def within(path: str, namespace: str) -> str:
    """A collection's path over all namespaces as that of one; "" leaves it."""
    stem, _, plural = path.rpartition("/")
    return f"{stem}/namespaces/{quote(namespace, safe='')}/{plural}" if namespace else path


def tolerant(decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Nulls where the API allows them for what is absent."""

    def decoding(body: bytes) -> T:
        try:
            return decode(body)
        except msgspec.ValidationError:
            return decode(msgspec.json.encode(kube.without_nulls(msgspec.json.decode(body))))

    return decoding


def status_of(reply: Reply) -> kube.Status:
    try:
        return kube.status(reply.body)
    except kube.Unreadable:  # a proxy's page: the code says enough
        return kube.Status()


def refused(reply: Reply) -> PortError:
    return refusal(reply.status, status_of(reply), reply.retry_after)
