"""A stack machine for pickles that makes dicts, lists, tuples and scalars, and an `Opaque` for everything else.

Owns what each operation does to the stack, and what that may cost. Must not import, call or build anything that a pickle names,
nor know which byte stands for which operation (`pickles`).
"""

from typing import Any, Final

from msgspec import Struct

from fleet.domain.checkpoint_files import Look, beyond, contradicts, ends_early, refused

Value = Any  # dict, list, tuple, str, bytes, int, float, bool, None, Opaque or Storage

MOST_NAME: Final = 300  # characters of a global
MOST_GLOBALS: Final = 400  # different ones; checkpoints name a dozen

_DICTS: Final = {"collections OrderedDict", "collections defaultdict", "builtins dict"}
_PARAMETERS: Final = {"torch._utils _rebuild_parameter", "torch._utils _rebuild_parameter_with_state"}


class Opaque(Struct, eq=False):
    """Something that only unpickling would make: a global, or what calling one would give."""

    name: str  # "module qualname"
    args: Value = ()
    state: Value = None
    items: Value = None  # what was set or appended: dict or list

    def field(self, name: str) -> Value:
        """An attribute that its state gives it; None without."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2:  # (__dict__, slots)
            state = next((part for part in state if isinstance(part, dict)), None)
        return state.get(name) if isinstance(state, dict) else None


class Storage(Struct, eq=False, gc=False):
    """A persistent id as torch writes it: which type, which member of the archive, how many elements."""

    kind: str
    key: str
    count: int


class Machine:
    """Reads `data` from `start` within the limits of the look, which it charges for opcodes."""

    def __init__(self, data: bytes, look: Look, start: int) -> None:
        self.data, self.at = data, start
        self.limits = look.limits
        self.stack: list[Value] = []
        self.marks: list[int] = []  # depths of the stack
        self.memo: dict[int, Value] = {}
        self.globals: set[str] = set()
        self.storages: list[Storage] = []
        self.result: Value = None
        self._left = look.limits.object_bytes

    # Reading arguments

    def take(self, length: int) -> bytes:
        end = self.at + length
        if length < 0 or end > len(self.data):
            raise ends_early("the pickle stops in the middle")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def skip(self, length: int) -> None:
        if self.at + length > len(self.data):
            raise ends_early("the pickle stops in the middle")
        self.at += length

    def number(self, width: int) -> int:
        begin = self.at
        self.at = end = begin + width
        if end > len(self.data):
            raise ends_early("the pickle stops in the middle")
        return int.from_bytes(self.data[begin:end], "little")

    def byte(self) -> int:
        """Raises IndexError at the end."""
        self.at += 1
        return self.data[self.at - 1]

    def line(self) -> bytes:
        end = self.data.find(b"\n", self.at, self.at + self.limits.text_bytes)
        if end < 0:
            raise contradicts("a line of the pickle is too long or has no end")
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece

    def span(self, width: int, kind: str) -> bytes | Opaque:
        """A counted string; one that is too long is passed over and stays opaque."""
        length = self.number(width)
        if length > self.limits.text_bytes:
            self.skip(length)
            return Opaque(kind, length)
        return self.take(length)

    # The stack

    def spend(self, cost: int) -> None:
        """Account for memory, in bytes as estimated. Raises Finding when it would be too much."""
        self._left -= cost
        if self._left < 0:
            raise beyond(f"the pickle would build more than {self.limits.object_bytes} bytes")

    def push(self, value: Value, cost: int = 16) -> None:
        self._left -= cost  # as `spend`, without a call: this is done for almost every opcode
        if self._left < 0:
            self.spend(0)
        self.stack.append(value)

    def mark(self) -> None:
        self.spend(40)
        self.marks.append(len(self.stack))

    def pop(self) -> Value:
        if not self.stack or (self.marks and len(self.stack) <= self.marks[-1]):
            raise contradicts("the pickle takes what it did not put")
        return self.stack.pop()

    def last(self, count: int) -> list[Value]:
        """The last so many, in the order in which they were put."""
        stack = self.stack
        if len(stack) - count < (self.marks[-1] if self.marks else 0):
            raise contradicts("the pickle takes what it did not put")
        items = stack[-count:]
        del stack[-count:]
        return items

    def top(self) -> Value:
        value = self.pop()
        self.stack.append(value)
        return value

    def since_mark(self) -> list[Value]:
        if not self.marks:
            raise contradicts("the pickle takes what it did not put")
        depth = self.marks.pop()
        items = self.stack[depth:]
        del self.stack[depth:]
        return items

    # What objects would be made of

    def remember(self, index: int) -> None:
        if not self.stack:
            raise contradicts("the pickle stores what it did not put")
        self._left -= 100
        if self._left < 0:
            self.spend(0)
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> None:
        if index not in self.memo:
            raise contradicts("the pickle refers to what it did not store")
        self.push(self.memo[index])

    def global_(self, module: Value, name: Value) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise contradicts("a global of the pickle has no name")
        if len(module) + len(name) > MOST_NAME:
            raise refused("a global of the pickle has a name that is far too long")
        found = f"{module} {name}"
        self.globals.add(found)
        if len(self.globals) > MOST_GLOBALS:
            raise refused(f"the pickle names more than {MOST_GLOBALS} functions and classes")
        self.push(Opaque(found), 160 + 2 * len(found))

    def call(self, function: Value, args: Value) -> None:
        name = function.name if isinstance(function, Opaque) else "?"
        if name in _DICTS:
            self.push({}, 240)
        elif name in _PARAMETERS and isinstance(args, tuple) and args:
            self.push(args[0])
        else:
            self.push(Opaque(name, args), 120)

    def persistent(self, id_: Value) -> None:
        """Torch's are ("storage", class, key, where, count)."""
        if isinstance(id_, tuple) and len(id_) == 5 and id_[0] == "storage" and isinstance(id_[1], Opaque):
            _, kind, key, _, count = id_
            if isinstance(key, str) and isinstance(count, int):
                storage = Storage(kind.name, key, count)
                self.storages.append(storage)
                return self.push(storage, 120)
        return self.push(Opaque("persistent id", id_), 120)

    def set_items(self, items: list[Value]) -> None:
        if len(items) % 2:
            raise contradicts("a key of the pickle has no value")
        held = self.top()
        if isinstance(held, Opaque):
            held.items = held.items if isinstance(held.items, dict) else {}
            held = held.items
        if not isinstance(held, dict):
            raise contradicts("the pickle sets an item of what has none")
        self.spend(100 * len(items))
        for key, value in zip(items[::2], items[1::2], strict=True):
            held[key if isinstance(key, str) else _key(key)] = value

    def append(self, items: list[Value]) -> None:
        held = self.top()
        if isinstance(held, Opaque):
            held.items = held.items if isinstance(held.items, list) else []
            held = held.items
        if not isinstance(held, list):
            raise contradicts("the pickle appends to what is no list")
        self.spend(8 * len(items))
        held.extend(items)

    def build(self) -> None:
        state = self.pop()
        held = self.top()
        if isinstance(held, Opaque):
            held.state = state


def _key(value: Value) -> Value:
    """A key that costs as little to compare as it looks: nothing nested, no number that was made to collide."""
    if value is None or isinstance(value, str | bytes | bool | Opaque):
        return value
    if isinstance(value, int) and abs(value) < 2**31:
        return value
    if isinstance(value, dict | list):
        raise contradicts("a key of the pickle cannot be one")
    return Opaque("key", value)
