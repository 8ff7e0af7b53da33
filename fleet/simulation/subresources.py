"""Subresources that are no view of the whole object: scale, binding, finalize, token; and those not served.

Owns their bodies. /status is an ordinary write of the store (writing.py).
"""

from typing import Any

from fleet.simulation import bodies, patch, reviews
from fleet.simulation.auth import Auth
from fleet.simulation.exchange import Reply, Request, Target, reply
from fleet.simulation.label_selectors import LabelSelector
from fleet.simulation.refusals import ApiError, bad_request, conflict, invalid, invalid_value
from fleet.simulation.store import Store
from fleet.simulation.writing import MERGE, STRATEGIC, apply_patch

Object = dict[str, Any]


def answer(store: Store, auth: Auth, request: Request, target: Target) -> Reply:
    """ApiError 400, 404, 405, 409, 422."""
    match target.subresource, request.method:
        case "scale", "GET":
            return reply(scale_of(store.get(target.plural, target.namespace, target.name)))
        case "scale", "PUT" | "PATCH":
            return _scale(store, request, target)
        case "binding", "POST":
            return _bind(store, request, target)
        case "finalize", "PUT":
            return _finalize(store, request, target)
        case "token", "POST":
            body = request.decoded() or {}
            return reply(reviews.token_request(auth, store, target.namespace, target.name, body), 201)
        case _:
            raise method_not_allowed()


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def scale_of(obj: Object) -> Object:
    """The autoscaling/v1 Scale of a workload."""
    metadata = {k: obj["metadata"][k] for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    status: Object = {"replicas": obj.get("status", {}).get("replicas", 0)}
    chosen = selector_text(obj["spec"].get("selector") or {})
    if chosen:
        status["selector"] = chosen
    spec = {"replicas": obj["spec"].get("replicas", 0)} if obj["spec"].get("replicas") else {}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def selector_text(selector: Object) -> str:
    """A selector as a query would have it: app=chat,tier in (a,b)."""
    if not {"matchLabels", "matchExpressions"} & set(selector):
        selector = {"matchLabels": selector}
    parts = []
    for term in sorted(LabelSelector.from_object(selector).requirements, key=lambda r: r.key):
        listed = f"({','.join(sorted(term.values))})"
        words = {"exists": term.key, "!exists": f"!{term.key}", "=": f"{term.key}={''.join(term.values)}"}
        parts.append(words.get(term.operator, f"{term.key} {term.operator} {listed}"))
    return ",".join(parts)


def _scale(store: Store, request: Request, target: Target) -> Reply:
    kind = "PatchOptions" if request.method == "PATCH" else "UpdateOptions"
    options = bodies.options(request, kind)
    obj = store.get(target.plural, target.namespace, target.name)
    present = scale_of(obj)
    wanted = _wanted_scale(request, present)
    version = (wanted.get("metadata") or {}).get("resourceVersion")
    if version and version != obj["metadata"]["resourceVersion"]:
        raise conflict(target.resource, target.name)
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("Scale.autoscaling", target.name, [cause])

    def set_replicas(draft: Object) -> None:
        draft["spec"]["replicas"] = replicas

    scaled = store.mutate(
        target.plural,
        target.namespace,
        target.name,
        set_replicas,
        manager=request.manager,
        subresource="scale",
        dry_run=options.dry_run,
    )
    return reply(scale_of(scaled))


def _wanted_scale(request: Request, present: Object) -> Object:
    if request.method == "PUT":
        body = request.decoded()
        if not isinstance(body, dict):
            raise bad_request("the object provided is unrecognized (must be of type Scale)")
        return body
    if request.content_type == STRATEGIC:
        made = patch.merge(present, bodies.patch_of(request))
    elif request.content_type in {MERGE, "application/json-patch+json"}:
        made = apply_patch(request, present)
    else:
        raise bodies.unsupported_patch()
    return dict(made)


def _bind(store: Store, request: Request, target: Target) -> Reply:
    options = bodies.options(request, "CreateOptions")
    node = ((request.decoded() or {}).get("target") or {}).get("name")
    if not node:
        cause = invalid_value("target.name", node or "", "name is required")
        raise invalid("Binding", target.name, [cause])
    store.bind(target.namespace, target.name, node, dry_run=options.dry_run)
    return reply({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


def _finalize(store: Store, request: Request, target: Target) -> Reply:
    body = request.decoded() or {}
    finalizers = list((body.get("spec") or {}).get("finalizers") or ())
    return reply(store.finalize(target.name, finalizers, manager=request.manager))
