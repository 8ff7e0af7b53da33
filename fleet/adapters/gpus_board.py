"""One GPU put together from what NVML says about it, call by call.

Owns the three values (a number, not applicable, unknown), what the worst answer was, and what is remembered of a GPU between
rounds. Must not know pynvml (`gpus_nvml` does), and judges nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fleet.adapters import gpus_nvml as nvml
from fleet.adapters.gpus_nvml import Handle, Row, Way
from fleet.domain.gpus import NA, Answer, Gpu, Instance, Measure, Process

LONGEST_ERROR: Final = 200

# These are texts or labels: they have no N/A.
WORDLESS: Final[Mapping[str, Any]] = {"name": "", "serial": "", "minor": None, "pci": ""}
IDENTITY: Final = ("uuid", "pci", "minor", "name", "serial")


class LostError(Exception):
    """The GPU is gone: asking it for more is no use."""


class Inquiry:
    """Asks one GPU, and keeps what went wrong: the worst answer and the first words of it."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.answer = Answer.OK
        self.error = ""
        self.answered = False
        self.failed = False

    def ask(self, what: str, ways: Iterable[Way]) -> Any:
        """What the first way says that the driver has; NA when it has none, None when a call failed. Raises LostError."""
        for way in ways:
            try:
                found = way(self.handle)
            except nvml.TROUBLES as trouble:
                if nvml.code(trouble) in nvml.NOT_APPLICABLE:
                    continue
                self.note(what, trouble)
                return None
            self.answered = True
            return found
        return NA

    def fill(self, rows: Iterable[Row], into: dict[str, Any]) -> None:
        """Every field of every row. Raises LostError, with what was read before in `into`."""
        for names, ways in rows:
            found = self.ask(names[0], ways)
            if found is None or found is NA:
                into.update(dict.fromkeys(names, found))
            else:
                into.update(zip(names, found, strict=True))

    def verdict(self) -> Answer:
        """ERROR when calls failed and none was answered: such a GPU can be asked, but says nothing."""
        if self.answer is Answer.OK and self.failed and not self.answered:
            return Answer.ERROR
        return self.answer

    def note(self, what: str, trouble: BaseException) -> None:
        """Remember that a call failed. Raises LostError when there is nothing left to ask."""
        self.failed = True
        self.error = self.error or f"{what}: {nvml.words(trouble)}"[:LONGEST_ERROR]
        answer = nvml.ANSWERS.get(nvml.code(trouble))
        if answer is Answer.LOST:
            self.answer = answer
            raise LostError from trouble
        if answer is Answer.RESET_REQUIRED:
            self.answer = answer


class Boards:
    """The GPUs of one driver, by index. What lasts is asked once, and again when another GPU answers at an index."""

    def __init__(self, meet: Callable[[Gpu], None]) -> None:
        self._meet = meet  # told of each GPU that was not known before, as soon as its identity is
        self._lasting: dict[int, dict[str, Any]] = {}

    def read(self, index: int) -> Gpu:
        try:
            handle = nvml.handle_of(index)
        except nvml.TROUBLES as trouble:
            answer = nvml.ANSWERS.get(nvml.code(trouble), Answer.ERROR)
            return Gpu(**self._identity(index), index=index, answer=answer, error=nvml.words(trouble)[:LONGEST_ERROR])
        inquiry, found = Inquiry(handle), dict[str, Any]()
        try:
            found.update(self._lasts(index, inquiry))
            inquiry.fill(nvml.CHANGING, found)
            found.update(_fields(inquiry))
            if found["mig"] == 1:
                found["instances"] = _instances(inquiry)
            found["processes"] = _processes(inquiry, found.get("instances", ()))
        except LostError:
            found = self._identity(index) | found
        return Gpu(**found, index=index, answer=inquiry.verdict(), error=inquiry.error)

    def _identity(self, index: int) -> dict[str, Any]:
        """Who was at this index when it last said so."""
        known = self._lasting.get(index, {})
        return {name: known[name] for name in IDENTITY if name in known}

    def _lasts(self, index: int, inquiry: Inquiry) -> dict[str, Any]:
        """Identity and limits; asked again while one of them is unknown."""
        uuid = inquiry.ask("uuid", nvml.UUID)
        known = self._lasting.get(index)
        if not isinstance(uuid, str) or uuid is NA:
            return known or {}
        if known and known["uuid"] == uuid:
            return known
        found: dict[str, Any] = {"uuid": uuid}
        inquiry.fill(nvml.LASTING, found)
        complete = None not in found.values()
        found.update((name, default) for name, default in WORDLESS.items() if found[name] in {NA, None})
        if complete:
            self._lasting[index] = found
        self._meet(Gpu(**{name: found[name] for name in IDENTITY}, index=index))
        return found


