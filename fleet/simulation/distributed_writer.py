"""Distributed checkpoints of torch (DCP): a shard for each rank, and the pickled metadata that says what lies where in them.

Owns that format. Must not know whose checkpoint it is. Source: torch.distributed.checkpoint 2.13.
"""

from typing import Any

from fleet.simulation.pickle_writer import FRAMED, Instance, Made, Named, pickled
from fleet.simulation.torch_writer import Tensor, saved

Object = dict[str, Any]

_MODULE = "torch.distributed.checkpoint.metadata"
_SIZE = Named("torch", "Size")


def shards(items: Object, ranks: int) -> tuple[dict[str, bytes], bytes]:
    """The shards by name, and the metadata. Tensors whose rows can be dealt out are, all else is rank 0's."""
    contents = [b""] * ranks
    kinds: Object = {}
    stored: dict[Instance, Instance] = {}
    for key, value in items.items():
        pieces = _pieces(value, ranks) if isinstance(value, Tensor) else []
        for rank, (offsets, piece) in enumerate(pieces or [(None, value)]):
            data = saved(piece)
            index = {"fqn": key, "offset": None if offsets is None else _size(offsets), "index": None}
            where = {"relative_path": f"__{rank}_0.distcp", "offset": len(contents[rank]), "length": len(data)}
            stored[_Key(_kind("MetadataIndex"), index)] = Instance(
                Named("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
                {**where, "transform_descriptors": None},
            )
            contents[rank] += data
        kinds[key] = (
            _tensor(value, pieces) if isinstance(value, Tensor) else Instance(_kind("BytesStorageMetadata"), {})
        )
    metadata = Instance(
        _kind("Metadata"),
        {
            "state_dict_metadata": kinds,
            "planner_data": None,
            "storage_data": stored,
            "storage_meta": None,
            "version": "1.0.0",
        },
    )
    files = {f"__{rank}_0.distcp": content for rank, content in enumerate(contents) if content}
    return files, pickled(metadata, FRAMED)


class _Key(Instance):
    """As a key of a dict: each is one of its own."""

    __hash__ = object.__hash__


def _kind(name: str) -> Named:
    return Named(_MODULE, name)


def _size(numbers: tuple[int, ...]) -> Made:
    return Made(_SIZE, (numbers,))


def _pieces(tensor: Tensor, ranks: int) -> list[tuple[tuple[int, ...], Tensor]]:
    """Offsets and contents of each rank's rows; all of it where they cannot be dealt out evenly."""
    if not tensor.shape or tensor.shape[0] % ranks:
        return [((0,) * len(tensor.shape), tensor)]
    rows = tensor.shape[0] // ranks
    shape, length = (rows, *tensor.shape[1:]), len(tensor.data) // ranks
    offsets = [(rank * rows, *(0 for _ in tensor.shape[1:])) for rank in range(ranks)]
    return [
        (offset, Tensor(shape, tensor.data[rank * length : (rank + 1) * length], tensor.kind))
        for rank, offset in enumerate(offsets)
    ]


def _tensor(tensor: Tensor, pieces: list[tuple[tuple[int, ...], Tensor]]) -> Instance:
    layout = Made(Named("torch.serialization", "_get_layout"), ("torch.strided",))
    encoding = Made(Named(_MODULE, "_MEM_FORMAT_ENCODING"), (0,))
    kind = {"Float": "float32", "Long": "int64", "Byte": "uint8"}[tensor.kind]
    properties = Instance(_kind("TensorProperties"), (Named("torch", kind), layout, False, encoding, False))
    chunks = [
        Instance(_kind("ChunkStorageMetadata"), {"offsets": _size(offset), "sizes": _size(piece.shape)})
        for offset, piece in pieces
    ]
    return Instance(
        _kind("TensorStorageMetadata"), {"properties": properties, "size": _size(tensor.shape), "chunks": chunks}
    )
