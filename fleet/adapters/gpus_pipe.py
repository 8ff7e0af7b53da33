"""What the agent and its reading process say to each other, over two pipes.

Owns the messages and their framing: four bytes of length, then msgpack. Must not know NVML or processes.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

from fleet.domain.gpus import DriverStatus, Gpu

LENGTH_BYTES: Final = 4
MOST_BYTES: Final = 1 << 20  # of one message: a GPU with a thousand processes has a tenth of it


class Ask(Struct, frozen=True, array_like=True):
    """To the process: read a round. `only` one GPU, or all but those in `skip`.

    `skip` counts while the driver has `count` GPUs: with another number of them an index may mean another GPU.
    """

    skip: tuple[int, ...] = ()
    count: int | None = None
    only: int | None = None

    def indices(self, count: int) -> list[int]:
        """Which GPUs to read, in this order, when the driver has `count`."""
        skipped = self.skip if self.count == count else ()
        return [index for index in range(count) if index not in skipped and self.only in {None, index}]


class Driver(Struct, frozen=True, tag=True):
    """The answer's head. With a status that is not OK the process says nothing else, and ends."""

    status: DriverStatus
    error: str = ""
    driver: str = ""
    cuda: str = ""
    nvml: str = ""
    count: int | None = None


class Met(Struct, frozen=True, tag=True):
    """Who a GPU is, before the rest of it is asked: said once, for the case that it never answers."""

    gpu: Gpu


class Measured(Struct, frozen=True, tag=True):
    """One GPU, as soon as it is read. GPUs come in the order of their indices: the next one is being read now."""

    gpu: Gpu


class Done(Struct, frozen=True, tag=True):
    """The answer's end."""


Message = Driver | Met | Measured | Done

_encode = msgspec.msgpack.Encoder().encode
_messages: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_asks = msgspec.msgpack.Decoder(Ask)


def framed(message: Ask | Message) -> bytes:
    packed = _encode(message)
    return len(packed).to_bytes(LENGTH_BYTES, "big") + packed


def asked(packed: bytes) -> Ask:
    """Raises msgspec.DecodeError."""
    return _asks.decode(packed)


def messages(buffer: bytearray) -> Iterator[Message]:
    """Takes every complete message out of `buffer`. Raises msgspec.DecodeError."""
    while len(buffer) >= LENGTH_BYTES:
        end = LENGTH_BYTES + int.from_bytes(buffer[:LENGTH_BYTES], "big")
        if end > MOST_BYTES:
            raise msgspec.DecodeError("what was said is no message")
        if len(buffer) < end:
            return
        packed = bytes(buffer[LENGTH_BYTES:end])
        del buffer[:end]
        yield _messages.decode(packed)
