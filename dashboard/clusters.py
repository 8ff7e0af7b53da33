"""The clusters that this Vigie watches, as the web face asks for them.

Owns nothing: names come from the wiring, the picture from its store. Reading may block, so event loops call this in a thread.
"""

import functools
from collections.abc import Sequence

from django.conf import settings

from fleet import live, wiring
from fleet.live import Published


class UnknownClusterError(LookupError):
    """No cluster of this name is configured, or not for whoever asks."""


def names() -> list[str]:
    """Configured clusters, in the order of the kubeconfig; the first one is the default."""
    return list(_names((settings.VIGIE_KUBECONFIG, settings.VIGIE_CONTEXTS)))


@functools.cache
def _names(_settings: object) -> tuple[str, ...]:
    """The file is read once per process: which clusters are watched changes with a restart only."""
    return tuple(wiring.sites())


def chosen(name: str, known: Sequence[str]) -> str:
    """The cluster that somebody asked for among those that they may see, "" for the first. Raises UnknownClusterError."""
    if (name and name not in known) or not known:
        raise UnknownClusterError(name)
    return name or known[0]


def unwatched(name: str) -> str:
    """A sentence where other clusters are watched, none of this name: a role or a token on it is of no use yet. Else ""."""
    known = names()
    return f"Note: no cluster {name} is watched here, only {', '.join(known)}." if known and name not in known else ""


def published(name: str) -> Published | None:
    """What is known of a cluster; None before its first snapshot."""
    return live.picture().read(name)
