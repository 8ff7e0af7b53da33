"""One GPU machine of the rehearsal: its boards, what each of them measures now, and its kernel log.

Owns what only the machine remembers: temperatures, energy, when a trouble began, its log since it was booted. It follows the
Node object that stands for it, and is deterministic: the same objects and times give the same numbers. Must not know who
reads it.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

from fleet.domain.gpus import NA, Answer, DriverStatus, Gpu, Holder, Instance, Measure, Process
from fleet.simulation import device_plugin, gpu_troubles
from fleet.simulation.gpu_boards import MIB, MIG, SLICES, Board, Product
from fleet.simulation.gpu_holders import WHOLE, Device
from fleet.simulation.gpu_troubles import DriverTrouble, Trouble, Troubles
from fleet.simulation.gpu_work import Work, work
from fleet.simulation.kubelet import boot_id

Object = dict[str, Any]
Held = dict[Device, tuple[Object, str]]

LINES_KEPT = 400
FIRST_LINE = 1180  # the driver loads after so many lines of a boot
WARMS_IN_S = 45.0  # time constant of the cooler
LONG_S = 600.0  # after so long its temperature has followed
UNUSED_MIB = 4  # in use while nobody uses it
SPREAD_PCT = 5.0  # how far the noise moves a busy GPU
FIRST_GI = 7
CORRECTED_PER_S = (4647.0, 17657.0)  # in a storm: idle, under load (as reported of a GB200)
IDLE, POWER_CAP, SLOWED, THERMAL, BRAKE = 0x1, 0x4, 0x8, 0x40, 0x80  # bits of why the clock is not higher
STATUSES = {DriverTrouble.MISMATCH: DriverStatus.MISMATCH, DriverTrouble.ABSENT: DriverStatus.NO_DRIVER}
ERRORS = {
    DriverTrouble.MISMATCH: "Driver/library version mismatch (18)",
    DriverTrouble.ABSENT: "Driver Not Loaded (9)",
}
DRIVER_LABEL, CUDA_LABEL = "nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.runtime-version.full"
RECOVERY_SINCE = 570  # first driver that tells the recovery action


@dataclass
class State:
    """What a board remembers between two looks."""

    troubles: Troubles = frozenset()
    temperature_c: float = 0.0
    energy_j: float = 0.0
    corrected: float = 0.0
    seen_at: float = 0.0


@dataclass(frozen=True)
class LogLine:
    sequence: int
    at: float
    text: str


class Machine:
    """`look` takes in the Node as it is now; `gpus` measures."""

    def __init__(self, node: Object, product: Product, seed: int, now: float) -> None:
        self.product = product
        self.log: deque[LogLine] = deque(maxlen=LINES_KEPT)
        self._seed = seed
        self._sequence = FIRST_LINE
        self._boards: list[Board] = []
        self._states: list[State] = []
        self._boot_id = ""
        self.look(node, {}, now, silent=True)

    # What it is

    @property
    def boot_id(self) -> str:
        return self._boot_id

    @property
    def status(self) -> DriverStatus:
        return STATUSES[self._driver_trouble] if self._driver_trouble else DriverStatus.OK

    @property
    def error(self) -> str:
        return ERRORS[self._driver_trouble] if self._driver_trouble else ""

    def devices(self) -> list[Device]:
        """What can be given to pods: those that the plugin calls healthy."""
        healthy = [s for s, state in enumerate(self._states) if device_plugin.is_healthy(state.troubles)]
        if not self.profile:
            return [(slot, WHOLE) for slot in healthy]
        return [(slot, number) for slot in healthy for number in range(SLICES)]

    def board(self, slot: int) -> Board:
        return self._boards[slot]

    # What happens to it

    def look(self, node: Object, held: Held, now: float, *, silent: bool = False) -> bool:
        """Take in its Node; True when the kernel log has more lines. `silent`: what is there has long been there."""
        self.name: str = node["metadata"]["name"]
        labels = node["metadata"].get("labels") or {}
        self.driver = labels.get(DRIVER_LABEL, "")
        self.cuda = labels.get(CUDA_LABEL, "")
        self.profile = (node["metadata"].get("annotations") or {}).get(MIG, "")
        self._driver_trouble = gpu_troubles.driver_trouble(node)
        self._offers = not device_plugin.is_paused(node)
        if boot_id(node) != self._boot_id:
            self._boot(node, now, silent=silent)
        self._swap(node, now)
        before = self._sequence
        slots = len(self.product.buses)
        for slot, found in enumerate(gpu_troubles.troubles(node, slots)):
            self._suffer(slot, found, held, now, silent=silent)
        return self._sequence > before

    def _boot(self, node: Object, now: float, *, silent: bool) -> None:
        """Counters begin anew, and so does the log."""
        self._boot_id = boot_id(node)
        self.log.clear()
        self._sequence = FIRST_LINE
        name = node["metadata"]["name"]
        self._boards = [
            Board(self.product, name, slot, self._seed, gpu_troubles.revision(node, slot))
            for slot in range(len(self.product.buses))
        ]
        self._states = [_first_state(board, now, fresh=not silent) for board in self._boards]

    def _swap(self, node: Object, now: float) -> None:
        """Another board is in a slot: it has counted nothing yet."""
        for slot, old in enumerate(self._boards):
            revision = gpu_troubles.revision(node, slot)
            if revision != old.revision:
                self._boards[slot] = Board(self.product, old.node, slot, self._seed, revision)
                self._states[slot] = _first_state(self._boards[slot], now, fresh=True)

    def _suffer(self, slot: int, found: Troubles, held: Held, now: float, *, silent: bool) -> None:
        board = self._boards[slot]
        if gpu_troubles.need_reset(self._states[slot].troubles - found):
            self._states[slot] = _first_state(board, now, fresh=True)
        state = self._states[slot]
        begun = found - state.troubles
        state.troubles = found
        if not begun:
            return
        if silent:
            return
        pod, _ = held.get((slot, WHOLE), (None, ""))
        for trouble in sorted(begun):
            self._write(gpu_troubles.kernel_lines(trouble, board.bus, _pid(pod, slot) if pod else None), now)

    def _write(self, lines: list[str], now: float) -> None:
        for text in lines:
            self._sequence += 1
            self.log.append(LogLine(self._sequence, now, text))

    # What it measures

    def gpus(self, held: Held, now: float) -> tuple[Gpu, ...]:
        """All its GPUs as a source would read them now."""
        if self._driver_trouble:
            return ()
        return tuple(self._gpu(slot, held, now) for slot in range(len(self._boards)))

    def _gpu(self, slot: int, held: Held, now: float) -> Gpu:
        board, state = self._boards[slot], self._states[slot]
        holders = [(device[1], *held[device]) for device in held if device[0] == slot]
        if Trouble.OFF_BUS in state.troubles or Trouble.HUNG in state.troubles:
            return self._unanswered(board, state, holders)
        works = [(instance, pod, container, work(pod, now)) for instance, pod, container in holders]
        cut = bool(self.profile)
        busy_pct = _busy_pct(board, [w for *_, w in works if w is not None], now, parts=SLICES if cut else 1)
        self._advance(state, board, busy_pct / 100, now)
        processes = tuple(
            _process(board, instance, pod, doing) for instance, pod, _, doing in works if doing is not None
        )
        used = sum(p.used_bytes for p in processes if isinstance(p.used_bytes, int))
        return Gpu(
            **board.fixed,
            **self._activity(board, state, busy_pct, cut=cut),
            **self._memory_errors(board, state, cut=cut),
            memory_used_bytes=used or UNUSED_MIB * MIB,
            mig=NA if not self.product.slice else int(cut),
            mig_pending=NA if not self.product.slice else int(cut),
            recovery_action=self._recovery(state),
            processes=processes,
            assigned=_whole(holders),
            advertised=self._offered(state),
            instances=self._instances(board, works) if cut else (),
        )

    def _offered(self, state: State) -> bool:
        return self._offers and device_plugin.is_healthy(state.troubles)

    def _unanswered(self, board: Board, state: State, holders: list[tuple[int, Object, str]]) -> Gpu:
        """What the source still knows of a GPU that the driver has lost or does not answer for."""
        lost = Trouble.OFF_BUS in state.troubles
        return Gpu(
            uuid=board.uuid,
            index=board.slot,
            pci=board.pci,
            minor=board.slot,
            name=board.product.name,
            serial=board.serial,
            answer=Answer.LOST if lost else Answer.HUNG,
            error="GPU is lost (15)" if lost else "",
            assigned=_whole(holders),
            advertised=self._offered(state),
        )

    def _advance(self, state: State, board: Board, busy: float, now: float) -> None:
        """Let temperature, energy and counters follow what happened since the last look."""
        past_s = max(0.0, now - state.seen_at)
        product = self.product
        if Trouble.HOT in state.troubles and busy > 0:
            goal_c = product.limit_c + 0.5
        else:
            goal_c = product.cool_c + 4 * board.lot("place") + (product.warm_c - product.cool_c) * busy
        state.temperature_c += (goal_c - state.temperature_c) * (1 - math.exp(-past_s / WARMS_IN_S))
        state.energy_j += past_s * self._power_w(state, board, busy)
        if Trouble.ECC_STORM in state.troubles:
            idle, loaded = CORRECTED_PER_S
            state.corrected += past_s * (idle + (loaded - idle) * busy)
        state.seen_at = now

    def _power_w(self, state: State, board: Board, busy: float) -> float:
        product = self.product
        share = 0.5 if {Trouble.HOT, Trouble.POWER_BRAKE} & state.troubles else 0.93
        return product.idle_w * (0.9 + 0.2 * board.lot("idle")) + (product.limit_w * share - product.idle_w) * busy

    def _activity(self, board: Board, state: State, busy_pct: float, *, cut: bool) -> dict[str, Any]:
        product, busy = self.product, busy_pct / 100
        reasons = self._reasons(state, busy)
        slowed = bool(reasons & SLOWED)
        sm_mhz = product.sm_mhz if busy else product.sm_mhz // 6
        temperature_c = round(state.temperature_c)
        return {
            "utilization_pct": NA if cut else busy_pct,
            "memory_busy_pct": NA if cut else round(busy_pct * 0.55),
            "encoder_pct": NA if cut else 0,
            "decoder_pct": NA if cut else 0,
            "temperature_c": temperature_c,
            "memory_temperature_c": temperature_c + 9 if product.memory_sensor else NA,
            "temperature_margin_c": NA if product.absolute else round(product.limit_c - state.temperature_c),
            "power_w": round(self._power_w(state, board, busy), 1),
            "energy_j": int(state.energy_j),
            "sm_clock_mhz": sm_mhz // 2 if slowed else sm_mhz,
            "memory_clock_mhz": product.memory_mhz,
            "clock_reasons": reasons,
            "pcie_generation": product.pcie if busy or product.nvlinks else 1,
        }

    @staticmethod
    def _reasons(state: State, busy: float) -> int:
        """Why its clock is not higher. An idle GPU is not slowed down by what would slow it down under load."""
        if busy == 0:
            return IDLE
        reasons = 0
        if Trouble.HOT in state.troubles:
            reasons |= SLOWED | THERMAL
        if Trouble.POWER_BRAKE in state.troubles:
            reasons |= SLOWED | BRAKE
        return reasons or (POWER_CAP if busy > 0.96 else 0)

    @staticmethod
    def _memory_errors(board: Board, state: State, *, cut: bool) -> dict[str, Any]:
        """Counters. Those of this boot and the remapped rows cannot be seen of a GPU that is cut into instances."""
        found = state.troubles
        bad = int(Trouble.UNCORRECTABLE in found)
        remapped = bool(found & {Trouble.UNCORRECTABLE, Trouble.REMAP_PENDING, Trouble.REMAPPED})
        pending = bool(found & {Trouble.UNCORRECTABLE, Trouble.REMAP_PENDING})
        ever = int(board.lot("corrected") ** 4 * 60)
        return {
            "ecc_corrected": NA if cut else int(state.corrected),
            "ecc_uncorrected": NA if cut else bad,
            "ecc_corrected_ever": ever + int(state.corrected),
            "ecc_uncorrected_ever": int(remapped),
            "sram_threshold_exceeded": 0,
            "remap_corrected": NA if cut else 0,
            "remap_uncorrected": NA if cut else int(remapped),
            "remap_pending": NA if cut else int(pending),
            "remap_failure": NA if cut else 0,
        }

    def _recovery(self, state: State) -> Measure:
        if not self.driver.partition(".")[0].isdigit() or int(self.driver.partition(".")[0]) < RECOVERY_SINCE:
            return NA
        return max((gpu_troubles.RECOVERY.get(t, 0) for t in state.troubles), default=0)

    # Who works on it

    @staticmethod
    def _instances(board: Board, works: list[tuple[int, Object, str, Work | None]]) -> tuple[Instance, ...]:
        by_number = {instance: (pod, container, doing) for instance, pod, container, doing in works}
        total = board.product.slice_mib * MIB
        found = []
        for number in range(SLICES):
            pod, container, doing = by_number.get(number, (None, "", None))
            found.append(
                Instance(
                    uuid=board.instance_uuid(number),
                    profile=board.product.slice,
                    gi=FIRST_GI + number,
                    ci=0,
                    memory_total_bytes=total,
                    memory_used_bytes=int(doing.memory * total) // MIB * MIB if doing else 12 * MIB,
                    assigned=(_holder(pod, container),) if pod else (),
                )
            )
        return tuple(found)


def _busy_pct(board: Board, doing: list[Work], now: float, parts: int) -> int:
    """How busy the GPU is; `parts`: into how many it is cut, each with work of its own."""
    busy = sum(w.busy for w in doing) / parts
    noise = board.noise(now) * SPREAD_PCT if busy else 0.0
    return round(min(99.0, max(0.0, busy * 100 + noise)))


def _process(board: Board, instance: int, pod: Object, doing: Work) -> Process:
    """One process of a pod; as an agent finds it, by its control group."""
    whole = instance == WHOLE
    room = board.total_bytes - board.reserved_bytes if whole else board.product.slice_mib * MIB
    used = int(doing.memory * room) // MIB * MIB
    name = "" if whole else board.instance_uuid(instance)
    return Process(_pid(pod, board.slot), used, Holder(pod_uid=pod["metadata"]["uid"]), name)


def _first_state(board: Board, now: float, *, fresh: bool) -> State:
    """Of a machine that has just been booted, or (not `fresh`) of one that has been up for weeks."""
    product = board.product
    up_s = 0.0 if fresh else (9 + 60 * board.lot("up")) * 86400
    energy_j = up_s * (product.idle_w + 0.45 * (product.limit_w - product.idle_w) * board.lot("used"))
    corrected = 0.0 if fresh else float(int(board.lot("volatile") ** 6 * 4))
    seen_at = now if fresh else now - LONG_S
    return State(temperature_c=product.cool_c, energy_j=energy_j, corrected=corrected, seen_at=seen_at)


def _whole(holders: list[tuple[int, Object, str]]) -> tuple[Holder, ...]:
    """Who holds the GPU itself, not an instance of it."""
    return tuple(_holder(pod, container) for instance, pod, container in holders if instance == WHOLE)


def _holder(pod: Object, container: str) -> Holder:
    return Holder(pod["metadata"]["namespace"], pod["metadata"]["name"], container)


def _pid(pod: Object, slot: int) -> int:
    """As the host counts; each GPU of a pod has a process of its own."""
    return 20_000 + int(pod["metadata"]["uid"][:6], 16) % 4_000_000 + slot