def _fields(inquiry: Inquiry) -> dict[str, Measure]:
    found = _field_values(inquiry, nvml.FIELDS)
    links = found[nvml.LINK_COUNT]
    return {
        "memory_temperature_c": found[nvml.MEMORY_TEMPERATURE],
        "recovery_action": found[nvml.RECOVERY],
        "nvlinks": links,
        "nvlinks_active": _active(inquiry, links),
        "nvlink_errors": _link_errors(inquiry, links, [found[name] for name in nvml.LINK_TOTALS]),
    }


def _field_values(inquiry: Inquiry, ids: Iterable[Any]) -> dict[Any, Measure]:
    wanted = tuple(ids)
    found = inquiry.ask("fields", nvml.field_ways(wanted))
    if found is None or found is NA:
        return dict.fromkeys(wanted, found)
    return dict(zip(wanted, found, strict=True))


def _active(inquiry: Inquiry, links: Measure) -> Measure:
    """How many of the links carry data."""
    if not isinstance(links, int):
        return links
    found = inquiry.ask("nvlink state", nvml.active_link_ways(links))
    return found[0] if isinstance(found, tuple) else found  # type: ignore[no-any-return]


def _link_errors(inquiry: Inquiry, links: Measure, totals: Iterable[Measure]) -> Measure:
    errors = _total(totals)
    if errors is NA and isinstance(links, int) and links:
        each = ((counter, link) for link in range(links) for counter in nvml.LINK_COUNTERS)
        return _total(_field_values(inquiry, each).values())
    return errors


def _total(numbers: Iterable[Measure]) -> Measure:
    """Sum of those that are numbers; None when one is unknown, NA when there is none."""
    known = list(numbers)
    if None in known:
        return None
    counted = [number for number in known if isinstance(number, int | float)]
    return sum(counted) if counted else NA


def _processes(inquiry: Inquiry, instances: Iterable[Instance]) -> tuple[Process, ...] | None:
    """Everybody with a context; None when the driver did not tell who computes."""
    by_ids = {(instance.gi, instance.ci): instance.uuid for instance in instances}
    computing, *others = (inquiry.ask("processes", ways) for ways in nvml.PROCESSES)
    if computing is None or computing is NA:
        return None
    found: dict[tuple[int, str], Process] = {}
    for listed in (computing, *(other for other in others if isinstance(other, list))):
        for one in listed:
            instance = by_ids.get((one.gpuInstanceId, one.computeInstanceId), "")
            used: Measure = NA if one.usedGpuMemory is None else one.usedGpuMemory
            found.setdefault((one.pid, instance), Process(one.pid, used, instance=instance))
    return tuple(found.values())


def _instances(inquiry: Inquiry) -> tuple[Instance, ...]:
    """The MIG instances that can be asked; places without one are passed over."""
    most = inquiry.ask("instances", nvml.INSTANCES_MOST)
    found = (_instance(inquiry, index) for index in range(most if isinstance(most, int) else 0))
    return tuple(instance for instance in found if instance is not None)


def _instance(gpu: Inquiry, index: int) -> Instance | None:
    handle = gpu.ask("instance", nvml.instance_ways(index))
    if not isinstance(handle, tuple) or handle[0] is None:
        return None
    inquiry, numbers = Inquiry(handle[0]), dict[str, Any]()
    uuid, profile = inquiry.ask("instance", nvml.UUID), inquiry.ask("instance", (nvml.instance_profile,))
    inquiry.fill(nvml.INSTANCE, numbers)
    memory = inquiry.ask("instance memory", nvml.INSTANCE_MEMORY)
    total, _, used = memory if isinstance(memory, tuple) else (memory,) * 3
    if uuid is None or uuid is NA:
        return None
    return Instance(
        uuid,
        "" if profile is None or profile is NA else profile,
        gi=_id(numbers["gi"]),
        ci=_id(numbers["ci"]),
        memory_total_bytes=total,
        memory_used_bytes=used,
    )


def _id(number: Measure) -> int | None:
    return number if isinstance(number, int) and number != nvml.NO_INSTANCE else None
