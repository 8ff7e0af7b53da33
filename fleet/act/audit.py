"""The audit chain: who did what, why and on which facts, each entry sealing the one before.

Owns appending and verifying. Must not be changed anywhere else: the database refuses it, and the chain would show it.

The seal of an entry is SHA-256 over its canonical JSON with the seal of the entry before. A chain alone cannot show that its tail
was cut off: that is what the head row is for, and why `/metrics` exports its number and hash.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from django.db import transaction
from msgspec import Struct

from fleet.models import AuditEntry, AuditHead

FIRST = "0" * 64
HEAD = 1
EXPONENT_FROM = 1e16  # from there on a float is written with an exponent

_CANONICAL = msgspec.json.Encoder(order="deterministic")


class Entry(Struct, frozen=True):
    """What is to be written. `at`: seconds since 1970; `facts`: anything that JSON can hold."""

    at: float
    actor: str
    via: str
    what: str
    cluster: str = ""
    action: int | None = None
    kind: str = ""
    target: str = ""
    facts: Mapping[str, Any] = {}


class Verified(Struct, frozen=True):
    """What a check of the chain found. `broken`: number of the first entry that is not as it was written, None if all are."""

    entries: int
    head: str
    broken: int | None = None
    why: str = ""  # changed, missing, unsealed, head


def append(entry: Entry) -> AuditEntry:
    """Add an entry; within the caller's transaction, so that what it tells of and the entry stand or fall together."""
    with transaction.atomic():
        head, _ = AuditHead.objects.select_for_update().get_or_create(pk=HEAD)
        number, previous = head.number + 1, head.hash or FIRST
        facts = msgspec.json.decode(_CANONICAL.encode(_plain(dict(entry.facts))))  # as JSON will give it back
        written = AuditEntry(
            number=number,
            at=float(entry.at),
            cluster=entry.cluster,
            actor=entry.actor,
            via=entry.via,
            what=entry.what,
            action=entry.action,
            kind=entry.kind,
            target=entry.target,
            facts=facts,
            previous=previous,
        )
        written.hash = seal(written)
        written.save(force_insert=True)
        AuditHead.objects.filter(pk=HEAD).update(number=number, hash=written.hash)
    return written


def _plain(value: Any) -> Any:
    """The same facts with every number written as PostgreSQL's jsonb will write it: 1e16 has no exponent there, -0.0 no sign."""
    if isinstance(value, float) and value.is_integer() and (value == 0 or abs(value) >= EXPONENT_FROM):
        return int(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def seal(entry: AuditEntry) -> str:
    """The hash that belongs to an entry."""
    told = (
        entry.number,
        entry.at,
        entry.cluster,
        entry.actor,
        entry.via,
        entry.what,
        entry.action,
        entry.kind,
        entry.target,
        entry.facts,
        entry.previous,
    )
    return hashlib.sha256(_CANONICAL.encode(told)).hexdigest()


def verify() -> Verified:
    """Walk the whole chain, oldest first, and name the first entry that is broken. Others may write meanwhile: what was there
    when the walk began has to be there, and what it found beyond that has to be in the head by its end."""
    began = _head()
    previous, number, at_head = FIRST, 0, ""
    for entry in AuditEntry.objects.order_by("number").iterator(chunk_size=500):
        number += 1
        why = _why(entry, number, previous)
        if why:
            return Verified(number - 1, previous, number, why)
        previous = entry.hash
        at_head = previous if number == began.number else at_head
    ended = _head()
    if number < began.number:
        return Verified(number, previous, number + 1, "missing")
    if at_head != began.hash or number > ended.number or (number == ended.number and number and previous != ended.hash):
        return Verified(number, previous, number + 1, "head")
    return Verified(number, previous)


def _head() -> AuditHead:
    return AuditHead.objects.filter(pk=HEAD).first() or AuditHead()


def _why(entry: AuditEntry, number: int, previous: str) -> str:
    if entry.number != number:
        return "missing"
    if entry.previous != previous:
        return "unsealed"
    return "" if entry.hash == seal(entry) else "changed"
