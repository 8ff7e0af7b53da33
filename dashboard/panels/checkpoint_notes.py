"""What an operator notes about where a workload saves: the form, and what of it makes sense.

Owns what is accepted. Must not keep anything, nor hold wording (checkpoint_page_patterns.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dashboard.panels.words import Text, say
from fleet.domain import durations, grants, save_sites
from fleet.domain.checkpoints import Format
from fleet.domain.durations import DurationError
from fleet.domain.grants import Grant
from fleet.domain.training import LEAST_INTERVAL_S, LONGEST_INTERVAL_S, Record

LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Typed:
    """The fields as texts."""

    uri: str = ""
    format: str = ""
    interval: str = ""

    @classmethod
    def of_form(cls, form: Mapping[str, Any]) -> "Typed":
        return cls(*(str(form.get(name, "")).strip()[:LONGEST] for name in ("uri", "format", "interval")))

    @classmethod
    def of_note(cls, noted: Any) -> "Typed":
        """Of a row of the ledger, None: nobody has noted anything."""
        if noted is None:
            return cls()
        return cls(noted.uri, noted.format, "" if noted.interval_s is None else durations.spelled(noted.interval_s))


def checked(typed: Typed, namespace: str, granted: Iterable[Grant]) -> tuple[Record, dict[str, Text]]:
    """What would be kept, and what is wrong, by field. An address has to be one that the policy covers: nobody can make Vigie
    look elsewhere by a note. A path is in the container, so where it leads shows with the next scan."""
    errors: dict[str, Text] = {}
    if typed.uri and (wrong := _place(typed.uri, namespace, granted)):
        errors["uri"] = wrong
    if typed.format and typed.format not in set(Format):
        errors["format"] = say("ckpt.form.format")
    interval_s = None
    try:
        interval_s = durations.parse(typed.interval) if typed.interval else None
    except DurationError:
        errors["interval"] = say("ckpt.form.interval")
    if interval_s is not None and not LEAST_INTERVAL_S <= interval_s <= LONGEST_INTERVAL_S:
        errors["interval"] = say("ckpt.form.interval")
    return Record(typed.uri, typed.format, interval_s), errors


def _place(uri: str, namespace: str, granted: Iterable[Grant]) -> Text:
    if any(not c.isprintable() for c in uri):
        return say("ckpt.form.place")
    if uri.startswith("/"):
        return "" if save_sites.plain(uri) else say("ckpt.form.place")
    scheme, _, rest = uri.partition("://")
    if not rest or not save_sites.plain(rest) or scheme not in {*save_sites.OBJECTS, "pvc"}:
        return say("ckpt.form.place")
    return "" if grants.granted(granted, namespace, uri) else say("ckpt.form.not-granted", namespace=namespace)
