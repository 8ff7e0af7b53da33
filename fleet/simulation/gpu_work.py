"""What pods do to the GPUs that they hold: how busy they keep them, and how much memory they fill.

Owns the table by image and the annotation sim/gpu-busy (a share between 0 and 1) that overrides it. Pure: a pod and a time in.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet.simulation import model_servers, podstatus
from fleet.simulation.behaviour import image_name

Object = dict[str, Any]
Busy = Callable[[Object, float], float]

BUSY = "sim/gpu-busy"
LOADING_SHARE = 0.3  # of its memory, while it is not ready
SESSION_S, RUNS_S = 420.0, 150.0  # somebody at a notebook runs a cell so often, so long


@dataclass(frozen=True)
class Work:
    """Shares between 0 and 1: of time with a kernel running, of the GPU's memory."""

    busy: float
    memory: float


def _lot(pod: Object) -> float:
    """Between 0 and 1, the same for the same pod."""
    return int(pod["metadata"]["uid"][:8], 16) / 0xFFFFFFFF


def _steadily(share: float) -> Busy:
    return lambda _pod, _at: share


def _now_and_then(pod: Object, at: float) -> float:
    """A notebook: minutes of work, minutes of thought."""
    return 0.65 if (at + _lot(pod) * SESSION_S) % SESSION_S < RUNS_S else 0.0


def _in_batches(pod: Object, at: float) -> float:
    return 0.74 + 0.16 * math.sin(math.tau * (at / 50.0 + _lot(pod)))


def _by_load(pod: Object, at: float) -> float:
    return 0.12 + 0.5 * model_servers.load_share(pod, at)


# The last part of an image's name → how busy, and the share of memory.
PROGRAMS: dict[str, tuple[Busy, float]] = {
    "trainer": (_steadily(0.93), 0.91),
    "rl-trainer": (_steadily(0.9), 0.84),
    "asr-batch": (_in_batches, 0.55),
    "notebook": (_now_and_then, 0.14),
    "llm-server": (_by_load, 0.9),
    "embedding-server": (_by_load, 0.36),
    "rerank-server": (_by_load, 0.42),
    "ocr-server": (_by_load, 0.31),
}
UNKNOWN_PROGRAM: tuple[Busy, float] = (_by_load, 0.4)


def work(pod: Object, at: float) -> Work | None:
    """What a pod does to each of its GPUs now; None while none of its containers runs."""
    statuses = pod["status"].get("containerStatuses") or ()
    if not any("running" in s["state"] for s in statuses):
        return None
    busy, memory = PROGRAMS.get(image_name(pod["spec"]["containers"][0]["image"]), UNKNOWN_PROGRAM)
    if not podstatus.is_ready(pod):
        return Work(0.0, memory * LOADING_SHARE)
    said = (pod["metadata"].get("annotations") or {}).get(BUSY)
    return Work(float(said) if said is not None else busy(pod, at), memory)
