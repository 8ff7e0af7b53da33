"""What a pattern of a sentence is: one text, or a singular and a plural.

Owns the marks that `makemessages` finds. Must not hold a sentence.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Many:
    """A pattern with a singular and a plural, chosen by the value `n`."""

    one: str
    other: str


Patterns = dict[str, str | Many]

# Named so that `makemessages` finds both forms.
ngettext = Many
