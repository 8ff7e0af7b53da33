"""Which Xids on an exporter's page are news.

Owns the two metrics that an exporter has for them, and what has to be remembered because of how they behave: the gauge is the
last Xid that this exporter has ever seen, it neither clears nor shows a repetition (dcgm-exporter 500, 190); the counter is of a
sliding window of five minutes, so it falls as well. An Xid's time is when we saw it. Must not judge one: `fleet.domain.xid` does.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from fleet.domain.gpus import Fault, FaultKind

MOST_CODES: Final = 64  # of one GPU
MOST_FAULTS: Final = 200
MOST_CODE: Final = 999_999

Place = tuple[int, int | None]  # Xid, instance
Known = dict[str, dict[str, int]]  # GPU → "code" or "code/instance" → last count in the window


class Seen(Struct, frozen=True):
    """What is remembered of an exporter from one page to the next."""

    agent: str = ""
    started_at: float | None = None
    energies: dict[str, int | float] = {}
    xids: Known = {}
    sequence: int = -1

    def followed(self, agent: str, started_at: float | None, energies: Mapping[str, int | float]) -> "Seen":
        """What still holds with the next page. An exporter that was started again has forgotten every Xid, and so must we:
        another container, another start of its process, or energies that fell, which takes a driver that was loaded anew."""
        fell = any(value < self.energies.get(key, value) for key, value in energies.items())
        other = None not in {self.started_at, started_at} and self.started_at != started_at
        anew = fell or other or self.agent != agent
        return Seen(
            agent,
            self.started_at if started_at is None and not anew else started_at,
            {**self.energies, **energies} if len(self.energies) < MOST_CODES and not anew else dict(energies),
            {} if anew else self.xids,
            self.sequence,
        )


class Xids:
    """What one page says."""

    def __init__(self) -> None:
        self._gauges: defaultdict[str, dict[int | None, tuple[int, str]]] = defaultdict(dict)
        self._counts: defaultdict[str, dict[Place, int]] = defaultdict(dict)

    def gauge(self, gpu: str, gi: int | None, value: float | None, text: str) -> None:
        """The last Xid of a GPU. Zero is none, whatever its `err_msg` says (dcgm-exporter 326)."""
        if value is not None and 0 < value <= MOST_CODE and float(value).is_integer():
            self._gauges[gpu][gi] = int(value), text

    def count(self, gpu: str, gi: int | None, code: float | None, value: float | None) -> None:
        """How often one Xid came within the window."""
        wanted = code is not None and 0 < code <= MOST_CODE and float(code).is_integer()
        if wanted and value is not None and 0 <= value <= MOST_CODE and len(self._counts[gpu]) < MOST_CODES:
            self._counts[gpu][int(code or 0), gi] = int(value)

    def news(self, seen: Seen, identities: Mapping[str, tuple[str, str]], at: float) -> tuple[tuple[Fault, ...], Known]:
        """Faults that were not told yet, and all that is known now. `identities`: UUID and address of each GPU."""
        faults: list[Fault] = []
        known: Known = {}
        for gpu, (uuid, pci) in identities.items():
            before, now = seen.xids.get(gpu, {}), _Told()
            for (code, gi), count in self._counts.get(gpu, {}).items():
                now.put(code, gi, count, count - before.get(_key(code, gi), 0))
            for code, gi, text in self._by_instance(gpu):
                fresh = not now.new(code, gi) and not _holds(before, code, gi)
                now.put(code, gi, now.counts.get(_key(code, gi), 0), int(fresh), text)
            # What an exporter that still runs has shown once it may show again: it is no news then.
            kept = now.counts | {key: 0 for key in before if key not in now.counts}
            known[gpu] = dict(list(kept.items())[:MOST_CODES])
            faults += [
                _fault(uuid, pci, at, place, times, now.texts) for place, times in now.times.items() if times > 0
            ]
        return tuple(faults[:MOST_FAULTS]), known

    def _by_instance(self, gpu: str) -> list[tuple[int, int | None, str]]:
        """Gauges with the instance that each is about. The same in all of several instances is the GPU's own, repeated."""
        gauges = self._gauges.get(gpu, {})
        codes = {code for code, _ in gauges.values()}
        if len(gauges) > 1 and len(codes) == 1:
            (code, text), *_ = gauges.values()
            return [(code, None, text)]
        return [(code, gi, text) for gi, (code, text) in gauges.items()]


class _Told:
    """What a page says about one GPU."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.times: dict[Place, int] = {}  # how often it came since the last page
        self.texts: dict[int, str] = {}

    def put(self, code: int, gi: int | None, count: int, times: int, text: str = "") -> None:
        self.counts[_key(code, gi)] = count
        self.times[code, gi] = max(times, self.times.get((code, gi), 0))
        if text:
            self.texts[code] = text

    def new(self, code: int, gi: int | None) -> bool:
        """Whether the counter tells of it by itself; of the whole GPU, for any of its instances."""
        return any(times > 0 and c == code and gi in {None, g} for (c, g), times in self.times.items())


def _fault(uuid: str, pci: str, at: float, place: Place, times: int, texts: Mapping[int, str]) -> Fault:
    code, gi = place
    return Fault(
        kind=FaultKind.XID,
        source="dcgm",
        at=at,
        pci=pci,
        uuid=uuid,
        code=code,
        gi=gi,
        text=texts.get(code, ""),
        repeated=times,
    )


def _holds(known: Mapping[str, int], code: int, gi: int | None) -> bool:
    return _key(code, gi) in known or (gi is None and any(key.startswith(f"{code}/") for key in known))


def _key(code: int, gi: int | None) -> str:
    return str(code) if gi is None else f"{code}/{gi}"
