"""The fields that each kind has and their types: finding unknown fields and values of the wrong type.

Owns the reading of schema.json, which tests/simulation/schema_from_models.py derives from the published models. Types:
s string, i integer, b boolean, f float, t time, q quantity, * anything, [x list of x, {x map of x, else a struct's
name. Kinds that are not in the schema are taken as they come.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

Object = dict[str, Any]

_INT64 = frozenset({
    "generation", "observedGeneration", "terminationGracePeriodSeconds", "activeDeadlineSeconds", "tolerationSeconds",
    "deletionGracePeriodSeconds", "gracePeriodSeconds", "runAsUser", "runAsGroup", "fsGroup", "expirationSeconds",
    "startingDeadlineSeconds",
})  # fmt: skip
_GO_TYPES = {"s": "string", "b": "bool", "f": "float64", "t": "string"}


@cache
def structs() -> dict[str, dict[str, str]]:
    """Struct name → JSON field → type."""
    raw = (Path(__file__).parent / "schema.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, dict[str, str]])


def unknown_fields(kind: str, obj: Object) -> list[str]:
    """Paths of fields that the kind does not have, as warnings name them."""
    return list(_unknown(kind, obj, "")) if kind in structs() else []


def _unknown(kind: str, value: Any, path: str) -> list[str]:
    if value is None:
        return []
    if kind[0] == "[" and isinstance(value, list):
        return [p for i, v in enumerate(value) for p in _unknown(kind[1:], v, f"{path}[{i}]")]
    if kind[0] == "{" and isinstance(value, dict):
        return [p for k, v in value.items() for p in _unknown(kind[1:], v, f"{path}.{k}")]
    fields = structs().get(kind)
    if fields is None or not isinstance(value, dict):
        return []
    found: list[str] = []
    for name, child in value.items():
        below = f"{path}.{name}" if path else name
        if name not in fields:
            found.append(below)
        elif name != "managedFields":
            found += _unknown(fields[name], child, below)
    return found


def without_unknown(kind: str, value: Any) -> Any:
    """A copy that lacks what the kind does not have: the server drops it silently or with a warning.

    Quantities that came as numbers become text, as the server shows them.
    """
    if value is None:
        return value
    if kind == "q" and isinstance(value, int | float):
        return str(value)
    if kind[0] == "[" and isinstance(value, list):
        return [without_unknown(kind[1:], v) for v in value]
    if kind[0] == "{" and isinstance(value, dict):
        return {k: without_unknown(kind[1:], v) for k, v in value.items()}
    fields = structs().get(kind)
    if fields is None or not isinstance(value, dict):
        return value
    return {k: v if k == "managedFields" else without_unknown(fields[k], v) for k, v in value.items() if k in fields}


def type_error(kind: str, obj: Object) -> str:
    """Go's words for the first value of a wrong type; empty when all fit."""
    return _mismatch(kind, obj, kind, "", "") if kind in structs() else ""


def _mismatch(kind: str, value: Any, struct: str, path: str, field: str) -> str:
    if value is None or kind in {"*", "q"}:
        return ""
    if not _fits(kind, value):
        return _words(value, f"{struct}.{path}" if path else struct, _go_type(kind, field))
    if kind[0] in "[{":
        inner = value if kind[0] == "[" else value.values()
        return next((e for v in inner if (e := _mismatch(kind[1:], v, struct, path, field))), "")
    return _first_in(kind, value, path) if kind in structs() else ""


def _first_in(kind: str, value: Object, path: str) -> str:
    fields = structs()[kind]
    for name, child in value.items():
        if name in fields and name != "managedFields":
            error = _mismatch(fields[name], child, kind, f"{path}.{name}" if path else name, name)
            if error:
                return error
    return ""


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {"s": (str,), "t": (str,), "b": (bool,), "i": (int,), "f": (int, float)}


def _fits(kind: str, value: Any) -> bool:
    """Whether the value itself is of the type; what is in it is looked at apart."""
    if kind[0] == "[":
        return isinstance(value, list)
    wanted = _PYTHON_TYPES.get(kind, (dict,))
    return isinstance(value, wanted) and (kind == "b" or not isinstance(value, bool))


def _go_type(kind: str, field: str) -> str:
    if kind == "i":
        return "int64" if field in _INT64 else "int32"
    if kind[0] == "[":
        return f"[]{_go_type(kind[1:], field)}"
    if kind[0] == "{":
        return f"map[string]{_go_type(kind[1:], field)}"
    return _GO_TYPES.get(kind, f"v1.{kind}")


def _words(value: Any, where: str, wanted: str) -> str:
    found = {str: "string", bool: "bool", dict: "object", list: "array"}.get(type(value))
    shown = found or ("number" if isinstance(value, int) else f"number {value}")
    return f"json: cannot unmarshal {shown} into Go struct field {where} of type {wanted}"


_OFFSET = re.compile(r"\(byte (\d+)\)")


def json_error(body: bytes, error: Exception) -> str:
    """Go's words for malformed JSON, from msgspec's."""
    text = str(error)
    match = _OFFSET.search(text)
    if match is None or int(match.group(1)) >= len(body):
        return "unexpected end of JSON input"
    character = body[int(match.group(1)) :].decode("latin-1")[:1]
    if "object keys" in text:
        return f"invalid character '{character}' looking for beginning of object key string"
    if "trailing" in text:
        return f"invalid character '{character}' after top-level value"
    return f"invalid character '{character}' looking for beginning of value"
