"""`/metrics` for Prometheus: the fleet's numbers and our own lags.

Owns names, labels and their bounds. The fleet's numbers and the writer's are computed from the picture when somebody asks, so
every web process tells the same; what is about sockets is of the process that answered. Must not hold rules about machines.

Labels are names of clusters, pools, products and kinds, and of workloads that train: never of nodes, pods or people; single GPUs
are `gpu_metrics`'. Beyond `MOST` pools or products of one cluster the smallest are added up as "other".
"""

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from dashboard import access, clusters, consumers, gpu_metrics
from dashboard.door import door
from fleet import live
from fleet.act import audit
from fleet.domain.freshness import Standing
from fleet.domain.picture import FleetRow, NodeRow, Snapshot
from fleet.domain.save_picture import CheckpointRow
from fleet.live import Loss, PictureError, Published, Pulse
from fleet.models import AuditHead

MOST = 50
MOST_TRAINING = 500  # workloads of one cluster
OTHER = "other"


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The text format. Whoever asks with a token gets the clusters that it covers."""
    registry, names = CollectorRegistry(), access.clusters_of(request)
    registry.register(Clusters(names))
    registry.register(OwnProcess())
    registry.register(Audit())
    for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR):
        registry.register(collector)
    body = generate_latest(registry) + gpu_metrics.readings(names) + gpu_metrics.gpus(_snapshots(names))
    return HttpResponse(body, content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _snapshots(names: Iterable[str]) -> dict[str, Snapshot]:
    """Of the clusters that have one and whose store can be reached."""
    found = {}
    for name in names:
        with contextlib.suppress(PictureError):
            if (published := clusters.published(name)) is not None:
                found[name] = published.snapshot
    return found


class Clusters(Collector):
    """Of each cluster its totals, and how far its writer lags behind."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)

    def collect(self) -> Iterator[Metric]:
        now, families = time.time(), Families()
        for name in self._names:
            try:
                found, pulse = clusters.published(name), live.picture().last_pulse(name)
            except PictureError:  # nothing is known, which "lost" says
                found, pulse = None, None
            families.freshness(name, pulse, now, there=found is not None)
            if pulse is not None:
                families.writer(name, pulse)
            if found is not None:
                families.fleet(name, found)
                families.checkpoints(name, found.snapshot.checkpoints, now)
        yield from families.all


