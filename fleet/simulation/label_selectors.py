"""Label and field selectors: parsing them as the API server does, with its error texts, and matching objects.

Owns the grammar and which fields of a kind can be selected by. Must not read the store.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.simulation.refusals import bad_request

Labels = Mapping[str, str]
Object = dict[str, Any]

_TOKEN = re.compile(r"\s*(!=|==|=|!|\(|\)|,|<|>|[^\s!=(),<>]+)")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


@dataclass(frozen=True)
class Requirement:
    """`operator` is one of =, !=, in, notin, exists, !exists, <, >."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!exists":
                return value is None
            case "=" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case _:
                return _compares(value, self.operator, self.values[0])


def _compares(value: str | None, operator: str, bound: str) -> bool:
    try:
        number, limit = int(value or ""), int(bound)
    except ValueError:
        return False
    return number > limit if operator == ">" else number < limit


@dataclass(frozen=True)
class LabelSelector:
    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def of(cls, labels: Labels) -> "LabelSelector":
        return cls(tuple(Requirement(k, "=", (v,)) for k, v in labels.items()))

    @classmethod
    def parse(cls, text: str) -> "LabelSelector":
        """From a query parameter; ApiError 400 with the server's text."""
        return cls(tuple(_Parser(text).requirements()))

    @classmethod
    def from_object(cls, selector: Object) -> "LabelSelector":
        """From a LabelSelector in an object: matchLabels and matchExpressions."""
        operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!exists"}
        found = [Requirement(k, "=", (v,)) for k, v in (selector.get("matchLabels") or {}).items()]
        found += [
            Requirement(e["key"], operators[e["operator"]], tuple(e.get("values") or ()))
            for e in selector.get("matchExpressions") or ()
        ]
        return cls(tuple(found))

    def matches(self, labels: Labels) -> bool:
        return all(r.matches(labels) for r in self.requirements)


class _Parser:
    """Recursive descent over `key`, `!key`, `key op value` and `key in (a,b)`, joined by commas."""

    def __init__(self, text: str) -> None:
        self.tokens = self._split(text)
        self.at = 0

    @staticmethod
    def _split(text: str) -> list[str]:
        tokens, at = [], 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise bad_request(f"unable to parse requirement: found '{text[at]}'")
            tokens.append(match.group(1))
            at = match.end()
        return tokens

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def fail(self, found: str, expected: str) -> Exception:
        return bad_request(f"unable to parse requirement: found '{found}', expected: {expected}")

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self.at < len(self.tokens):
            found.append(self.requirement())
            if self.at < len(self.tokens) and self.take() != ",":
                raise self.fail(self.tokens[self.at - 1], "',' or 'end of string'")
            if self.at == len(self.tokens) and self.tokens[-1] == ",":
                raise self.fail("", "identifier after ','")
        return found

    def key(self) -> str:
        token = self.take()
        name = token.rpartition("/")[2]
        if not token or not _NAME.fullmatch(name) or len(name) > 63:
            raise self.fail(token, "!, identifier, or 'end of string'")
        return token

    def requirement(self) -> Requirement:
        if self.peek() == "!":
            self.take()
            return Requirement(self.key(), "!exists")
        key = self.key()
        operator = self.peek()
        if operator in {"", ","}:
            return Requirement(key, "exists")
        self.take()
        if operator in {"in", "notin"}:
            return Requirement(key, operator, self.values())
        if operator in {"=", "==", "!=", "<", ">"}:
            value = "" if self.peek() in {"", ","} else self.take()
            return Requirement(key, "=" if operator == "==" else operator, (self.checked(value),))
        raise self.fail(operator, "in, notin, =, ==, !=, gt, lt")

    def values(self) -> tuple[str, ...]:
        if self.take() != "(":
            raise self.fail(self.tokens[self.at - 1] if self.at <= len(self.tokens) else "", "'('")
        found: list[str] = []
        while True:
            word = self.take()
            if word == ")":
                return tuple(found)
            if word == ",":
                continue
            if not word:
                raise self.fail("", "',' or ')'")
            found.append(self.checked(word))
            if self.peek() not in {",", ")"}:
                raise self.fail(self.peek(), "',' or ')'")

    @staticmethod
    def checked(value: str) -> str:
        if value and not _NAME.fullmatch(value):
            raise bad_request(
                f'unable to parse requirement: values[0][]: Invalid value: "{value}": a valid label must be an '
                "empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
                "an alphanumeric character"
            )
        return value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _at(*path: str) -> Callable[[Object], str]:
    def read(obj: Object) -> str:
        value: Any = obj
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return _text(value)

    return read


