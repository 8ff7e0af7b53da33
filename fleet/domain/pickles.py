"""Pickles, read without unpickling: keys, numbers and shapes come out, and nothing is imported, called or built.

Owns the opcodes of protocols 0 to 5 (source: CPython's pickletools) over `pickle_machine`. Must not walk what was built: a few
bytes of pickle can stand for 10^9 leaves, so references stay shared and every reader of a result bounds its own steps.
"""

import re
import struct
from collections.abc import Callable
from typing import Final

from fleet.domain.checkpoint_files import Look, beyond, contradicts, ends_early
from fleet.domain.pickle_machine import Machine, Opaque, Storage, Value


class Pickle:
    """One pickle that was read: its value, the globals it names, the storages it refers to, and where it ends."""

    __slots__ = ("end", "globals", "storages", "value")

    def __init__(self, value: Value, globals_: set[str], storages: list[Storage], end: int) -> None:
        self.value, self.globals, self.storages, self.end = value, globals_, storages, end


def read(data: bytes, look: Look, start: int = 0) -> Pickle:
    """The first pickle at `start`. Raises Finding: it ends early, is malformed, or is beyond a limit of the look."""
    machine = Machine(data, look, start)
    try:
        _run(machine, look)
    except (IndexError, struct.error):
        raise ends_early("the pickle stops in the middle") from None
    return Pickle(machine.result, machine.globals, machine.storages, machine.at)


def _run(machine: Machine, look: Look) -> None:  # noqa: C901, PLR0912, PLR0915 -- calls are dear here
    """The opcodes one after another; the commonest, which only push and store, without a call."""
    data, stack, marks, memo, most_text = (
        machine.data,
        machine.stack,
        machine.marks,
        machine.memo,
        look.limits.text_bytes,
    )
    at, cost = machine.at, 0
    count, more, most = 0, 0, look.limits.opcodes - look.opcodes
    try:
        for count in range(1, most + 1):
            opcode = data[at]
            if opcode == _BINGET and data[at + 1] in memo:
                stack.append(memo[data[at + 1]])
                cost += 16
                at += 2
            elif opcode == _BINPUT:
                memo[data[at + 1]] = stack[-1]
                cost += 100
                at += 2
            elif opcode == _BININT1:
                stack.append(data[at + 1])
                cost += 16
                at += 2
            elif opcode == _MARK:
                marks.append(len(stack))
                cost += 40
                at += 1
            elif opcode in _CONSTANTS:
                stack.append(_CONSTANTS[opcode])
                cost += 16
                at += 1
            elif opcode == _LONG1 and (run := _NUMBERS.match(data, at)):
                numbers = _numbers(run[0])
                stack += numbers
                cost += 64 * len(numbers)
                more += len(numbers) - 1
                at = run.end()
            elif opcode == _LONG1 and (length := data[at + 1]) <= _LONGEST:
                stack.append(int.from_bytes(data[at + 2 : at + 2 + length], "little", signed=True))
                cost += 64
                at += 2 + length
            elif opcode == _BININT:
                stack.append(int.from_bytes(data[at + 1 : at + 5], "little", signed=True))
                cost += 40
                at += 5
            elif opcode == _BINUNICODE and (length := int.from_bytes(data[at + 1 : at + 5], "little")) <= most_text:
                stack.append(text := data[at + 5 : at + 5 + length].decode("utf-8", "replace"))
                cost += 64 + length * (1 if text.isascii() else 4)
                at += 5 + length
            elif opcode == _STOP and count + more <= most:
                machine.result, machine.at = machine.pop(), at + 1
                return
            elif opcode == _STOP:
                break
            else:
                machine.at = at + 1
                if (handler := _HANDLERS.get(opcode)) is None:
                    raise contradicts(f"no pickle: opcode {opcode:#04x} at byte {at}")
                handler(machine)
                at = machine.at
            if cost > _OFTEN:
                machine.spend(cost)
                cost = 0
                if count + more > most:
                    break
    finally:
        look.opcodes += count + more
    raise beyond(f"more than {look.limits.opcodes} opcodes of pickle")


