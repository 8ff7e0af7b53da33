"""Plain values as YAML that people paste: block style, two spaces, what needs quotes quoted.

Owns writing only; nothing here reads YAML.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

Value = None | bool | int | float | str | Sequence["Value"] | Mapping[str, "Value"]

# Words that every YAML reader takes for text; the rest stands in JSON's quotes, which YAML reads.
_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(?:[:@][A-Za-z0-9_./-]+)*")
_SPECIAL: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})


def yaml(value: Value) -> str:
    """Ends without a line break."""
    return "\n".join(_lines(value))


def _lines(value: Value) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(f"{_scalar(key)}:", item)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for item in value:
            first, *rest = _lines(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _entry(key: str, item: Value) -> Iterator[str]:
    nested = bool(item) and isinstance(item, Mapping | Sequence) and not isinstance(item, str)
    if not nested or _is_flat(item):
        yield f"{key} {_flow(item)}"
        return
    yield key
    indent = "  " if isinstance(item, Mapping) else ""
    yield from (f"{indent}{line}" for line in _lines(item))


def _is_flat(item: Value) -> bool:
    """A list of words, such as a command, stands on one line."""
    return isinstance(item, Sequence) and not any(
        isinstance(each, Mapping | Sequence) and not isinstance(each, str) for each in item
    )


def _flow(item: Value) -> str:
    if isinstance(item, Sequence) and not isinstance(item, str):
        return f"[{', '.join(_quoted_in_flow(each) for each in item)}]"
    return "{}" if isinstance(item, Mapping) else _scalar(item)


def _quoted_in_flow(each: Value) -> str:
    return json.dumps(each, ensure_ascii=False) if isinstance(each, str) else _scalar(each)


def _scalar(value: Value) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _SPECIAL:
        return value
    return json.dumps(value, ensure_ascii=False)
