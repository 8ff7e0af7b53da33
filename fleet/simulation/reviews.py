"""Reviews that are answered and never stored: who am I, what may I, whose token is this.

Owns their bodies. Must not decide rights; Auth does.
"""

import uuid
from typing import Any

from fleet.simulation.auth import AUDIENCE, Attempt, Auth, BadTokenError, Bound, User
from fleet.simulation.bootstrap_roles import MASTERS
from fleet.simulation.refusals import ApiError, Cause, bad_request, invalid
from fleet.simulation.store import Store, timestamp

Object = dict[str, Any]


def attempt_of(spec: Object) -> Attempt:
    """What a review asks about; ApiError 422 unless it names exactly one thing."""
    resource: Object = spec.get("resourceAttributes") or {}
    path: Object = spec.get("nonResourceAttributes") or {}
    if bool(resource) == bool(path):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        cause = Cause("spec.resourceAttributes", f"Invalid value: null: {why}")
        raise invalid(".authorization.k8s.io", "", [cause])
    if path:
        return Attempt(path.get("verb", ""), path=path.get("path", ""))
    known = {f: resource.get(f, "") for f in ("verb", "group", "resource", "subresource", "namespace", "name")}
    return Attempt(**known)


def access(auth: Auth, user: User, body: Object, kind: str) -> Object:
    """SelfSubjectAccessReview; Subject- and LocalSubjectAccessReview ask for somebody else."""
    spec = body.get("spec") or {}
    attempt = attempt_of(spec)
    if kind != "SelfSubjectAccessReview":
        user = User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))
    decision = auth.decide(user, attempt)
    status: Object = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    head = {"kind": kind, "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
    return {**head, "spec": spec, "status": status}


def rules(auth: Auth, user: User, body: Object) -> Object:
    """SelfSubjectRulesReview: all rules that hold in one namespace."""
    namespace = (body.get("spec") or {}).get("namespace", "")
    on_resources, on_paths = [], []
    if MASTERS in user.groups:
        on_resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        on_paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    for grant in auth.grants(user):
        if grant.namespace in {"", namespace}:
            on_resources += [r for r in grant.rules if r.get("resources")]
            on_paths += [r for r in grant.rules if r.get("nonResourceURLs")]
    status = {"resourceRules": on_resources, "nonResourceRules": on_paths, "incomplete": False}
    head = {"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
    return {**head, "spec": {}, "status": status}


def myself(user: User, now: float) -> Object:
    head = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    return {**head, "metadata": {"creationTimestamp": timestamp(now)}, "status": {"userInfo": user.info()}}


def token(auth: Auth, body: Object) -> Object:
    """TokenReview: whose token it is and for whom, for those who ask on a client's behalf."""
    spec = body.get("spec") or {}
    try:
        user, meant = auth.review(spec.get("token", ""), tuple(spec.get("audiences") or (AUDIENCE,)))
    except BadTokenError as error:
        status: Object = {"user": {}, "error": f"[invalid bearer token, {error}]"}
    else:
        status = {"authenticated": True, "user": user.info(), "audiences": list(meant)}
    head = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}}
    return {**head, "spec": spec, "status": status}


def token_request(auth: Auth, store: Store, namespace: str, name: str, body: Object) -> Object:
    """A token for a service account (TokenRequest); ApiError 400, 404, 409, 422."""
    store.get("serviceaccounts", namespace, name)
    spec = body.get("spec") or {}
    lifetime_s = spec.get("expirationSeconds", 3600)
    if lifetime_s < 600:
        why = "may not specify a duration less than 10 minutes"
        cause = Cause("spec.expirationSeconds", f"Invalid value: {lifetime_s}: {why}")
        raise invalid("TokenRequest.authentication.k8s.io", name, [cause])
    now = store.clock.now()
    audiences, reference = spec.get("audiences") or [AUDIENCE], spec.get("boundObjectRef")
    bound = _bound(store, namespace, name, reference) if reference else None
    issued = auth.issue_for_account(namespace, name, lifetime_s, tuple(audiences), bound)
    identity = {"name": name, "namespace": namespace, "uid": str(uuid.uuid4())}
    metadata = {**identity, "creationTimestamp": timestamp(now)}
    shown = {"audiences": audiences, "expirationSeconds": lifetime_s}
    status = {"token": issued, "expirationTimestamp": timestamp(now + lifetime_s)}
    head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": metadata}
    return {**head, "spec": {**shown, "boundObjectRef": reference}, "status": status}


def _bound(store: Store, namespace: str, account: str, reference: Object) -> Bound:
    """The pod that a token is asked for; ApiError 400, 404, 409 as serviceaccount/storage/token.go of Kubernetes."""
    kind, name = reference.get("kind", ""), reference.get("name", "")
    if kind != "Pod":
        raise bad_request(f"cannot bind token to object of type {reference.get('apiVersion', '')}, Kind={kind}")
    pod = store.get("pods", namespace, name)
    if pod["spec"].get("serviceAccountName") != account:
        why = "to pod running with different serviceaccount name."
        raise bad_request(f'cannot bind token for serviceaccount "{account}" {why}')
    uid, asked = pod["metadata"]["uid"], reference.get("uid", "")
    if asked not in {"", uid}:
        why = (
            f"the UID in the bound object reference ({asked}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        message = f'Operation cannot be fulfilled on Pod "{name}": {why}'
        raise ApiError(409, "Conflict", message, {"name": name, "kind": "Pod"})
    node = pod["spec"].get("nodeName", "")
    machine = store.shelf("nodes").records.get(node)
    return Bound(namespace, name, uid, node, machine.object["metadata"]["uid"] if machine else "")


REVIEWS = frozenset({
    "selfsubjectreviews", "tokenreviews", "localsubjectaccessreviews", "selfsubjectaccessreviews",
    "selfsubjectrulesreviews", "subjectaccessreviews",
})  # fmt: skip


def answer(auth: Auth, user: User, plural: str, kind: str, body: Object, now: float) -> Object:
    """The answer to a POST on a review resource; ApiError 422."""
    match plural:
        case "selfsubjectreviews":
            return myself(user, now)
        case "selfsubjectrulesreviews":
            return rules(auth, user, body)
        case "tokenreviews":
            return token(auth, body)
        case "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews":
            return access(auth, user, body, kind)
    raise ApiError(404, "NotFound", "the server could not find the requested resource", {})
