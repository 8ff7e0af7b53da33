"""Requests in flight: which metric of a serving pod tells how many, and its value.

Owns the annotation `vigie.dev/in-flight: <port>/<path>#<metric>` and what is known of servers that many people run. Must not
fetch anything. Unknown is never 0: a metric that is missing or broken is None.
"""

import math
import re

from msgspec import Struct

from fleet.domain.facts import IN_FLIGHT
from fleet.domain.gpus import Measure
from fleet.domain.specs import FullPod


class Where(Struct, frozen=True):
    """Where to ask one pod. Several metrics are added up: running and queued requests are both in flight."""

    port: int
    path: str
    metrics: tuple[str, ...]


# Servers by a word in the image's name: their documented gauges and their usual port.
KNOWN: tuple[tuple[str, Where], ...] = (
    ("vllm", Where(8000, "/metrics", ("vllm:num_requests_running", "vllm:num_requests_waiting"))),
    ("text-generation-inference", Where(80, "/metrics", ("tgi_batch_current_size", "tgi_queue_size"))),
    ("tritonserver", Where(8002, "/metrics", ("nv_inference_pending_request_count",))),
)

_ANNOTATION = re.compile(r"(\d{1,5})(/[^#\s]*)#([A-Za-z_:][\w:]*)")
_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{[^\n]*\})?[ \t]+(\S+)", re.ASCII)


def where(pod: FullPod) -> Where | None:
    """Where this pod tells; None when it declares nothing and its server is not known."""
    said = pod.metadata.annotations.get(IN_FLIGHT, "")
    if said:
        match = _ANNOTATION.fullmatch(said.strip())
        return Where(int(match[1]), match[2], (match[3],)) if match and 0 < int(match[1]) < 65536 else None
    for container in pod.spec.containers:
        for word, known in KNOWN:
            if word in container.image.lower():
                port = next((port.container_port for port in container.ports), known.port)
                return Where(known.port if word == "tritonserver" else port, known.path, known.metrics)
    return None


def count(text: str, metrics: tuple[str, ...]) -> Measure:
    """The sum of all samples of the metrics in a Prometheus page; None when one of them has no sample or no sound number."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None or match[1] not in metrics:
            continue
        try:
            value = float(match[2])
        except ValueError:
            return None
        if not math.isfinite(value) or value < 0:
            return None
        found[match[1]] = found.get(match[1], 0.0) + value
    return round(sum(found.values())) if len(found) == len(metrics) else None