class Families:
    """Every family of metrics that is about clusters, filled one cluster after another."""

    def __init__(self) -> None:
        self.all: list[Metric] = []
        cluster = ("cluster",)
        self._up = self._gauge("picture_up", "1 while the picture is kept true, 0 when it is known not to be", cluster)
        self._age = self._gauge("picture_age_seconds", "Since the picture was last known to be true", cluster)
        self._trouble = self._gauge(
            "picture_trouble", "Streams that are broken or may not be read", (*cluster, "what", "reason")
        )
        self._version = self._gauge("picture_version", "Deltas of this writer so far", cluster)
        self._events = self._counter("watch_events", "Events heard from the API server by the present writer", cluster)
        self._restarts = self._counter("watch_restarts", "Streams that broke and were opened again", cluster)
        self._waiting = self._gauge("watch_waiting_events", "Events that wait for the writer", cluster)
        self._publish = SummaryMetricFamily("vigie_publish_seconds", "Storing one delta", labels=cluster)
        self.all.append(self._publish)
        self._nodes = self._gauge("nodes", "Nodes", (*cluster, "state"))
        self._gpus = self._gauge(
            "gpus", "GPU slots by what they are to new pods; they add up to all", (*cluster, "state")
        )
        self._allocated = self._gauge("gpus_allocated", "GPU slots that pods hold", cluster)
        self._free = self._gauge("gpus_free", "GPU slots that are free on usable nodes", cluster)
        self._hole = self._gauge("gpus_largest_hole", "Free GPUs on one usable node, at most", (*cluster, "product"))
        self._by_product = self._gauge("product_gpus", "GPU slots of one product", (*cluster, "product", "state"))
        self._by_pool = self._gauge("pool_gpus", "GPU slots of one pool", (*cluster, "pool", "state"))
        self._pods = self._gauge("pods_waiting", "Pods that want GPUs and have no node", cluster)
        self._attention = self._gauge("attention", "What needs a person", (*cluster, "kind", "level"))
        labels = (*cluster, "namespace", "workload")
        self._checkpoint_age = self._gauge(
            "checkpoint_age_seconds", "Since the newest complete checkpoint of a workload that trains", labels
        )
        self._checkpoint_target = self._gauge(
            "checkpoint_interval_seconds", "How often a workload means to save, or is seen to", labels
        )
        self._workloads = self._gauge("training_workloads", "Workloads that train", (*cluster, "standing"))

    def freshness(self, cluster: str, pulse: Pulse | None, now: float, *, there: bool) -> None:
        kept = there and pulse is not None and pulse.loss(now) is Loss.NONE
        self._up.add_metric([cluster], float(kept))
        if pulse is not None and pulse.at:
            self._age.add_metric([cluster], max(0.0, now - pulse.at))
        for what, reason, _ in pulse.trouble if pulse is not None else ():
            self._trouble.add_metric([cluster, what, _word(reason)], 1)

    def writer(self, cluster: str, pulse: Pulse) -> None:
        work = pulse.work
        self._events.add_metric([cluster], work.events)
        self._restarts.add_metric([cluster], work.restarts)
        self._waiting.add_metric([cluster], work.waiting)
        self._publish.add_metric([cluster], work.publishes, work.publish_s)

    def fleet(self, cluster: str, found: Published) -> None:
        row = found.snapshot.fleet.get("fleet", FleetRow())
        self._version.add_metric([cluster], found.version.n)
        for state, number in (("all", row.nodes), ("gpu", row.gpu_nodes), ("ready", row.nodes_ready)):
            self._nodes.add_metric([cluster, state], number)
        for state in ("available", "cordoned", "tainted", "silent", "withdrawn", "failed", "unknown"):
            self._gpus.add_metric([cluster, state], getattr(row, state))
        self._allocated.add_metric([cluster], row.allocated)
        self._free.add_metric([cluster], row.free)
        self._pods.add_metric([cluster], row.waiting_pods)
        self._parts(cluster, found.snapshot)
        counted = Counter((entry.kind, entry.level) for entry in found.snapshot.attention.values())
        for (kind, level), number in sorted(counted.items()):
            self._attention.add_metric([cluster, kind, level], number)

    def checkpoints(self, cluster: str, rows: Mapping[str, CheckpointRow], now: float) -> None:
        """Of the `MOST_TRAINING` that are oldest: those that matter to an alarm."""
        for standing, number in sorted(Counter(row.standing for row in rows.values()).items()):
            self._workloads.add_metric([cluster, standing], number)
        active = [row for row in rows.values() if row.standing != Standing.RESTING]
        known = [(row.newest_at, row) for row in active if row.newest_at is not None]
        for at, row in sorted(known, key=lambda each: (each[0], each[1].workload))[:MOST_TRAINING]:
            kind, _, name = row.workload.partition(f"/{row.namespace}/")
            self._checkpoint_age.add_metric([cluster, row.namespace, f"{kind}/{name}"], max(0.0, now - at))
            if row.target_s is not None:
                self._checkpoint_target.add_metric([cluster, row.namespace, f"{kind}/{name}"], row.target_s)

    def _parts(self, cluster: str, snapshot: Snapshot) -> None:
        products = {
            key: {"all": row.gpus, "available": row.available, "allocated": row.allocated, "free": row.free}
            for key, row in snapshot.products.items()
        }
        for family, sums in ((self._by_product, products), (self._by_pool, by_pool(snapshot.nodes.values()))):
            for part, states in bounded(sums).items():
                for state, number in states.items():
                    family.add_metric([cluster, part, state], number)
        for key in set(bounded(products)) - {OTHER}:
            self._hole.add_metric([cluster, key], snapshot.products[key].largest_hole)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"vigie_{name}", text, labels=labels)
        self.all.append(family)
        return family

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> CounterMetricFamily:
        family = CounterMetricFamily(f"vigie_{name}", text, labels=labels)
        self.all.append(family)
        return family


