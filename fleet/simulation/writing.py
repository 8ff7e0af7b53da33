"""POST, PUT, PATCH and DELETE on objects and collections.

Owns the order of checks of each method. Must not know how the store keeps its promises, nor the subresources that are
no objects of their own (subresources.py).
"""

from typing import Any

from fleet.simulation import bodies, event_views, exchange, patch
from fleet.simulation.exchange import Form, Reply, Request, Target, reply, wanted_form
from fleet.simulation.history import Record
from fleet.simulation.reading import Selection, shown
from fleet.simulation.refusals import ApiError, bad_request, not_found, success
from fleet.simulation.store import Store

Object = dict[str, Any]

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
# Kinds whose DELETE answers with the object, and those that a PUT may create.
RETURNED = frozenset({
    "pods", "podtemplates", "persistentvolumes", "persistentvolumeclaims", "resourcequotas", "serviceaccounts",
})  # fmt: skip
CREATED_BY_PUT = frozenset({"leases", "events", "endpoints", "limitranges"})


def create(store: Store, request: Request, target: Target) -> Reply:
    """ApiError 400, 404, 409, 415, 422."""
    form = wanted_form(request)
    options = bodies.options(request, "CreateOptions")
    body = bodies.object_of(request, target, options.validation)
    created = store.create(target.plural, body, manager=request.manager, dry_run=options.dry_run)
    return shown(store, request, target, created, form, status=201)


def replace(store: Store, request: Request, target: Target) -> Reply:
    """ApiError 400, 404, 409, 415, 422."""
    form = wanted_form(request)
    options = bodies.options(request, "UpdateOptions")
    body = bodies.object_of(request, target, options.validation)
    _check_name(target, body)
    if target.plural in CREATED_BY_PUT and not _exists(store, target):
        created = store.create(target.plural, body, manager=request.manager, dry_run=options.dry_run)
        return shown(store, request, target, created, form, status=201)
    updated = store.update(
        target.plural, body, manager=request.manager, subresource=target.subresource, dry_run=options.dry_run
    )
    return shown(store, request, target, updated, form)


def _exists(store: Store, target: Target) -> bool:
    key = f"{target.namespace}/{target.name}" if target.namespace else target.name
    return key in store.shelf(target.plural).records


def _check_name(target: Target, body: Object) -> None:
    name = body["metadata"].get("name") or ""
    if name != target.name:
        message = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        raise bad_request(message)


def change(store: Store, request: Request, target: Target) -> Reply:
    """PATCH of any kind; ApiError 400, 404, 409, 415, 422."""
    form = wanted_form(request)
    kind = request.content_type
    if kind not in {APPLY, MERGE, STRATEGIC, JSON_PATCH}:
        raise bodies.unsupported_patch()
    options = bodies.options(request, "PatchOptions", applying=kind == APPLY)
    if kind == APPLY:
        return _apply(store, request, target, options, form)
    record = store.record(target.plural, target.namespace, target.name)
    new = patched(request, target, record, options.validation)
    _check_name(target, new)
    updated = store.update(
        target.plural, new, manager=request.manager, subresource=target.subresource, dry_run=options.dry_run
    )
    return shown(store, request, target, updated, form)


def patched(request: Request, target: Target, record: Record, validation: str) -> Object:
    """The object with the request's patch in it, checked."""
    new_group = target.resource.group == "events.k8s.io"
    before = event_views.to_v1(record.object) if new_group else record.object
    made = apply_patch(request, before)
    made = bodies.patched(request, target, {**made, "kind": before["kind"]}, validation)
    return event_views.from_v1(made) if new_group else made


def apply_patch(request: Request, before: Object) -> Object:
    """`before` with the request's merge, strategic or JSON patch in it."""
    wanted = bodies.patch_of(request)
    if request.content_type == JSON_PATCH:
        made = patch.json_patch(before, wanted)
    elif not isinstance(wanted, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}")
    else:
        made = (patch.merge if request.content_type == MERGE else patch.strategic)(before, wanted)
    if not isinstance(made, dict):
        raise bad_request("the patch does not leave an object")
    return made


def _apply(store: Store, request: Request, target: Target, options: bodies.Options, form: Form) -> Reply:
    wanted = exchange.from_yaml(request.body)
    if not isinstance(wanted, dict):
        raise bad_request("error decoding YAML: the object provided is unrecognized")
    for field, value in (("kind", target.resource.kind), ("apiVersion", target.resource.api_version)):
        if wanted.get(field) != value:
            raise bad_request(f"{field} of the provided object is {wanted.get(field)!r}, not {value!r}")
    metadata = wanted["metadata"] = {**(wanted.get("metadata") or {}), "name": target.name}
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    if target.namespace:
        metadata["namespace"] = target.namespace
    known = _exists(store, target)
    if target.subresource and not known:
        raise not_found(target.resource, target.name)
    wanted = bodies.patched(request, target, wanted, options.validation)
    applied = store.apply(
        target.plural,
        wanted,
        manager=request.manager,
        force=options.force,
        subresource=target.subresource,
        dry_run=options.dry_run,
    )
    return shown(store, request, target, applied, form, status=200 if known else 201)


def remove(store: Store, request: Request, target: Target) -> Reply:
    """DELETE of one object; ApiError 400, 404, 409, 422."""
    form = wanted_form(request)
    options = bodies.delete_options(request)
    deleted = _deleted(store, target, target.namespace, target.name, options)
    if target.resource.plural in RETURNED or "deletionTimestamp" in deleted["metadata"]:
        return shown(store, request, target, deleted, form)
    details = {"name": target.name, "group": target.resource.group, "kind": target.resource.plural}
    uid = {"uid": deleted["metadata"]["uid"]}
    return reply(success({k: v for k, v in details.items() if v} | uid))


def _deleted(store: Store, target: Target, namespace: str, name: str, options: Object) -> Object:
    conditions = options.get("preconditions") or {}
    return store.delete(
        target.plural,
        namespace,
        name,
        uid=conditions.get("uid"),
        resource_version=conditions.get("resourceVersion"),
        grace_s=options.get("gracePeriodSeconds"),
        propagation=options.get("propagationPolicy") or "Background",
        dry_run=bool(options.get("dryRun")),
    )


def remove_all(store: Store, request: Request, target: Target) -> Reply:
    """DELETE of a collection: everything that the selectors choose."""
    options = bodies.delete_options(request)
    selection = Selection(request, target)
    chosen = [o for o in store.list(target.plural, target.namespace or None) if selection.matches(o)]
    deleted = []
    for obj in chosen:
        metadata = obj["metadata"]
        try:
            deleted.append(_deleted(store, target, metadata.get("namespace", ""), metadata["name"], options))
        except ApiError as error:
            if error.status != 404:  # somebody was faster: it is gone, which is what was asked for
                raise
    items = [{k: v for k, v in o.items() if k not in {"kind", "apiVersion"}} for o in deleted]
    head = {"kind": f"{target.resource.kind}List", "apiVersion": target.resource.api_version}
    return reply({**head, "metadata": {"resourceVersion": str(store.resource_version)}, "items": items})
