"""The search: names that hold what was typed, by kind of thing, the best match first.

Owns what is searched and how matches are ordered. It reads the picture's names only: a name that no row has is not found. Of what
trains it also knows where it saves, in which format, and how its checkpoints stand.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dashboard.panels.fleet import place
from dashboard.panels.order import natural
from dashboard.panels.words import Age, Text, plain, say
from fleet.domain.gpus import normal_pci
from fleet.domain.picture import GpuRow, NodeRow, PodRow, Snapshot, WorkloadRow
from fleet.domain.save_picture import CheckpointRow
from fleet.domain.save_rows import BEHIND

MOST = 50  # of each kind
GPU_IDENTITY = "gpu-"  # how the identity of an NVIDIA GPU begins
INSTANCE_IDENTITY = "mig-"


@dataclass(frozen=True, slots=True)
class Hit:
    """`target` says what its page is about: a node, a GPU's key, a workload's key or a namespace; "" waits for a node."""

    name: str
    note: Text
    target: str
    level: str = ""


@dataclass(frozen=True, slots=True)
class Hits:
    """Those of one kind: nodes, gpus, workloads, checkpoints, pods, namespaces. `total` counts also those beyond the first."""

    kind: str
    hits: list[Hit]
    total: int

    @property
    def title(self) -> str:
        return f"search.{self.kind}"

    @property
    def more(self) -> Text:
        """What is said of the matches beyond the first."""
        return say("search.more", n=self.total - len(self.hits))


def search(snapshot: Snapshot, text: str) -> list[Hits]:
    """What has every word of `text` in its name, whatever the case; nothing for an empty text."""
    words = text.lower().split()
    if not words:
        return []
    gpus = ((_identity(row), _gpu(key, row)) for key, row in snapshot.gpus.items())
    found = (
        _best("nodes", words, ((name, _node(row)) for name, row in snapshot.nodes.items())),
        _best("gpus", [normal_pci(text)] if normal_pci(text) else words, gpus),
        _best("workloads", words, ((key.split("/", 1)[1], _workload(key, r)) for key, r in snapshot.workloads.items())),
        _best(
            "checkpoints", words, ((_saved(key, row), _saves(key, row)) for key, row in snapshot.checkpoints.items())
        ),
        _best("pods", words, ((key, _pod(row)) for key, row in snapshot.pods.items())),
        _best("namespaces", words, _namespaces(snapshot)),
    )
    return [hits for hits in found if hits.total]


def asks_for_a_gpu(text: str) -> bool:
    return text.strip().lower().startswith((GPU_IDENTITY, INSTANCE_IDENTITY))


def _best(kind: str, words: list[str], candidates: Iterable[tuple[str, Hit]]) -> Hits:
    found = [(name, hit) for name, hit in candidates if all(word in name.lower() for word in words)]
    found.sort(key=lambda item: (*_rank(item[1].name.lower(), words[0]), natural(item[0])))
    return Hits(kind, [hit for _, hit in found[:MOST]], len(found))


def _rank(name: str, word: str) -> tuple[bool, bool]:
    return name != word, not name.startswith(word)


def _node(row: NodeRow) -> Hit:
    gpus = say("gpus.of", n=len(row.cells), product=row.product) if row.product else say("gpus", n=len(row.cells))
    return Hit(row.name, (place(row.pool, row.zone), gpus if row.cells else say("card.none")), row.name, row.level)


def _identity(row: GpuRow) -> str:
    """Everything that names a GPU or a part of it: in the picture, on its board, in the machine."""
    return " ".join((row.uuid, row.serial, row.pci, *(instance.uuid for instance in row.instances)))


def _gpu(key: str, row: GpuRow) -> Hit:
    state = "" if row.state == "ok" else say(f"device.{row.state}")
    return Hit(
        key, (say("gpu.on", index=row.index, node=row.node), row.name, row.serial, row.pci, state), key, row.level
    )


def _workload(key: str, row: WorkloadRow) -> Hit:
    return Hit(row.name, (row.namespace, row.kind, say("gpus", n=row.gpus) if row.gpus else ""), key)


def _saved(key: str, row: CheckpointRow) -> str:
    """What a workload that trains is known by: its name, where it saves and how, and how that stands, also in plain words."""
    standing = plain(say(f"standing.{row.standing}"), 0)
    late = "stale overdue" if row.standing in BEHIND else ""
    return " ".join((key.split("/", 1)[1], row.uri, row.place, row.format, row.standing, standing, late))


def _saves(key: str, row: CheckpointRow) -> Hit:
    at = row.reported_at if row.newest_at is None else row.newest_at
    age = "" if at is None or row.skew_s else say("search.saved", age=Age(at))
    note = (row.namespace, say(f"standing.{row.standing}"), age, row.format, row.uri or row.place)
    return Hit(key.rpartition("/")[2], note, key, row.level if row.level in {"warn", "bad"} else "")


def _pod(row: PodRow) -> Hit:
    gpus = say("gpus", n=row.gpus) if row.gpus else ""
    return Hit(row.name, (row.namespace, row.status, gpus, row.node or say("search.no-node")), row.node, row.level)


def _namespaces(snapshot: Snapshot) -> Iterator[tuple[str, Hit]]:
    names = {row.namespace for row in snapshot.pods.values()} | {row.namespace for row in snapshot.workloads.values()}
    for name in names:
        yield name, Hit(name, "", name)