# Bytes that may be spent before it is asked whether there is still room.
_OFTEN: Final = 500_000
_BINPUT, _BINGET, _BININT1, _BININT, _BINUNICODE, _LONG1, _MARK, _STOP = b"qhKJX\x8a(."
_CONSTANTS: Final = {b"N"[0]: None, 0x88: True, 0x89: False, b")"[0]: ()}
_LONGEST: Final = 64  # bytes of a number; a longer one stays opaque
# The numbers of a generator's state, many one after another: 32 bits each, none of them negative.
_NUMBERS: Final = re.compile(rb"(?s:J.{3}[\x00-\x7f]|\x8a\x05.{4}\x00){4,4096}")
# One of such a run, in which no zero follows a J and its number.
_NUMBER: Final = re.compile(rb"(?s)(?:J|\x8a\x05)(.{4})\x00?")
Handler = Callable[[Machine], None]
_HANDLERS: Final[dict[int, Handler]] = {}


def _numbers(run: bytes) -> tuple[int, ...]:
    found = _NUMBER.findall(run)
    return struct.unpack(f"<{len(found)}I", b"".join(found))


def _text(data: bytes | Opaque) -> Value:
    return data if isinstance(data, Opaque) else data.decode("utf-8", "replace")


def _pushing(code: bytes, make: Callable[[Machine], Value], cost: int = 16) -> None:
    def handler(machine: Machine) -> None:
        machine.push(make(machine), cost)

    _HANDLERS[code[0]] = handler


def _integer(text: bytes) -> Value:
    text = text.removesuffix(b"L")
    if text in {b"00", b"01"}:
        return text == b"01"
    if len(text) > 64 or not text.removeprefix(b"-").isdigit():
        return Opaque("number")
    return int(text)


def _long(machine: Machine, width: int) -> Value:
    data = machine.span(width, "number")
    return int.from_bytes(data, "little", signed=True) if isinstance(data, bytes) and len(data) <= _LONGEST else data


def _float(text: bytes) -> Value:
    try:
        return float(text)
    except ValueError:
        raise contradicts("a number of the pickle is none") from None


_pushing(b"N", lambda _: None)
_pushing(b"\x88", lambda _: True)
_pushing(b"\x89", lambda _: False)
_pushing(b"K", Machine.byte)
_pushing(b"M", lambda m: m.number(2), 32)
_pushing(b"J", lambda m: int.from_bytes(m.take(4), "little", signed=True), 40)
_pushing(b"I", lambda m: _integer(m.line()), 64)
_pushing(b"L", lambda m: _integer(m.line()), 64)
_pushing(b"\x8a", lambda m: _long(m, 1), 128)
_pushing(b"\x8b", lambda m: _long(m, 4), 128)
_pushing(b"F", lambda m: _float(m.line()), 40)
_pushing(b"G", lambda m: struct.unpack(">d", m.take(8))[0], 40)
_pushing(b"]", lambda _: [], 72)
_pushing(b"}", lambda _: {}, 80)
_pushing(b")", lambda _: ())
_pushing(b"\x8f", lambda _: Opaque("builtins set"), 120)


def _width_of(value: str | bytes) -> int:
    return 1 if value.isascii() else 4


def _string(code: bytes, take: Callable[[Machine], bytes | Opaque], text: bool) -> None:
    def handler(machine: Machine) -> None:
        data = take(machine)
        value = _text(data) if text else data
        machine.push(value, 80 if isinstance(value, Opaque) else 64 + len(value) * _width_of(value))

    _HANDLERS[code[0]] = handler


_string(b"S", lambda m: m.line().strip(b"'\""), text=True)
_string(b"V", lambda m: m.line(), text=True)
for _code, _width, _is_text in (
    *((b"T", 4, True), (b"U", 1, True), (b"X", 4, True), (b"\x8c", 1, True), (b"\x8d", 8, True)),
    *((b"B", 4, False), (b"C", 1, False), (b"\x8e", 8, False), (b"\x96", 8, False)),
):
    _string(_code, lambda m, w=_width: m.span(w, "text"), text=_is_text)  # type: ignore[misc]


