"""What the API server says when it refuses: ApiError and the wording of each refusal, as a real one words it.

Owns messages, reasons and details. Must not decide when something is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fleet.simulation.resources import Resource


class ApiError(Exception):
    """A refusal, exactly as HTTP shows it. `reason` is empty where the real server gives none."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}
        self.metadata = metadata or {}

    def body(self) -> dict[str, Any]:
        """The Status object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.status
        return body


class Cause(msgspec.Struct, frozen=True):
    """One wrong field. `reason` is FieldValueInvalid, FieldValueRequired, …; `message` begins with its words."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def detail(self) -> dict[str, str]:
        shown = {"reason": self.reason, "message": self.message}
        return {**shown, "field": self.field} if self.field else shown


def shown(value: object) -> str:
    """A value as messages quote it: JSON, floats without a needless fraction."""
    return msgspec.json.encode(value).decode()


def invalid_value(field: str, value: object, why: str) -> Cause:
    return Cause(field, f"Invalid value: {shown(value)}: {why}")


def required_value(field: str, why: str = "") -> Cause:
    return Cause(field, f"Required value: {why}" if why else "Required value", "FieldValueRequired")


def forbidden_value(field: str, why: str) -> Cause:
    return Cause(field, f"Forbidden: {why}", "FieldValueForbidden")


def unsupported_value(field: str, value: object, supported: Sequence[str]) -> Cause:
    listed = ", ".join(shown(s) for s in supported)
    return Cause(field, f"Unsupported value: {shown(value)}: supported values: {listed}", "FieldValueNotSupported")


def _about(resource: Resource, name: str, kind: str) -> dict[str, Any]:
    details = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    return {**details, "kind": kind}


def not_found(resource: Resource, name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, _about(resource, name, resource.plural))


def already_exists(resource: Resource, name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _about(resource, name, resource.plural))


MODIFIED_SINCE = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: Resource, name: str, why: str = MODIFIED_SINCE) -> ApiError:
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, _about(resource, name, resource.plural))


def precondition_failed(resource: Resource, name: str, field: str, wanted: str, found: str) -> ApiError:
    """A DELETE's or an eviction's precondition on uid or resourceVersion that does not hold."""
    why = f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
    return conflict(resource, name, why)


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    about = f'{resource.qualified} "{name}"' if name else resource.qualified
    return ApiError(403, "Forbidden", f"{about} is forbidden: {why}", _about(resource, name, resource.plural))


def namespace_terminating(resource: Resource, name: str, namespace: str) -> ApiError:
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = forbidden(resource, name, why)
    cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
    error.details = {**(error.details or {}), "causes": [{**cause, "field": "metadata.namespace"}]}
    return error


def invalid(qualified_kind: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 with one cause per wrong field; `qualified_kind` as in "Deployment.apps" or "ListOptions.meta.k8s.io"."""
    texts = list(dict.fromkeys(f"{c.field}: {c.message}" for c in causes))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    kind, _, group = qualified_kind.partition(".")
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details["causes"] = [c.detail() for c in causes]
    return ApiError(422, "Invalid", f'{qualified_kind} "{name}" is invalid: {listed}', details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def expired(message: str, continue_token: str = "") -> ApiError:
    metadata = {"continue": continue_token} if continue_token else {}
    return ApiError(410, "Expired", message, metadata=metadata)


def too_large_version(asked: int, current: int) -> ApiError:
    """A list at a version that does not exist yet."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", message, details, {"retry-after": "1"})


def rejected() -> ApiError:
    """What a JSON patch that cannot be applied gets: it does not say which operation failed."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def method_not_allowed(resource: Resource) -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {"kind": resource.plural} if resource else {})


def success(details: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": dict(details)}
