"""The API's description as a page, made on the server from the OpenAPI document: no script, and none of anybody else.

Owns what the page lists. Must not say anything that the document does not.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from dashboard import pages

Json = Mapping[str, Any]
PROBLEM = "Problem"


@dataclass(frozen=True)
class Field:
    """A parameter of an operation, or a member of an answer."""

    name: str
    type: str
    text: str
    link: str = ""  # the shape that it leads to


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    text: str
    parameters: tuple[Field, ...]
    answers: tuple[Field, ...]  # by status, without the refusals
    refusals: tuple[str, ...]  # the statuses that come with a Problem
    body: str = ""  # the shape that is sent

    @property
    def id(self) -> str:
        """Where it is on the page."""
        return "-".join(re.findall(r"\w+", f"{self.method} {self.path}")).lower()


@dataclass(frozen=True)
class Shape:
    """What answers are made of: an object with members, or a value of its own type."""

    name: str
    text: str
    fields: tuple[Field, ...]
    type: str = ""  # of what has no members


def page(request: HttpRequest, document: Json) -> HttpResponse:
    context = {
        "origin": f"{request.scheme}://{request.get_host()}",
        "text": document["info"]["description"],
        "operations": list(operations(document)),
        "shapes": list(shapes(document)),
    }
    return pages.page(request, "api.html", "", context)


def operations(document: Json) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, found in methods.items():
            parameters = tuple(_parameter(parameter) for parameter in found.get("parameters", ()))
            answers = [_answer(str(status), response) for status, response in found["responses"].items()]
            kept = tuple(answer for answer in answers if answer.link != PROBLEM)
            refusals = tuple(answer.name for answer in answers if answer.link == PROBLEM)
            body = _answer("", found.get("requestBody") or {}).link
            yield Operation(method.upper(), path, _text(found), parameters, kept, refusals, body)


def shapes(document: Json) -> Iterator[Shape]:
    for name, found in sorted(document["components"]["schemas"].items()):
        fields = tuple(_field(key, schema) for key, schema in found.get("properties", {}).items())
        yield Shape(name, _text(found), fields, "" if fields else kind(found))


def _text(found: Json) -> str:
    return str(found.get("description", ""))


def _parameter(found: Json) -> Field:
    schema = found.get("schema", {})
    limits = [
        f"{word} {schema[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most")) if key in schema
    ]
    default = [f"{schema['default']} when left out"] if schema.get("default") not in (None, "", []) else []
    parts = filter(None, [_text(found) or _text(schema), *limits, *default])
    return Field(found["name"], f"{kind(schema)}, in the {found['in']}", "; ".join(parts))


def _answer(status: str, response: Json) -> Field:
    content: Json = response.get("content", {})
    media = next(iter(content), "")
    link = _link(content[media].get("schema", {})) if media else ""
    return Field(status, media, _text(response), link)


def _field(name: str, schema: Json) -> Field:
    return Field(name, kind(schema), _text(schema), _link(schema))


def _link(schema: Json) -> str:
    """The name of the shape that a schema is, or holds."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    inner = [schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ())]
    return next((found for part in inner if isinstance(part, Mapping) and (found := _link(part))), "")


def kind(schema: Json) -> str:
    """A schema's type in a few words: "array of NodeRow", "number or null"."""
    if "$ref" in schema:
        return _link(schema)
    if "anyOf" in schema:
        return " or ".join(kind(part) for part in schema["anyOf"])
    if "prefixItems" in schema:
        return "[" + ", ".join(kind(part) for part in schema["prefixItems"]) + "]"
    if "enum" in schema:
        return "one of " + ", ".join(f"“{value}”" for value in schema["enum"])
    name = str(schema.get("type", "any"))
    inner = schema.get("items") or schema.get("additionalProperties")
    return f"{name} of {kind(inner)}" if isinstance(inner, Mapping) and inner else name
