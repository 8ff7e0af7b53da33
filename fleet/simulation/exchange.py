"""One HTTP exchange of the API server: the request as handlers see it, and what they may answer.

Owns parsing of paths, queries and media types. Must not know what a resource does.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import yaml

from fleet.simulation import protobuf
from fleet.simulation.refusals import ApiError, bad_request
from fleet.simulation.resources import BY_PATH, Resource

Object = dict[str, Any]

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
NOT_ACCEPTABLE = (
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf, application/json;stream=watch, "
    "application/vnd.kubernetes.protobuf;stream=watch"
)


class Form(StrEnum):
    """How the client wants objects: whole, as rows of a Table, or metadata only."""

    OBJECT = "object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


@dataclass(frozen=True)
class Target:
    """What a resource path names; empty strings where it names nothing."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""  # what follows a proxy subresource

    @property
    def plural(self) -> str:
        """The name in RESOURCES."""
        return "events.events.k8s.io" if self.resource.group == "events.k8s.io" else self.resource.plural


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def from_scope(cls, scope: Object, body: bytes) -> "Request":
        headers: dict[str, str] = {}
        for raw, value in scope["headers"]:
            name = raw.decode("latin-1").lower()
            shown = value.decode("latin-1")
            headers[name] = f"{headers[name]},{shown}" if name in headers else shown
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        return cls(scope["method"], scope["path"], query, headers, body)

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in {"true", "1"} or self.query.get(name) == ""

    def number(self, name: str) -> int | None:
        """A whole number from the query; ApiError 400 for anything else."""
        text = self.query.get(name, "")
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None

    @property
    def manager(self) -> str:
        """The field manager: as asked for, else what the user agent begins with."""
        return self.query.get("fieldManager") or self.headers.get("user-agent", "").partition("/")[0] or "unknown"

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", JSON).partition(";")[0].strip()

    def decoded(self) -> Any:
        """The body as JSON or YAML; ApiError 400 or 415. None when there is none."""
        if not self.body.strip():
            return None
        if self.content_type in {"application/yaml", "application/apply-patch+yaml"}:
            return from_yaml(self.body)
        if self.content_type == PROTOBUF:
            found = protobuf.decode(self.body)
            if found is None:
                raise unsupported_media_type(self.content_type)
            return found
        if self.content_type not in {JSON, "*/*", ""}:
            raise unsupported_media_type(self.content_type)
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise bad_request(f"the object provided is unrecognized: {error}") from None


def from_yaml(body: bytes) -> Any:
    try:
        return yaml.safe_load(body)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from None


def unsupported_media_type(found: str) -> ApiError:
    message = (
        f"the body of the request was in an unknown format ({found}) - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )
    return ApiError(415, "UnsupportedMediaType", message, {})


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    more: AsyncIterator[bytes] | None = None  # what comes after `body`, for an answer without an end


def reply(obj: Object, status: int = 200) -> Reply:
    return Reply(status, msgspec.json.encode(obj))


def text(body: str, status: int = 200) -> Reply:
    return Reply(status, body.encode(), "text/plain; charset=utf-8")


def refusal(error: ApiError) -> Reply:
    return Reply(error.status, msgspec.json.encode(error.body()), headers=error.headers)


def media_ranges(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The Accept header's ranges in order, with their parameters; quality is ignored, as clients order them."""
    ranges = []
    for part in accept.split(","):
        kind, *parameters = (p.strip() for p in part.split(";"))
        if kind:
            pairs = (p.partition("=") for p in parameters)
            ranges.append((kind, {k: v for k, _, v in pairs}))
    return ranges


def wanted_form(request: Request) -> Form:
    """The first form of the Accept header that is served; ApiError 406 when none is."""
    for kind, parameters in media_ranges(request.headers.get("accept", "*/*")):
        if kind not in {JSON, "*/*", "application/*"}:
            continue
        wanted = parameters.get("as", "")
        if not wanted:
            return Form.OBJECT
        if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in {"v1", "v1beta1"}:
            continue
        if wanted == "Table":
            return Form.TABLE
        if wanted in {"PartialObjectMetadata", "PartialObjectMetadataList"}:
            return Form.METADATA
    raise ApiError(406, "NotAcceptable", NOT_ACCEPTABLE, {})


def target_of(path: str) -> Target | None:
    """The resource that a path names; None when no such resource is served."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    resource = BY_PATH.get((group, version, rest[0])) if rest else None
    if resource is None or (namespace and not resource.namespaced):
        return None
    name, subresource, *more = [*rest[1:], "", ""][: max(2, len(rest) - 1)]
    if subresource and resource.subresource(subresource) is None:
        return None
    if more and subresource != "proxy":
        return None
    return Target(resource, namespace, name, subresource, "/".join(m for m in more if m))
