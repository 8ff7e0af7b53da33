"""How true a picture is: since when it is known to be what the cluster says, and what stands in the way.

Owns the rules of freshness. Times are seconds since 1970 of one clock, given by whoever asks. Must not know how a stream or a
probe is made.

A picture is true at a moment when every kind's watch was open before the API server was asked for its version, and it answered.
A kind that the server will not show us (403) does not count, once that is for good: its objects are taken out, and it is named.
Nodes and pods are never left out, because every number would be wrong without them.
"""

from collections.abc import Iterator

from fleet.domain.kube import Event, Kind, Listed, Lost

SERVER = "server"  # what trouble calls the API server itself, beside the kinds
FORBIDDEN = "Forbidden"  # Kubernetes' reason of a 403
FORBIDDEN_FOR_S = 30.0  # a kind that we could read is left out only after this long: rights also come back
NEEDED = {Kind.NODE, Kind.POD}

Trouble = tuple[tuple[str, str, float], ...]


class Truth:
    """Fed with everything that the streams say and with the answers of the probe."""

    def __init__(self) -> None:
        self.at = 0.0
        self.hidden: set[Kind] = set()  # kinds that are left out
        self._listed: set[Kind] = set()
        self._open: dict[Kind, float] = {}  # streams that run, and since when
        self._lost: dict[str, tuple[str, float]] = {}  # what is broken: why, and since when

    def begin(self, now: float) -> None:
        """A slice begins: no stream is open yet. What a first slice will list is true from now on at least."""
        self._open.clear()
        self.at = self.at or now

    def hear(self, event: Event, now: float) -> None:
        what = event.kind.value
        if isinstance(event, Lost):
            self._open.pop(event.kind, None)
            reason, since = self._lost.get(what, ("", now))
            # How long it has been forbidden is counted from the first refusal, not from what broke before.
            self._lost[what] = (event.reason, now if reason != event.reason == FORBIDDEN else since)
            return
        self.hidden.discard(event.kind)
        if isinstance(event, Listed):  # a list alone does not say that its watch was accepted
            self._listed.add(event.kind)
        else:
            self._open.setdefault(event.kind, now)
            self._lost.pop(what, None)

    def hide(self, now: float) -> Iterator[Kind]:
        """The kinds that are to be left out from now on."""
        for kind in set(Kind) - NEEDED - self.hidden:
            reason, since = self._lost.get(kind.value, ("", now))
            if reason == FORBIDDEN and (kind not in self._listed or now - since >= FORBIDDEN_FOR_S):
                self.hidden.add(kind)
                yield kind

    def learn(self, answered_at: float, failure: tuple[str, float] | None) -> bool:
        """Take the probe's last answer in: when it was asked for, or why and since when there is none.

        True when the picture is known to be true later than before.
        """
        if failure is not None:
            self._lost[SERVER] = failure
        else:
            self._lost.pop(SERVER, None)
        missing = len(Kind) - len(self._open.keys() | self.hidden)
        if missing or not self._open or answered_at < max(self._open.values()) or answered_at <= self.at:
            return False
        self.at = answered_at
        return True

    @property
    def causes(self) -> frozenset[tuple[str, str]]:
        """What is broken and why, without how long: a change of it is news."""
        return frozenset((what, reason) for what, (reason, _) in self._lost.items())

    def trouble(self, now: float) -> Trouble:
        """(kind or "server", reason, for how many seconds)"""
        return tuple((what, reason, round(now - since, 3)) for what, (reason, since) in sorted(self._lost.items()))