def by_pool(nodes: Iterable[NodeRow]) -> dict[str, dict[str, int]]:
    """Slots of the GPU nodes of each pool: all (allocatable), those that can be used, allocated, and free on usable nodes."""
    sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        for resource in node.resources:
            found = sums[node.pool]
            found["all"] += resource.allocatable
            found["available"] += resource.allocatable - resource.failed - resource.unknown if node.usable else 0
            found["allocated"] += resource.allocated
            found["free"] += resource.free if node.usable else 0
    return {pool: dict(found) for pool, found in sums.items()}


def bounded(sums: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """The largest `MOST` parts; the others added up, so that labels of a cluster cannot fill a monitoring system."""
    ordered = sorted(sums, key=lambda part: (-sums[part].get("all", 0), part))
    found = {part: dict(sums[part]) for part in ordered[:MOST]}
    rest: Counter[str] = Counter()
    for part in ordered[MOST:]:
        rest.update(sums[part])
    return found | ({OTHER: dict(rest)} if rest else {})


def _word(reason: str) -> str:
    """A reason as a label: words of ours and of Kubernetes, never a sentence."""
    return reason if len(reason) <= 40 and reason.replace(" ", "").isalnum() else OTHER


class Audit(Collector):
    """How many entries the audit has, and the seal of the last one: a chain alone does not show that its end was cut off."""

    def collect(self) -> Iterator[Metric]:
        with contextlib.suppress(DatabaseError):  # no number is told rather than a wrong one
            head = AuditHead.objects.filter(pk=audit.HEAD).first() or AuditHead()
            yield _number("vigie_audit_entries", "Entries of the audit, over all clusters", head.number)
            yield InfoMetricFamily("vigie_audit_head", "The seal of the last of them", {"hash": head.hash})


class OwnProcess(Collector):
    """What the web process that answers knows of itself."""

    def collect(self) -> Iterator[Metric]:
        hubs = consumers.hubs()
        sockets = GaugeMetricFamily("vigie_sockets", "Open pages and streams of this process", labels=("cluster",))
        for name, number in sorted(sum((Counter(hub.watched) for hub in hubs), Counter[str]()).items()):
            sockets.add_metric([name], number)
        yield sockets
        yield _number(
            "vigie_socket_queue",
            "Frames in the longest queue of this process",
            max((h.queued for h in hubs), default=0),
        )
        yield _count(
            "vigie_slow_sockets", "Sockets of this process that were dropped to a snapshot", sum(h.slow for h in hubs)
        )
        yield from _door()
        yield _count("vigie_notices_failed", "Notices that this process could not send", live.failures())


def _door() -> Iterator[Metric]:
    """What this process has answered at the door for readings."""
    accepted = CounterMetricFamily(
        "vigie_readings_accepted", "Readings that this process accepted", labels=("cluster",)
    )
    for cluster, number in sorted(door.accepted.items()):
        accepted.add_metric([cluster], number)
    yield accepted
    labels = ("cluster", "reason")
    refused = CounterMetricFamily("vigie_readings_refused", "Readings that this process refused", labels=labels)
    for (cluster, reason), number in sorted(door.refused.items()):
        refused.add_metric([cluster, reason], number)
    yield refused


def _number(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _count(name: str, text: str, value: float) -> Metric:
    family: Any = CounterMetricFamily(name, text, value=value)
    return family  # type: ignore[no-any-return]
