"""The Help page about maintenance: every check that stands before an action, and the annotations that Vigie reads and writes.

Owns the order of these sections. What a check has to find is the sentence that it says when it passes.
"""

from collections.abc import Iterable

from dashboard.panels.help import Entry
from dashboard.panels.words import say
from fleet.domain.actions import CORDON_REASON, CORDONED, CORDONED_AT, REBOOT
from fleet.domain.facts import CHECKPOINT, IN_FLIGHT, SCRATCH, TRAINS
from fleet.domain.guards import GUARDS
from fleet.domain.losses import DO_NOT_DISRUPT

READ = {
    "role": (TRAINS,),
    "checkpoint": (CHECKPOINT,),
    "in-flight": (IN_FLIGHT,),
    "scratch": (SCRATCH,),
    "undisturbed": tuple(f"{name}={value}" for name, value in DO_NOT_DISRUPT.items()),
}
WRITTEN = {"cordoned": (CORDONED, CORDON_REASON, CORDONED_AT), "reboot": (REBOOT,)}


def guards() -> list[Entry]:
    """In the order in which they are shown."""
    return [Entry(name, say(f"guard.{name}"), glyph="s-ok", level="ok") for name in GUARDS]


def notes() -> list[Entry]:
    found = (*READ.items(), *WRITTEN.items())
    return [Entry(say(f"help.note.{name}"), say(f"help.means.note.{name}"), labels=labels) for name, labels in found]


def sections() -> Iterable[tuple[str, list[Entry]]]:
    return (("guards", guards()), ("notes", notes()))
