"""Checkpoints made by hand, byte by byte, so that every lie that a file can tell can be told: pickles, torch's archives, DCP.

`Made` is a store in memory: what is read of it is counted, and anything can be made to change or fail.

The opcodes are not those of `fleet.simulation.pickle_writer`, on purpose: it writes as torch does, this as a pickle may also be
written (the long form of every number, text and tuple), and a mistake in one of them is none in the other.
"""

import io
import struct
import zipfile
import zlib
from dataclasses import dataclass, field

from fleet.domain.checkpoint_files import QUICK, File, Listing, Look, Omitted, Unreadable, Why
from fleet.domain.checkpoint_units import Folder, units
from fleet.domain.checkpoint_verdicts import judge

NOON = 1_800_000_000.0


def clock(text: str) -> float:
    """Seconds of "11:52:10" on the day whose noon is NOON."""
    hours, minutes, *seconds = (int(part) for part in text.split(":"))
    return NOON + (hours - 12) * 3600 + minutes * 60 + (seconds[0] if seconds else 0)


# Pickles


@dataclass(frozen=True)
class Global:
    module: str
    name: str


@dataclass(frozen=True)
class Call:
    function: Global
    arguments: tuple


@dataclass(frozen=True)
class Instance:
    """An object of a class with a state."""

    kind: Global
    state: dict


@dataclass(frozen=True)
class Persistent:
    id_: tuple


def pickled(value) -> bytes:
    return b"\x80\x04" + _emit(value) + b"."


def _emit(value) -> bytes:  # noqa: C901, PLR0911, PLR0912 -- one line per kind of value
    match value:
        case None:
            return b"N"
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            data = value.to_bytes(9, "little", signed=True)
            return b"\x8a\x09" + data
        case float():
            return b"G" + struct.pack(">d", value)
        case str():
            data = value.encode()
            return b"X" + struct.pack("<I", len(data)) + data
        case bytes():
            return b"B" + struct.pack("<I", len(value)) + value
        case list():
            return b"](" + b"".join(map(_emit, value)) + b"e"
        case tuple():
            return b"(" + b"".join(map(_emit, value)) + b"t"
        case dict():
            return b"}(" + b"".join(_emit(key) + _emit(each) for key, each in value.items()) + b"u"
        case Global():
            return f"c{value.module}\n{value.name}\n".encode()
        case Call():
            return _emit(value.function) + _emit(value.arguments) + b"R"
        case Instance():
            return _emit(value.kind) + b")\x81" + _emit(value.state) + b"b"
        case Persistent():
            return _emit(value.id_) + b"Q"
    raise TypeError(value)


# torch.save


@dataclass(frozen=True)
class Tensor:
    """`claims`: how many elements its storage says it has."""

    key: str
    claims: int
    kind: str = "FloatStorage"


def with_tensors(value):
    """The same with each Tensor as torch pickles it."""
    if isinstance(value, Tensor):
        storage = Persistent(("storage", Global("torch", value.kind), value.key, "cpu", value.claims))
        rebuild = Global("torch._utils", "_rebuild_tensor_v2")
        return Call(rebuild, (storage, 0, (value.claims,), (1,), False, None))
    if isinstance(value, dict):
        return {key: with_tensors(each) for key, each in value.items()}
    if isinstance(value, list):
        return [with_tensors(each) for each in value]
    return value


FULL = {
    "model": {"w": Tensor("0", 1000)},
    "optimizer": {"state": {0: {"exp_avg": Tensor("1", 1000)}}, "param_groups": [{"lr": 0.1}]},
    "scheduler": {"last_epoch": 3, "_step_count": 4},
    "global_step": 1234,
    "epoch": 3,
    "rng_state": Tensor("2", 16, "ByteStorage"),
}
STORAGES = {"0": bytes(range(256)) * 15 + bytes(160), "1": b"\x01" * 4000, "2": b"\x02" * 16}


def archive(value=FULL, storages=STORAGES, root="archive", extra=(), pickle_=None) -> bytes:
    """A file as torch.save writes it, with `extra` members on top."""
    members = [("data.pkl", pickled(with_tensors(value)) if pickle_ is None else pickle_), ("byteorder", b"little")]
    members += [(f"data/{key}", content) for key, content in storages.items()]
    members += [("version", b"3\n")]
    return zipped([*((f"{root}/{name}", content) for name, content in members), *extra])