def _pop(machine: Machine) -> None:
    if machine.marks and machine.marks[-1] == len(machine.stack):
        machine.marks.pop()
    else:
        machine.pop()


def _protocol(machine: Machine) -> None:
    if (found := machine.number(1)) > 5:
        raise contradicts(f"pickle protocol {found} is not known")


def _tuple(machine: Machine) -> None:
    items = machine.since_mark()
    machine.push(tuple(items), 56 + 8 * len(items))


def _tuple_of(count: int) -> Handler:
    return lambda machine: machine.push(tuple(machine.last(count)), 56 + 8 * count)


def _list(machine: Machine) -> None:
    items = machine.since_mark()
    machine.push([], 72)
    machine.append(items)


def _dict(machine: Machine) -> None:
    items = machine.since_mark()
    machine.push({}, 80)
    machine.set_items(items)


def _set_item(machine: Machine) -> None:
    machine.set_items(machine.last(2))


def _frozen_set(machine: Machine) -> None:
    machine.push(Opaque("builtins frozenset", machine.since_mark()), 120)


def _reduce(machine: Machine) -> None:
    machine.call(*machine.last(2))


def _new_with_keywords(machine: Machine) -> None:
    function, args, _ = machine.last(3)
    machine.call(function, args)


def _object(machine: Machine) -> None:
    items = machine.since_mark()
    if not items:
        raise contradicts("an object of the pickle has no class")
    machine.call(items[0], tuple(items[1:]))


def _instance(machine: Machine) -> None:
    machine.global_(_text(machine.line()), _text(machine.line()))
    function = machine.pop()
    machine.call(function, tuple(machine.since_mark()))


def _stack_global(machine: Machine) -> None:
    machine.global_(*machine.last(2))


def _long_put(machine: Machine) -> None:
    machine.remember(int.from_bytes(machine.take(4), "little"))


def _index(line: bytes) -> int:
    if len(line) > 12 or not line.isdigit():
        raise contradicts("an index of the pickle is no number")
    return int(line)


_HANDLERS.update(
    {
        b"("[0]: Machine.mark,
        b"0"[0]: _pop,
        b"1"[0]: lambda m: m.since_mark().clear(),
        b"2"[0]: lambda m: m.push(m.top()),
        b"a"[0]: lambda m: m.append([m.pop()]),
        b"e"[0]: lambda m: m.append(m.since_mark()),
        0x90: lambda m: m.append(m.since_mark()),
        b"s"[0]: _set_item,
        b"u"[0]: lambda m: m.set_items(m.since_mark()),
        b"d"[0]: _dict,
        b"l"[0]: _list,
        b"t"[0]: _tuple,
        0x85: _tuple_of(1),
        0x86: _tuple_of(2),
        0x87: _tuple_of(3),
        0x91: _frozen_set,
        b"b"[0]: Machine.build,
        b"R"[0]: _reduce,
        0x81: _reduce,
        0x92: _new_with_keywords,
        b"o"[0]: _object,
        b"i"[0]: _instance,
        b"c"[0]: lambda m: m.global_(_text(m.line()), _text(m.line())),
        0x93: _stack_global,
        b"P"[0]: lambda m: m.persistent(_text(m.line())),
        b"Q"[0]: lambda m: m.persistent(m.pop()),
        b"g"[0]: lambda m: m.recall(_index(m.line())),
        b"h"[0]: lambda m: m.recall(m.byte()),
        b"j"[0]: lambda m: m.recall(m.number(4)),
        b"p"[0]: lambda m: m.remember(_index(m.line())),
        b"q"[0]: lambda m: m.remember(m.byte()),
        b"r"[0]: _long_put,
        0x94: lambda m: m.remember(len(m.memo)),
        0x80: _protocol,
        0x95: lambda m: m.skip(8),
        0x97: lambda m: m.push(Opaque("buffer"), 120),
        0x98: lambda m: m.push(m.pop()),
        0x82: lambda m: m.push(Opaque(f"extension {m.number(1)}"), 120),
        0x83: lambda m: m.push(Opaque(f"extension {m.number(2)}"), 120),
        0x84: lambda m: m.push(Opaque(f"extension {m.number(4)}"), 120),
    }
)
