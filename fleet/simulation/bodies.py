"""The bodies of writes: decoding them, checking their kind and fields, and the options that go with them.

Owns the error texts of malformed and ill-typed bodies. Must not write.
"""

from typing import Any

import msgspec

from fleet.simulation import event_views, schema
from fleet.simulation.exchange import Request, Target
from fleet.simulation.refusals import (
    ApiError,
    Cause,
    bad_request,
    forbidden_value,
    invalid,
    required_value,
    unsupported_value,
)

Object = dict[str, Any]

PROPAGATIONS = ("Background", "Foreground", "Orphan")
VALIDATIONS = ("Ignore", "Strict", "Warn")


class Options(msgspec.Struct, frozen=True):
    """The query options of a write."""

    dry_run: bool
    validation: str  # Ignore, Warn or Strict
    force: bool


def options(request: Request, kind: str, *, applying: bool = False) -> Options:
    """Of a CreateOptions, UpdateOptions, PatchOptions or DeleteOptions; ApiError 422."""
    query, causes = request.query, []
    if "force" in query and not applying and kind == "PatchOptions":
        causes.append(forbidden_value("force", "may not be specified for non-apply patch"))
    if applying and not query.get("fieldManager"):
        causes.append(required_value("fieldManager", "is required for apply patch"))
    dry_run = [query["dryRun"]] if query.get("dryRun") else []
    causes += _dry_run_causes(dry_run)
    validation = query.get("fieldValidation") or "Warn"
    if validation not in VALIDATIONS:
        causes.append(unsupported_value("fieldValidation", validation, VALIDATIONS))
    if causes:
        raise invalid(f"{kind}.meta.k8s.io", "", causes)
    return Options(bool(dry_run), validation, request.flag("force") if "force" in query else False)


def _dry_run_causes(values: list[str]) -> list[Cause]:
    return [] if all(v == "All" for v in values) else [unsupported_value("dryRun", values, ["All"])]


def delete_options(request: Request) -> Object:
    """DeleteOptions from body and query together, checked; ApiError 400, 415, 422."""
    body = request.decoded() or {}
    if not isinstance(body, dict):
        raise bad_request("the body of a delete must be DeleteOptions")
    found = dict(body)
    if request.query.get("dryRun"):
        found["dryRun"] = [request.query["dryRun"]]
    if request.number("gracePeriodSeconds") is not None:
        found["gracePeriodSeconds"] = request.number("gracePeriodSeconds")
    if request.query.get("propagationPolicy"):
        found["propagationPolicy"] = request.query["propagationPolicy"]
    return checked_delete_options(found)


def checked_delete_options(found: Object) -> Object:
    """DeleteOptions as they are; ApiError 422."""
    causes = _dry_run_causes(list(found.get("dryRun") or ()))
    policy = found.get("propagationPolicy")
    if policy not in {None, *PROPAGATIONS}:
        causes.append(unsupported_value("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil")))
    if causes:
        raise invalid("DeleteOptions.meta.k8s.io", "", causes)
    return found


def object_of(request: Request, target: Target, validation: str) -> Object:
    """The object of a POST or PUT: of the resource's kind, well typed, without unknown fields. ApiError 400, 415."""
    resource = target.resource
    body = request.decoded()
    if not isinstance(body, dict):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind"
        )
    kind, api_version = body.get("kind") or resource.kind, body.get("apiVersion") or resource.api_version
    cannot = f'{kind} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {resource.kind}: '
    if kind != resource.kind or api_version != resource.api_version:
        raise bad_request(cannot + f"no kind match: {kind} in {api_version}")
    error = schema.type_error(resource.kind, body)
    if error:
        raise bad_request(cannot + error)
    unknown = _unknown(request, target, body, validation)
    if unknown:
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise bad_request(f"{cannot}strict decoding error: {listed}")
    body = {"metadata": {}, **cleaned(target, body)}
    _check_namespace(target, body)
    return event_views.from_v1(body) if resource.group == "events.k8s.io" else body


def _unknown(request: Request, target: Target, body: Object, validation: str) -> list[str]:
    """Unknown fields that refuse the request; with Warn they become warnings instead."""
    if validation == "Ignore" or target.resource.group == "events.k8s.io":
        return []
    unknown = schema.unknown_fields(target.resource.kind, body)
    if validation == "Strict":
        return unknown
    request.warnings += [f'unknown field "{path}"' for path in unknown]
    return []


def cleaned(target: Target, body: Object) -> Object:
    if target.resource.group == "events.k8s.io":
        return body
    cut: Object = schema.without_unknown(target.resource.kind, body)
    return cut


def _check_namespace(target: Target, body: Object) -> None:
    metadata = body["metadata"] = dict(body["metadata"] or {})
    if not target.resource.namespaced:
        return
    if metadata.get("namespace") not in {None, "", target.namespace}:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = target.namespace


def patched(request: Request, target: Target, body: Object, validation: str) -> Object:
    """What a patch made, checked like a body, in the words of a patch; ApiError 422."""
    kind = target.resource.kind
    error = schema.type_error(kind, body) if target.resource.group != "events.k8s.io" else ""
    if not error:
        unknown = _unknown(request, target, body, validation)
        if unknown:
            error = "strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in unknown)
    if error:
        quoted = msgspec.json.encode(_go_order(body)).decode()
        shown = msgspec.json.encode(quoted).decode()
        raise invalid("", "", [Cause("patch", f"Invalid value: {shown}: {error}")])
    return cleaned(target, body)


def _go_order(body: Object) -> Object:
    head: Object = {k: body[k] for k in ("apiVersion", "kind") if k in body}
    return {**head, **{k: v for k, v in body.items() if k not in head}}


def patch_of(request: Request) -> Any:
    """The patch itself; ApiError 400 for what is no JSON."""
    try:
        return msgspec.json.decode(request.body)
    except msgspec.DecodeError as error:
        words = schema.json_error(request.body, error)
        raise bad_request(f"error decoding patch: {words}") from None


def unsupported_patch() -> ApiError:
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
