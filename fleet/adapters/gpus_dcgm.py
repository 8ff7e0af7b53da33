"""A dcgm-exporter's page as a reading of its node.

Owns what the series of one page say about GPUs, instances and pods. Pure: text in, reading out, with a small memory from one page
of an exporter to the next. Must not fetch anything.

A page is about one machine; which one, its caller knows better than the page (`Hostname` is the exporter's, at times its pod's).
With MIG, the exporter repeats what is measured of the whole GPU in the series of each instance, and with shared GPUs in those of
each pod: the same number again, never to be summed. What the page leaves out is not applicable: which metrics there are is a list
in the exporter's configuration. Sources: dcgm-exporter's README and issues 83, 190, 340, 443, 500, 587, 655, 713.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from fleet.adapters.gpus_dcgm_fields import METRICS, WHOLE, full, measure, number
from fleet.adapters.gpus_dcgm_xids import Known, Seen, Xids
from fleet.domain import exposition
from fleet.domain.gpus import NA, DriverStatus, Fault, Gpu, Holder, Instance, Measure, Reading, normal_pci

__all__ = ["Origin", "Seen", "reading"]

MOST_GPUS: Final = 64
MOST_INSTANCES: Final = 16  # of one GPU: MIG allows seven
MOST_HOLDERS: Final = 64
MOST_SUBJECTS: Final = 4096  # different sets of labels on one page

GAUGES: Final = (full("XID_ERRORS"), full("XID_ERROR"), full("xid_errors"))
COUNTS: Final = "DCGM_EXP_XID_ERRORS_COUNT"
STARTED: Final = "process_start_time_seconds"
DRIVER: Final = ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION")
CUDA: Final = "DCGM_FI_CUDA_DRIVER_VERSION"
WANTED: Final = frozenset((*METRICS, *GAUGES, COUNTS, STARTED, *DRIVER, CUDA))

# Of the instance in its series; everything else there is of the GPU.
OF_INSTANCE: Final = ("memory_total_bytes", "memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes")
# MIG hides these from the GPU, and an instance has no place for them.
OF_NOBODY: Final = ("utilization_pct", "graphics_pct", "memory_busy_pct", "encoder_pct", "decoder_pct")
RETIRED: Final = ("retired_corrected", "retired_uncorrected")
NVLINK: Final = ("nvlink_flits", "nvlink_data", "nvlink_replays", "nvlink_recoveries")

_PLAIN: Final = ("graphics_pct", "memory_free_bytes", *RETIRED, *NVLINK)
DIRECT: Final = tuple(key for key in dict.fromkeys(metric.key for metric in METRICS.values()) if key not in _PLAIN)

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,79}", re.ASCII)
_KUBERNETES: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}", re.ASCII)
_SMALL: Final = re.compile(r"\d{1,4}", re.ASCII)
_VERSION: Final = re.compile(r"[\w.]{1,32}", re.ASCII)
_OTHERS: Final = ("nvswitch", "nvlink", "cpu", "cpucore")  # series of DCGM that are of no GPU
LONGEST_TEXT: Final = 120


class Origin(Struct, frozen=True):
    """Where a page is from, as its caller knows. `agent`: a new one with each start of the exporter."""

    node: str
    boot_id: str
    agent: str


class Subject(Struct, frozen=True):
    """What one set of labels is about."""

    key: str  # of the GPU on this page
    uuid: str
    index: int
    pci: str
    name: str
    gi: int | None
    profile: str
    holder: Holder | None
    host: str
    driver: str
    cuda: str
    code: str  # the Xid that a counter counts
    text: str  # what the exporter says about an Xid


class Part(Struct):
    """What is measured of one GPU or instance, by key."""

    subject: Subject
    values: dict[str, Measure] = field(default_factory=dict)
    holders: dict[Holder, None] = field(default_factory=dict)
    instances: "dict[int, Part]" = field(default_factory=dict)

    def put(self, key: str, value: Measure) -> None:
        """The same number comes once for each pod: the largest counts, and any number rather than none."""
        if value is None or value == NA:
            self.values.setdefault(key, value)
            return
        before = self.values.get(key, NA)
        if before is None or before == NA or value > before:
            self.values[key] = value

    def hold(self, holder: Holder | None) -> None:
        if holder is not None and len(self.holders) < MOST_HOLDERS:
            self.holders[holder] = None


class Page:
    """The samples of one page, by what they are about."""

    def __init__(self, text: str) -> None:
        self.gpus: dict[str, Part] = {}
        self.xids = Xids()
        self.started_at: float | None = None
        self.driver = self.cuda = ""
        self.hosts: set[str] = set()
        self._subjects: dict[str, Subject | None] = {}
        for name, labels, value in exposition.samples(text, WANTED):
            self._take(name, labels, value)

    def _take(self, name: str, labels: str, value: str) -> None:
        if name == STARTED:
            found = number(value)
            self.started_at = None if found is None else float(found)
            return
        if labels not in self._subjects and len(self._subjects) < MOST_SUBJECTS:
            self._subjects[labels] = subject(exposition.labels(labels) or {})
        about = self._subjects.get(labels)
        gpu = self._gpu(about) if about is not None else None
        if about is None or gpu is None:
            return
        self.driver, self.cuda = self.driver or about.driver, self.cuda or about.cuda
        if about.host:
            self.hosts.add(about.host)
        part = _part(gpu, about)
        part.hold(about.holder)
        if name in GAUGES:
            self.xids.gauge(about.key, about.gi, number(value), about.text)
        elif name == COUNTS:
            self.xids.count(about.key, about.gi, number(about.code), number(value))
        elif name in METRICS:
            _measured(gpu, part, METRICS[name].key, measure(value, METRICS[name]))

    def _gpu(self, about: Subject) -> Part | None:
        if about.key not in self.gpus:
            if len(self.gpus) == MOST_GPUS:
                return None
            self.gpus[about.key] = Part(about)
        return self.gpus[about.key]

    def remembered(self, origin: Origin, seen: Seen | None, at: float, *, broken: bool) -> Seen:
        """What still holds of before; a page that says nothing about GPUs does not say that an exporter was started again."""
        before = seen or Seen(origin.agent)
        sequence = max(int(at * 1000), before.sequence + 1)
        if broken:
            return replace(before, sequence=sequence)
        values = ((key, part.values.get("energy_j")) for key, part in self.gpus.items())
        energies = {key: value for key, value in values if isinstance(value, int | float)}
        return replace(before.followed(origin.agent, self.started_at, energies), sequence=sequence)

    def news(self, now: Seen, at: float) -> tuple[tuple[Fault, ...], Known]:
        """Faults that were not told yet, and the Xids that are known from now on."""
        identities = {key: (part.subject.uuid, part.subject.pci) for key, part in self.gpus.items()}
        return self.xids.news(now, identities, at)


def reading(text: str, origin: Origin, seen: Seen | None, at: float) -> tuple[Reading, Seen]:
    """The reading of a page that came at `at` (seconds since 1970), and what has to be known with the exporter's next page.

    Never raises. A page without a GPU, or of several machines, is an error of the source: it says nothing about any GPU.
    """
    page = Page(text)
    error = _error(page)
    now = page.remembered(origin, seen, at, broken=bool(error))
    faults, xids = ((), now.xids) if error else page.news(now, at)
    now = replace(now, xids=xids)
    found = Reading(
        node=origin.node,
        boot_id=origin.boot_id,
        agent=origin.agent if now.started_at is None else f"{origin.agent}-{now.started_at:.0f}",
        sequence=now.sequence,
        sent_at=at,
        source="dcgm",
        status=DriverStatus.ERROR if error else DriverStatus.OK,
        error=error,
        driver=page.driver,
        cuda=page.cuda,
        gpus=() if error else tuple(_gpu(part) for part in page.gpus.values()),
        faults=faults,
    )
    return found, now


def subject(labels: Mapping[str, str]) -> Subject | None:
    """Labels old and new: `UUID` or `uuid`, `Hostname` or `hostname`; `pod`, `pod_name` or (Prometheus' own) `exported_pod`."""
    said = {name.lower(): text.strip() for name, text in labels.items()}
    if any(said.get(name) for name in _OTHERS):
        return None
    uuid, pci = _matched(_NAME, said.get("uuid", "")), normal_pci(said.get("pci_bus_id", "")[:32])
    place = _matched(_SMALL, said.get("gpu", "")) or _matched(_SMALL, said.get("device", "").removeprefix("nvidia"))
    key = uuid or pci or place
    if not key or uuid.startswith("MIG-"):
        return None
    gi = _matched(_SMALL, said.get("gpu_i_id", ""))
    profile = said.get("gpu_i_profile", "")[:LONGEST_TEXT]
    return Subject(
        key=key,
        uuid=uuid,
        index=int(place or 0),
        pci=pci,
        name=_printable(said.get("modelname", "")),
        gi=int(gi) if gi else None,
        profile=_printable(profile),
        holder=_holder(said),
        host=said.get("hostname", ""),
        driver=next((found for name in DRIVER if (found := _matched(_VERSION, said.get(name.lower(), "")))), ""),
        cuda=_cuda(said.get(CUDA.lower(), "")),
        code=said.get("xid", ""),
        text=_printable(said.get("err_msg", "")),
    )


def _part(gpu: Part, about: Subject) -> Part:
    """Whose series it is: an instance's, or the GPU's own."""
    if about.gi is None:
        return gpu
    if about.gi not in gpu.instances and len(gpu.instances) == MOST_INSTANCES:
        return Part(about)
    return gpu.instances.setdefault(about.gi, Part(about))


def _measured(gpu: Part, part: Part, key: str, value: Measure) -> None:
    if key in WHOLE and isinstance(value, float):
        value = None
    if part is gpu or key not in (*OF_INSTANCE, *OF_NOBODY):
        gpu.put(key, value)
    elif key in OF_INSTANCE:
        part.put(key, value)


def _gpu(part: Part) -> Gpu:
    about, values = part.subject, part.values
    cut = bool(part.instances)
    measures: dict[str, Any] = {key: values.get(key, NA) for key in DIRECT}
    # A GPU without ECC has no row remapper either: that a page leaves ECC out must not say so.
    measures["ecc_enabled"] = values.get("ecc_enabled")
    measures |= _memory(values)
    measures["retired_pages"] = _sum(values, RETIRED)
    measures["nvlink_errors"] = _sum(values, NVLINK)
    if not cut and measures["utilization_pct"] == NA:
        measures["utilization_pct"] = values.get("graphics_pct", NA)
    if cut:
        measures["mig"] = 1
    return Gpu(
        uuid=about.uuid,
        index=about.index,
        pci=about.pci,
        minor=None,
        name=about.name,
        # The exporter loses the pods of a GPU at times (its issues 150, 272, 577): no pod here does not mean that none has it.
        assigned=tuple(part.holders) or None,
        instances=tuple(_instance(gi, part.instances[gi]) for gi in sorted(part.instances)),
        **measures,
    )


def _instance(gi: int, part: Part) -> Instance:
    """The exporter does not say its UUID. Its profile is shown, and joined with nothing: DCGM rounds 7g.80gb to 7g.79gb."""
    memory = _memory(part.values)
    return Instance(
        uuid=f"{part.subject.key}/gi{gi}",
        profile=part.subject.profile,
        gi=gi,
        memory_total_bytes=memory["memory_total_bytes"],
        memory_used_bytes=memory["memory_used_bytes"],
        assigned=tuple(part.holders),
    )


def _memory(values: Mapping[str, Measure]) -> dict[str, Measure]:
    """Used and free make up the total together with what the driver reserves, and not without it."""
    total, used, free, reserved = (values.get(key, NA) for key in OF_INSTANCE)
    if total == NA and isinstance(used, int) and isinstance(free, int) and isinstance(reserved, int):
        total = used + free + reserved
    return {"memory_total_bytes": total, "memory_used_bytes": used, "memory_reserved_bytes": reserved}


def _sum(values: Mapping[str, Measure], keys: Iterable[str]) -> Measure:
    """Of those that are numbers; NA where none is."""
    numbers = [value for key in keys if isinstance(value := values.get(key), int | float)]
    return sum(numbers) if numbers else NA


def _error(page: Page) -> str:
    if not page.gpus:
        return "the exporter's page has no series of a GPU"
    if len(page.hosts) > 1:
        return f"the page is about {len(page.hosts)} machines: it is no exporter's own"
    return ""


def _holder(said: Mapping[str, str]) -> Holder | None:
    """Scraped by Prometheus, `pod` is the exporter's own and `exported_pod` the one that has the GPU."""
    for pod, namespace, container, uid in (
        ("exported_pod", "exported_namespace", "exported_container", "exported_pod_uid"),
        ("pod", "namespace", "container", "pod_uid"),
        ("pod_name", "pod_namespace", "container_name", "pod_uid"),
    ):
        if pod in said or namespace in said:
            names = (_matched(_KUBERNETES, said.get(name, "")) for name in (namespace, pod, container, uid))
            found = Holder(*names)
            return found if found.pod and found.namespace else None
    return None


def _cuda(text: str) -> str:
    """DCGM writes CUDA 12.4 as 12040."""
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        return _matched(_VERSION, text)
    return f"{int(text) // 1000}.{int(text) % 1000 // 10}"


def _matched(shape: re.Pattern[str], text: str) -> str:
    return text if shape.fullmatch(text) else ""


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:LONGEST_TEXT]).strip()