def _flag(*path: str) -> Callable[[Object], str]:
    read = _at(*path)
    return lambda obj: read(obj) or "false"


def _number(*path: str) -> Callable[[Object], str]:
    read = _at(*path)
    return lambda obj: read(obj) or "0"


def _event_source(obj: Object) -> str:
    return _text((obj.get("source") or {}).get("component")) or _text(obj.get("reportingComponent"))


_PLAIN = {"metadata.name": _at("metadata", "name"), "metadata.namespace": _at("metadata", "namespace")}
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

# Fields by which a kind can be selected, besides name and namespace.
FIELDS: dict[str, dict[str, Callable[[Object], str]]] = {
    "nodes": {"spec.unschedulable": _flag("spec", "unschedulable")},
    "pods": {
        "spec.nodeName": _at("spec", "nodeName"),
        "spec.restartPolicy": _at("spec", "restartPolicy"),
        "spec.schedulerName": _at("spec", "schedulerName"),
        "spec.serviceAccountName": _at("spec", "serviceAccountName"),
        "spec.hostNetwork": _flag("spec", "hostNetwork"),
        "status.phase": _at("status", "phase"),
        "status.podIP": _at("status", "podIP"),
        "status.podIPs": _at("status", "podIP"),
        "status.nominatedNodeName": _at("status", "nominatedNodeName"),
    },
    "events": {
        **{f"involvedObject.{f}": _at("involvedObject", f) for f in _INVOLVED},
        "reason": _at("reason"),
        "reportingComponent": _at("reportingComponent"),
        "source": _event_source,
        "type": _at("type"),
    },
    "events.events.k8s.io": {
        **{f"regarding.{f}": _at("involvedObject", f) for f in _INVOLVED},
        "reason": _at("reason"),
        "reportingController": _event_source,
        "type": _at("type"),
    },
    "namespaces": {"status.phase": _at("status", "phase")},
    "secrets": {"type": _at("type")},
    "replicasets": {"status.replicas": _number("status", "replicas")},
    "replicationcontrollers": {"status.replicas": _number("status", "replicas")},
    "jobs": {"status.successful": _number("status", "succeeded")},
    "services": {"spec.clusterIP": _at("spec", "clusterIP"), "spec.type": _at("spec", "type")},
    "resourceslices": {"spec.nodeName": _at("spec", "nodeName"), "spec.driver": _at("spec", "driver")},
    "certificatesigningrequests": {"spec.signerName": _at("spec", "signerName")},
}


@dataclass(frozen=True)
class FieldSelector:
    """All terms must hold: (field, equal or not, value)."""

    terms: tuple[tuple[str, bool, str], ...]
    readers: tuple[Callable[[Object], str], ...]

    @classmethod
    def parse(cls, name: str, text: str) -> "FieldSelector":
        """For the resource of that name in RESOURCES; ApiError 400 for an unknown field."""
        known = {**_PLAIN, **FIELDS.get(name, {})}
        terms = [_term(part) for part in text.split(",") if part]
        for field, _, _ in terms:
            if field not in known:
                message = f"field label not supported: {field}"
                raise bad_request(
                    message
                    if name in FIELDS
                    else f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
                )
        return cls(tuple(terms), tuple(known[field] for field, _, _ in terms))

    def matches(self, obj: Object) -> bool:
        pairs = zip(self.terms, self.readers, strict=True)
        return all((read(obj) == value) is equal for (_, equal, value), read in pairs)

    def only_name(self) -> str:
        """The object name when the selector asks for exactly one name, else empty."""
        return next((v for f, equal, v in self.terms if f == "metadata.name" and equal), "")


def _term(part: str) -> tuple[str, bool, str]:
    for operator in ("!=", "==", "="):
        field, found, value = part.partition(operator)
        if found:
            return field, operator != "!=", value
    raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
