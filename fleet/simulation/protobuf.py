"""Request bodies in Kubernetes' protobuf, for the few kinds that kubectl insists on sending so.

Owns the envelope, the wire format and the field numbers of those kinds. Answers are always JSON, which every such client
accepts. Must not check what a body says.
"""

from collections.abc import Iterator
from typing import Any

from fleet.simulation.refusals import bad_request

Object = dict[str, Any]

MAGIC = b"k8s\x00"

# Message → field number → (JSON name, type): s string, i integer, b boolean, [x repeated, else a message.
_MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "Unknown": {1: ("typeMeta", "TypeMeta"), 2: ("raw", "bytes")},
    "TypeMeta": {1: ("apiVersion", "s"), 2: ("kind", "s")},
    "ObjectMeta": {
        1: ("name", "s"), 2: ("generateName", "s"), 3: ("namespace", "s"), 11: ("labels", "{"), 12: ("annotations", "{"),
    },
    "SelfSubjectAccessReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "SelfSubjectAccessReviewSpec")},
    "SelfSubjectAccessReviewSpec": {
        1: ("resourceAttributes", "ResourceAttributes"),
        2: ("nonResourceAttributes", "NonResourceAttributes"),
    },
    "ResourceAttributes": {
        1: ("namespace", "s"), 2: ("verb", "s"), 3: ("group", "s"), 4: ("version", "s"), 5: ("resource", "s"),
        6: ("subresource", "s"), 7: ("name", "s"),
    },
    "NonResourceAttributes": {1: ("path", "s"), 2: ("verb", "s")},
    "SelfSubjectRulesReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "SelfSubjectRulesReviewSpec")},
    "SelfSubjectRulesReviewSpec": {1: ("namespace", "s")},
    "SelfSubjectReview": {1: ("metadata", "ObjectMeta")},
    "Eviction": {1: ("metadata", "ObjectMeta"), 2: ("deleteOptions", "DeleteOptions")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "i"), 2: ("preconditions", "Preconditions"), 4: ("propagationPolicy", "s"),
        5: ("dryRun", "[s"),
    },
    "Preconditions": {1: ("uid", "s"), 2: ("resourceVersion", "s")},
    "Namespace": {1: ("metadata", "ObjectMeta")},
    "TokenRequest": {1: ("metadata", "ObjectMeta"), 2: ("spec", "TokenRequestSpec")},
    "TokenRequestSpec": {1: ("audiences", "[s"), 4: ("expirationSeconds", "i")},
    "Entry": {1: ("key", "s"), 2: ("value", "s")},
}  # fmt: skip
KINDS = frozenset({
    "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SelfSubjectReview", "Eviction", "DeleteOptions", "Namespace",
    "TokenRequest",
})  # fmt: skip


def decode(body: bytes) -> Object | None:
    """The object in a body; None for a kind that is not known here; ApiError 400 for what is no protobuf."""
    if not body.startswith(MAGIC):
        raise bad_request("the body is not a Kubernetes protobuf message")
    try:
        envelope = _message("Unknown", body[len(MAGIC) :])
        head: Object = envelope["typeMeta"]
        if head["kind"] not in KINDS:
            return None
        return {**head, **_message(head["kind"], envelope.get("raw", b""))}
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise bad_request(f"the body cannot be decoded: {error}") from None


def _message(name: str, data: bytes) -> Object:
    fields = _MESSAGES[name]
    found: Object = {}
    for number, value in _wire(data):
        if number not in fields:
            continue
        field, kind = fields[number]
        if kind == "{":
            entry = _message("Entry", _bytes(value))
            found.setdefault(field, {})[entry.get("key", "")] = entry.get("value", "")
        elif kind[0] == "[":
            found.setdefault(field, []).append(_value(kind[1:], value))
        else:
            decoded = _value(kind, value)
            if decoded != "":
                found[field] = decoded
    return found


def _value(kind: str, value: int | bytes) -> Any:
    if kind == "s":
        return _bytes(value).decode()
    if kind in {"i", "bytes"}:
        return value
    return _message(kind, _bytes(value))


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise KeyError("a number where a message was expected")
    return value


def _wire(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) pairs: varints as numbers, anything with a length as bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in {1, 5}:
            size = 8 if kind == 1 else 4
        else:
            raise KeyError(f"wire type {kind}")
        if at + size > len(data):
            raise IndexError("the message is cut short")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
