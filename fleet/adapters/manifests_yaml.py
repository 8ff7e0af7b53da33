"""YAML files of Kubernetes objects as plain values, each field with its line.

Owns reading the text: what kubectl makes of a scalar, aliases and merge keys, and the bounds that a hostile file meets. It builds
values from the parser's events, without recursion and without objects of any class, and refuses tags. Must not know a kind.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from fleet.domain.documents import Document, Unreadable
from fleet.domain.manifests import Path

MOST_BYTES: Final = 4 * 1024 * 1024
MOST_VALUES: Final = 200_000  # of a document, aliases counted out
MOST_DEPTH: Final = 64
MOST_DOCUMENTS: Final = 5_000

# What kubectl's YAML reader (a fork of go-yaml 2) takes for something else than text.
_TRUE: Final = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE: Final = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_WHOLE: Final = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]{1,32}|0[bB][01]{1,64}|0o?[0-7]{1,32}|0|[1-9][0-9]{0,30})")
_REAL: Final = re.compile(r"[-+]?(?:\.[0-9]{1,40}|[0-9]{1,40}(?:\.[0-9]{0,40})?)(?:[eE][-+]?[0-9]{1,3})?")
_TAGS: Final = "tag:yaml.org,2002:"
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(file: str, content: bytes) -> Iterator[Document]:
    """The documents of one file that are not empty. Raises Unreadable, with the line."""
    if len(content) > MOST_BYTES:
        raise Unreadable(f"more than {MOST_BYTES // 1024 // 1024} MiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable("not UTF-8", content.count(b"\n", 0, error.start) + 1) from None
    try:
        yield from _documents(file, text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(f"no YAML: {error.problem or error.context}", mark.line + 1 if mark else 0) from None
    except yaml.YAMLError as error:
        raise Unreadable(f"no YAML: {str(error).splitlines()[0][:200]}") from None


def _documents(file: str, text: str) -> Iterator[Document]:
    builder, count = _Builder(), 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.DocumentStartEvent):
            builder = _Builder()
        elif isinstance(event, yaml.DocumentEndEvent):
            count += 1
            if count > MOST_DOCUMENTS:
                raise Unreadable(f"more than {MOST_DOCUMENTS} documents", _line(event))
            if builder.root is not None:
                yield _document(file, builder)
        elif isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            builder.take(event)


def _document(file: str, builder: "_Builder") -> Document:
    line = builder.lines.get((), 0)
    if not isinstance(builder.root, dict):
        raise Unreadable("an object has to be a mapping", line)
    return Document(builder.root, file, line, builder.lines)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


class _Frame:
    """A mapping or list that is being filled."""

    def __init__(self, value: dict[str, Any] | list[Any], path: Path, anchor: str | None) -> None:
        self.value, self.path, self.anchor = value, path, anchor
        self.key: str | None = None  # of a mapping, until its value comes
        self.merges: list[Any] = []
        self.size, self.depth = 1, 1  # with what is in it, aliases counted out


class _Builder:
    """One document, from its events."""

    def __init__(self) -> None:
        self.root: Any = None
        self.lines: dict[Path, int] = {}
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int, int]] = {}  # value, how many values it is and how deep

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._open(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close(event)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise Unreadable("an alias of something that holds it, or that is nowhere", _line(event))
            self._put(*self._anchors[event.anchor], event)
        else:
            self._scalar(event)

    def _open(self, event: Any) -> None:
        if event.tag not in {None, "!", f"{_TAGS}map", f"{_TAGS}seq"}:
            raise Unreadable(f"a tag that Kubernetes does not know: {event.tag[:60]}", _line(event))
        if len(self._stack) >= MOST_DEPTH:
            raise Unreadable(f"nested more than {MOST_DEPTH} deep", _line(event))
        if self._stack and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None:
            raise Unreadable("a key has to be text", _line(event))
        path = self._path()
        self.lines.setdefault(path, _line(event))
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._stack.append(_Frame(value, path, event.anchor))

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        for merged in frame.merges:
            frame.value = {**merged, **frame.value} if isinstance(frame.value, dict) else frame.value
        if frame.anchor:
            self._anchors[frame.anchor] = frame.value, frame.size, frame.depth
        self._put(frame.value, frame.size, frame.depth, event)

    def _scalar(self, event: Any) -> None:
        frame = self._stack[-1] if self._stack else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            self._key(frame, event)
            return
        self.lines.setdefault(self._path(), _line(event))
        value = _value(event)
        if event.anchor:
            self._anchors[event.anchor] = value, 1, 0
        self._put(value, 1, 0, event)

    def _key(self, frame: _Frame, event: Any) -> None:
        key = str(event.value)
        if key in frame.value:
            raise Unreadable(f"the key {key[:60]!r} stands here twice", _line(event))
        frame.key = key
        self.lines[(*frame.path, key)] = _line(event)

    def _path(self) -> Path:
        if not self._stack:
            return ()
        frame = self._stack[-1]
        return (*frame.path, frame.key or "" if isinstance(frame.value, dict) else len(frame.value))

    def _put(self, value: Any, size: int, depth: int, event: Any) -> None:
        if not self._stack:
            self.root = value
            return
        frame = self._stack[-1]
        frame.size += size
        frame.depth = max(frame.depth, depth + 1)
        if frame.size > MOST_VALUES:
            raise Unreadable(f"more than {MOST_VALUES} values, aliases counted out", _line(event))
        if frame.depth > MOST_DEPTH:
            raise Unreadable(f"nested more than {MOST_DEPTH} deep, aliases counted out", _line(event))
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key is None:
            raise Unreadable("a key has to be text", _line(event))
        elif frame.key == "<<":
            frame.merges += _merged(value, _line(event))
            frame.key = None
        else:
            frame.value[frame.key] = value
            frame.key = None


def _merged(value: Any, line: int) -> list[dict[str, Any]]:
    """What `<<` brings in; of several the first wins."""
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in found):
        raise Unreadable("only mappings can be merged", line)
    return found


def _value(event: Any) -> Any:
    """What kubectl makes of a scalar; what it would take for a time stays text."""
    tag, text = event.tag, event.value
    if tag in {"!", f"{_TAGS}str"} or (tag is None and not event.implicit[0]):
        return text
    if tag is not None and tag not in {f"{_TAGS}{name}" for name in ("int", "float", "bool", "null")}:
        raise Unreadable(f"a tag that Kubernetes does not know: {tag[:60]}", _line(event))
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _WHOLE.fullmatch(text):
        return _whole(text)
    return float(text) if _REAL.fullmatch(text) else text


def _whole(text: str) -> int:
    digits = text.lstrip("+-")
    sign = -1 if text.startswith("-") else 1
    if len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567":
        return sign * int(digits, 8)
    return sign * int(digits, 0)