def zipped(members, method=zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in members:
            file.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()


def without_crc(data: bytes) -> bytes:
    """The same archive as a writer that records no checksums leaves it."""
    out, at = bytearray(data), data.index(b"PK\x01\x02")
    while data[at : at + 4] == b"PK\x01\x02":
        out[at + 16 : at + 20] = bytes(4)
        lengths = struct.unpack_from("<HHH", data, at + 28)
        at += 46 + sum(lengths)
    return bytes(out)


# torch.distributed.checkpoint


def metadata(pieces: dict[str, tuple[str, int, int]], tensors=(), missing=()) -> bytes:
    """`pieces`: key → (shard, offset, length); `missing`: tensors that are named and stored nowhere."""
    module = "torch.distributed.checkpoint.metadata"

    def kind(key):
        if key not in tensors and key not in missing:
            return Instance(Global(module, "BytesStorageMetadata"), {})
        size = Call(Global("torch", "Size"), ((10,),))
        offsets = Call(Global("torch", "Size"), ((0,),))
        chunk = Instance(Global(module, "ChunkStorageMetadata"), {"offsets": offsets, "sizes": size})
        return Instance(Global(module, "TensorStorageMetadata"), {"size": size, "chunks": [chunk]})

    def index(key):
        offset = Call(Global("torch", "Size"), ((0,),)) if key in tensors else None
        return Instance(Global(module, "MetadataIndex"), {"fqn": key, "offset": offset, "index": 0})

    where = Global("torch.distributed.checkpoint.filesystem", "_StorageInfo")
    # A dict whose keys are objects, written by hand: the state above cannot be hashed.
    stored = (
        b"}("
        + b"".join(
            _emit(index(key)) + _emit(Instance(where, {"relative_path": path, "offset": offset, "length": length}))
            for key, (path, offset, length) in pieces.items()
        )
        + b"u"
    )
    state = b"}(" + _emit("state_dict_metadata") + _emit({key: kind(key) for key in [*pieces, *missing]})
    state += _emit("storage_data") + stored + b"u"
    return b"\x80\x04" + _emit(Global(module, "Metadata")) + b")\x81" + state + b"b."


KEYS = ("model.w", "optim.state.0.exp_avg", "lr_scheduler.last_epoch", "dataloader.pos")


def distributed(end: int, shards=("__0_0.distcp", "__1_0.distcp")) -> bytes:
    """Metadata of shards that all end at `end`."""
    pieces = {}
    for place, key in enumerate(KEYS):
        length = end // len(KEYS) if place < len(KEYS) - 1 else end - end // len(KEYS) * (len(KEYS) - 1)
        pieces |= {
            f"{key}.{n}" if n else key: (shard, end // len(KEYS) * place, length) for n, shard in enumerate(shards)
        }
    return metadata(pieces, tensors=[key for key in pieces if key.startswith(("model", "optim"))])


# Stores


@dataclass
class Made:
    """Files in memory. `broken`: path → why it cannot be read."""

    contents: dict[str, bytes] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    omitted: tuple[Omitted, ...] = ()
    broken: dict[str, Why] = field(default_factory=dict)
    uploads: bool = False
    read_bytes: int = 0

    def put(self, path: str, content: bytes, at: float | str = NOON - 3600) -> "Made":
        self.contents[path] = content
        self.times[path] = clock(at) if isinstance(at, str) else at
        return self

    def listing(self) -> Listing:
        files = [
            File(path, len(content), self.times[path], str(zlib.crc32(content)))
            for path, content in self.contents.items()
        ]
        return Listing(tuple(sorted(files, key=lambda file: file.path)), self.omitted, self.uploads)

    def read(self, file: File, offset: int, length: int) -> bytes:
        if file.path in self.broken:
            raise Unreadable(file.path, self.broken[file.path])
        piece = self.contents[file.path][offset : offset + length]
        assert len(piece) == length > 0
        self.read_bytes += length
        return piece

    def units(self, name: str = ""):
        return list(units(Folder.of(self.listing()), name))

    def judged(self, name: str = "", limits=QUICK) -> dict:
        """Every checkpoint by its path."""
        return {u.path: judge(u, Look(self, limits), uploads=self.uploads) for u in self.units(name)}

    def one(self, name: str = ""):
        (found,) = self.judged(name).values()
        return found


def single(content: bytes, name: str = "model.pt"):
    """The verdict on one file."""
    return Made().put(name, content).one()


def signs(found) -> set[str]:
    return {note.sign.value for note in found.notes}
