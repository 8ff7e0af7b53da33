"""Documents of plain values, as a YAML file or the API server has them, made into the objects that rules read.

Owns what is refused and with which line: no object, a field of the wrong type, a value that is none. Reads no text: a document
comes as plain values, with the line of each field. Must not judge an object.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from fleet.domain.kube import without_nulls
from fleet.domain.manifests import KINDS, Amount, Deployment, Manifest, Path, apart, containers, is_amount, template
from fleet.domain.objects import Budget, LabelSelector, Metadata, Object
from fleet.domain.quantities import is_quantity

MOST_LIST_DEPTH: Final = 8  # of a List of Lists
_QUANTITIES: Final = frozenset({"requests", "limits", "capacity", "overhead"})
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_STEP: Final = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]")


class Unreadable(ValueError):  # noqa: N818 -- it says what the document is
    """No manifest of its kind. `line`: where, 0 unknown."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class Document(Struct, frozen=True):
    """One document of a file as plain values; `lines`: where each field begins, by its path. `file` "": from an API server."""

    value: Mapping[str, Any]
    file: str = ""
    line: int = 0
    lines: Mapping[Path, int] = {}


def read(document: Document) -> Iterator[Manifest]:
    """The objects of one document that any rule reads; a List gives its items, other kinds give nothing. Raises Unreadable."""
    yield from _read(document, document.value, (), 0)


def _read(document: Document, value: Any, root: Path, depth: int) -> Iterator[Manifest]:
    line = document.lines.get(root, document.line)
    if not isinstance(value, Mapping):
        raise Unreadable("an object has to be a mapping", line)
    kind, version = value.get("kind"), value.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        raise Unreadable("no Kubernetes object: it has no kind and apiVersion", line)
    items = value.get("items")
    if kind.endswith("List") and isinstance(items, list):
        if depth >= MOST_LIST_DEPTH:
            raise Unreadable("Lists in Lists, too deep", line)
        for i, item in enumerate(items):
            yield from _read(document, item, (*root, "items", i), depth + 1)
    elif (type_ := KINDS.get((version.rpartition("/")[0], kind))) is not None:
        found = _converted(document, value, root, type_)
        yield Manifest(found, document.file, line, document.lines, root)


def _converted(document: Document, value: Mapping[str, Any], root: Path, type_: type[Object]) -> Object:
    plain = quantities_as_text(without_nulls(dict(value)))
    place = Manifest(Object(Metadata()), document.file, document.line, document.lines, root)
    try:
        found = msgspec.convert(plain, type_)
    except msgspec.ValidationError as error:
        sentence, _, where = str(error).partition(" - at `$")
        path = tuple(name or int(number) for name, number in _STEP.findall(where))
        named = where.removesuffix("`").lstrip(".")
        told = f"{named}: {sentence}" if named else sentence
        raise Unreadable(told, place.line_of(path)) from None
    for path, told in _mistakes(found):
        raise Unreadable(told, place.line_of(path))
    return found


def _mistakes(found: Object) -> Iterator[tuple[Path, str]]:
    """Values of the right type that are none all the same."""
    for path, selector in _selectors(found):
        if any(each.operator not in _OPERATORS for each in selector.match_expressions):
            yield path, "a selector's operator has to be In, NotIn, Exists or DoesNotExist"
    for path, amount in _amounts(found):
        if not is_amount(amount):
            yield path, f"neither a count nor a percentage: {str(amount)[:40]!r}"
    at, shape = template(found)
    for path, container in containers(at, shape.spec) if shape else ():
        for name, text in (*container.resources.requests.items(), *container.resources.limits.items()):
            if not is_quantity(text):
                yield (*path, "resources"), f"{name}: not a quantity: {text[:40]!r}"


def _selectors(found: Object) -> Iterator[tuple[Path, LabelSelector]]:
    if isinstance(found, Budget) and found.spec.selector is not None:
        yield ("spec", "selector"), found.spec.selector
    at, shape = template(found)
    if shape is None:
        return
    for i, spread in enumerate(shape.spec.topology_spread_constraints):
        if spread.label_selector is not None:
            yield (*at, "spec", "topologySpreadConstraints", i), spread.label_selector
    for term in apart(shape.spec):
        if term.label_selector is not None:
            yield (*at, "spec", "affinity", "podAntiAffinity"), term.label_selector


def _amounts(found: Object) -> Iterator[tuple[Path, Amount | None]]:
    if isinstance(found, Budget):
        yield ("spec", "minAvailable"), found.spec.min_available
        yield ("spec", "maxUnavailable"), found.spec.max_unavailable
    if isinstance(found, Deployment):
        rolling, at = found.spec.strategy.rolling_update, ("spec", "strategy", "rollingUpdate")
        yield (*at, "maxSurge"), rolling.max_surge
        yield (*at, "maxUnavailable"), rolling.max_unavailable


def quantities_as_text(value: Any) -> Any:
    """Quantities may be written as numbers (`nvidia.com/gpu: 1`); the API has them as text."""
    if isinstance(value, list):
        return [quantities_as_text(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: _text(amount) for name, amount in item.items()}
        if key in _QUANTITIES and isinstance(item, dict)
        else quantities_as_text(item)
        for key, item in value.items()
    }


def _text(amount: Any) -> Any:
    return str(amount) if isinstance(amount, int | float) and not isinstance(amount, bool) else amount
