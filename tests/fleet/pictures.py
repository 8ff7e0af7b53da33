"""A picture whose GPUs have just been read: what a plan on a GPU node asks for before anything else."""

from collections.abc import Iterable

import msgspec

from fleet.domain.picture import EMPTY, GpuRow, NodeRow, Snapshot


def read(names: Iterable[str], at: float, gpus: int = 8) -> Snapshot:
    """Nodes whose GPUs are all well by a reading of `at`. Who uses them is not known."""
    nodes = {name: NodeRow(name=name, ready="True", measured=True, physical=gpus) for name in names}
    rows = [GpuRow(name, index, f"{name}/{index}", state="ok", read_at=at) for name in nodes for index in range(gpus)]
    return msgspec.structs.replace(EMPTY, nodes=nodes, gpus={row.uuid: row for row in rows})
