"""How every web process hears at once that somebody may no longer look.

Owns one message on the channel layer. It is a hint that makes the hub ask the database now: without it the sockets of a session
that ended close at the hub's next look, a few seconds later. Must not say who: whoever hears it asks.
"""

from django.db import transaction

from fleet import live

PEOPLE = "people.changed"


def announce() -> None:
    """Tell the hubs once the change is committed."""
    transaction.on_commit(_tell)


def _tell() -> None:
    live.tell({"type": PEOPLE})
