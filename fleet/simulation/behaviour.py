"""How the containers of the rehearsal behave: how long images take to pull, servers to warm up and everything to stop.

Owns the table of images and the annotations that override it. Must not hold state or touch the store.
"""

from dataclasses import dataclass, replace
from typing import Any

Object = dict[str, Any]

# Annotations on a pod: sim/pull-seconds, sim/warmup-seconds, sim/stop-seconds, sim/run-seconds, sim/run-spread (0.5: each pod
# runs between half and one and a half times as long), sim/hang-seconds (answers no probe after so long), sim/exit-code,
# sim/unready, sim/crashloop, sim/image-error (its image cannot be pulled).
PREFIX = "sim/"


@dataclass(frozen=True)
class Behaviour:
    """Seconds at speed 1. `run_s` None: runs until stopped. `exit_code` is that of a container ending by itself."""

    pull_s: float = 0.5
    warmup_s: float = 1.0
    stop_s: float = 1.0
    run_s: float | None = None
    exit_code: int = 0
    stop_exit_code: int = 0
    image_bytes: int = 187_654_321
    ready: bool = True
    hang_s: float | None = None
    image_error: bool = False


UNKNOWN_IMAGE = Behaviour()

# The last part of an image's name, without its tag → what its containers do.
IMAGES: dict[str, Behaviour] = {
    "llm-server": Behaviour(9.0, 38.0, 12.0, image_bytes=11_204_813_772),
    "embedding-server": Behaviour(6.0, 14.0, 4.0, image_bytes=5_731_904_112),
    "rerank-server": Behaviour(6.0, 16.0, 5.0, image_bytes=5_802_117_406),
    "ocr-server": Behaviour(5.0, 9.0, 3.0, image_bytes=4_318_620_955),
    "asr-batch": Behaviour(5.0, 6.0, 4.0, image_bytes=6_120_447_310),
    "trainer": Behaviour(11.0, 25.0, 20.0, stop_exit_code=143, image_bytes=13_870_226_431),
    "rl-trainer": Behaviour(11.0, 30.0, 20.0, stop_exit_code=143, image_bytes=13_912_550_018),
    "notebook": Behaviour(4.0, 3.0, 2.0, image_bytes=7_455_018_226),
    "label-studio": Behaviour(3.0, 5.0, 2.0, image_bytes=1_204_556_871),
    "k8s-device-plugin": Behaviour(2.0, 1.0, 1.0, image_bytes=312_004_776),
    "dcgm-exporter": Behaviour(3.0, 3.0, 1.0, image_bytes=486_910_233),
    "node-exporter": Behaviour(1.0, 1.0, 1.0, image_bytes=26_118_452),
    "fabric-agent": Behaviour(1.0, 1.0, 1.0, image_bytes=58_220_901),
    "log-shipper": Behaviour(1.0, 1.0, 1.0, image_bytes=71_003_348),
    "vigie": Behaviour(2.0, 1.0, 1.0, image_bytes=248_117_920),
}


TIMES = (("pull_s", "pull"), ("warmup_s", "warmup"), ("stop_s", "stop"), ("run_s", "run"), ("hang_s", "hang"))
CRASH_S = 0.5  # how long a crash-looping container runs


def image_name(image: str) -> str:
    """ "registry/group/llm-server:v41@sha256:…" → "llm-server"."""
    return image.partition("@")[0].rsplit("/", 1)[-1].partition(":")[0]


def behaviour(pod: Object) -> Behaviour:
    """That of the first container's image, overridden by the pod's annotations. ValueError when one is no number."""
    found = IMAGES.get(image_name(pod["spec"]["containers"][0]["image"]), UNKNOWN_IMAGE)
    annotations = pod["metadata"].get("annotations") or {}
    changes: dict[str, Any] = {}
    for field, key in TIMES:
        text = annotations.get(f"{PREFIX}{key}-seconds")
        if text is not None:
            changes[field] = float(text)
    if "run_s" in changes and f"{PREFIX}run-spread" in annotations:
        changes["run_s"] *= 1 + float(annotations[f"{PREFIX}run-spread"]) * _lot(pod["metadata"]["uid"])
    code = annotations.get(f"{PREFIX}exit-code")
    if code is not None:
        changes |= {"exit_code": int(code), "stop_exit_code": int(code)}
    if annotations.get(f"{PREFIX}unready") == "true":
        changes["ready"] = False
    if annotations.get(f"{PREFIX}crashloop") == "true":
        changes = {"run_s": CRASH_S, "exit_code": 1, **changes}
    if annotations.get(f"{PREFIX}image-error") == "true":
        changes["image_error"] = True
    return replace(found, **changes) if changes else found


def _lot(uid: str) -> float:
    """Between -1 and 1, the same for the same pod."""
    return int(uid[:8], 16) / 0x7FFFFFFF - 1
