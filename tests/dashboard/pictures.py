"""Pictures for the tests of the web face: small snapshots, and a writer that publishes them as the watch task does."""

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator

import msgspec

from fleet import live
from fleet.domain.changes import Version, diff
from fleet.domain.picture import EMPTY, FleetRow, GpuRow, NodeRow, PodRow, Snapshot
from tests.fleet import pictures


def nodes(count: int = 24, **changed: NodeRow) -> Snapshot:
    """`count` nodes of eight GPUs, named node-01 and on; `changed` replaces some of them (node_02=…).

    One GPU is measured: GPU-01, on node-01.
    """
    rows = {f"node-{i:02}": NodeRow(name=f"node-{i:02}", cells="ffffffff", ready="True") for i in range(1, count + 1)}
    rows |= {name.replace("_", "-"): row for name, row in changed.items()}
    fleet = FleetRow(nodes=len(rows), gpus=8 * len(rows))
    gpu = GpuRow(node="node-01", index=0, uuid="GPU-01", state="ok")
    return msgspec.structs.replace(EMPTY, fleet={"fleet": fleet}, nodes=rows, gpus={"GPU-01": gpu})


def with_pod(snapshot: Snapshot, name: str, node: str) -> Snapshot:
    pods = {**snapshot.pods, f"ml/{name}": PodRow(uid=name, namespace="ml", name=name, node=node, status="Running")}
    return Snapshot(**{**{t: getattr(snapshot, t) for t in Snapshot.__struct_fields__}, "pods": pods})


@contextlib.contextmanager
def well_read(cluster: str, names: Iterable[str]) -> Iterator[None]:
    """While it lasts, the picture of the cluster shows GPUs that are well. Their readings are of the hour to come, so that one
    picture is younger than anything that a test does."""
    writer = Writer(cluster)
    writer.publish(pictures.read(names, time.time() + 3600))
    yield
    writer.release()


class Writer:
    """Holds a cluster's lease and publishes to the store of this process."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.picture = live.picture()
        lease = self.picture.acquire(cluster, uuid.uuid4().hex, 60)
        assert lease is not None
        self.lease = lease
        self.version = Version(lease.epoch, 0)
        self.snapshot = EMPTY

    def publish(self, snapshot: Snapshot) -> Version:
        """The next version, with a pulse before it."""
        self.pulse()
        self.version = Version(self.version.epoch, self.version.n + 1)
        assert self.picture.publish(self.cluster, self.version, diff(self.snapshot, snapshot), snapshot)
        self.snapshot = snapshot
        return self.version

    def release(self) -> None:
        self.picture.release(self.lease)

    def pulse(self, at: float | None = None, trouble: tuple[tuple[str, str, float], ...] = ()) -> None:
        now = time.time()
        pulse = live.Pulse(now if at is None else at, trouble, now)
        assert self.picture.pulse(self.cluster, self.version, pulse)
