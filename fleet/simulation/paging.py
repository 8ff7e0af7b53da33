"""Continue tokens of paged lists, as the API server makes them.

Owns their format and error texts. Must not read the store.
"""

import base64
import binascii
from dataclasses import dataclass

import msgspec

from fleet.simulation.refusals import ApiError, bad_request, expired
from fleet.simulation.schema import json_error

TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
INCONSISTENT = -1


@dataclass(frozen=True)
class Place:
    """Where a list goes on: at `version` (INCONSISTENT: whatever is there now), after key `after`."""

    version: int
    after: str


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


def _encoded(version: int, start: str) -> str:
    raw = msgspec.json.encode(_Token("meta.k8s.io/v1", version, start))
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def token(version: int, last_key: str, prefix: str, *, cached: bool) -> str:
    """The token after `last_key`. Keys are relative to the list's prefix; the watch cache writes them with a slash."""
    relative = last_key.removeprefix(prefix)
    return _encoded(version, ("/" if cached else "") + relative + "\0")


def parse(text: str, prefix: str) -> Place:
    """ApiError 400 for what is no token."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        found = msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {_why(text, error)}") from None
    if found.v != "meta.k8s.io/v1":
        raise bad_request(
            f'invalid continue token: continue key is not valid: server does not recognize this encoded version "{found.v}"'
        )
    start = found.start.removeprefix("/").removesuffix("\0")
    return Place(found.rv, prefix + start)


def _why(text: str, error: Exception) -> str:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return "illegal base64 data at input byte 0"
    return json_error(raw, error)


def too_old(place: Place, prefix: str) -> ApiError:
    """410 with a token for going on inconsistently."""
    return expired(TOO_OLD, _encoded(INCONSISTENT, place.after.removeprefix(prefix) + "\0"))
