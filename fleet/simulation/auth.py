"""Who asks, and what they may: bearer tokens, impersonation, and RBAC read from the cluster's own roles and bindings.

Owns the decision. Tokens live in memory only. Must not answer requests itself.
"""

import secrets
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.simulation import bootstrap_roles
from fleet.simulation.bootstrap_roles import AUTHENTICATED, MASTERS, UNAUTHENTICATED
from fleet.simulation.refusals import ApiError, forbidden
from fleet.simulation.resources import Resource
from fleet.simulation.store import Store

Object = dict[str, Any]

ACCEPTED_S = 10.0  # how long a service account's token is not looked at again
AUDIENCE = "https://kubernetes.default.svc.cluster.local"  # the API server itself
NO_SUCH_TOKEN = "token lookup failed"  # noqa: S105 -- the server's words
EXPIRED, INVALIDATED = "service account token has expired", "service account token has been invalidated"
NOBODY_NAMED = "requested [{Group  %s}] without impersonating a user"


@dataclass(frozen=True)
class User:
    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)
    uid: str = ""
    extra: dict[str, list[str]] = field(default_factory=dict, hash=False, compare=False)

    def info(self) -> Object:
        """As userInfo shows it."""
        shown: Object = {"username": self.name}
        if self.uid:
            shown["uid"] = self.uid
        shown["groups"] = list(self.groups)
        return {**shown, "extra": self.extra} if self.extra else shown


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))


@dataclass(frozen=True)
class Attempt:
    """What is to be decided: a verb on a resource, or on a path when `path` is set."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True)
class Decision:
    allowed: bool
    reason: str = ""


@dataclass(frozen=True)
class Grant:
    """Rules that a binding gives somebody; `namespace` is empty for a ClusterRoleBinding."""

    rules: tuple[Object, ...]
    namespace: str
    reason: str


def service_account(namespace: str, name: str, uid: str = "") -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid)


@dataclass(frozen=True)
class Bound:
    """The pod that a token is for, and where it runs; the token is worth nothing without it."""

    namespace: str
    pod: str
    pod_uid: str
    node: str = ""
    node_uid: str = ""

    def extra(self) -> dict[str, list[str]]:
        """As a review tells of it, since Kubernetes 1.32 with the node."""
        told = {"pod-name": self.pod, "pod-uid": self.pod_uid, "node-name": self.node, "node-uid": self.node_uid}
        return {f"authentication.kubernetes.io/{k}": [v] for k, v in sorted(told.items()) if v}


@dataclass(frozen=True)
class Token:
    """`account`: key of the service account that it stands for, empty for people. Times as of the cluster's clock."""

    user: User
    account: str = ""
    expires_at: float = float("inf")
    audiences: tuple[str, ...] = (AUDIENCE,)
    bound: Bound | None = None


class BadTokenError(Exception):
    """A token that is not good; the text says why, in the server's words."""


class Auth:
    """Tokens and decisions for one cluster."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tokens: dict[str, Token] = {}
        self._accepted_until: dict[str, float] = {}
        bootstrap_roles.plant(store)

    def issue(self, user: User, token: str = "") -> str:
        """A new token for a user (or the given one)."""
        return self._keep(Token(user), token)

    def issue_for_account(
        self,
        namespace: str,
        name: str,
        lifetime_s: float = float("inf"),
        audiences: tuple[str, ...] = (AUDIENCE,),
        bound: Bound | None = None,
    ) -> str:
        """A new token of a service account; ApiError 404."""
        uid = self._store.get("serviceaccounts", namespace, name)["metadata"]["uid"]
        user = service_account(namespace, name, uid)
        extra = {"authentication.kubernetes.io/credential-id": [f"JTI={uuid.uuid4()}"]}
        if bound is not None:
            extra |= bound.extra()
        expires_at = self._store.clock.now() + lifetime_s
        return self._keep(Token(replace(user, extra=extra), f"{namespace}/{name}", expires_at, audiences, bound))

    def _keep(self, made: Token, token: str = "") -> str:
        token = token or secrets.token_urlsafe(24)
        self._tokens[token] = made
        return token

    def revoke(self, token: str) -> None:
        del self._tokens[token]

    def user_of(self, token: str) -> User | None:
        """Who speaks to the API server with it; None for an unknown, expired or orphaned one, or one that is for others.

        What was accepted stays accepted for ACCEPTED_S, also when its service account has gone meanwhile.
        """
        try:
            return self.review(token, (AUDIENCE,))[0]
        except BadTokenError:
            return None

    def review(self, token: str, audiences: tuple[str, ...]) -> tuple[User, tuple[str, ...]]:
        """Whose token it is, and for which of `audiences` it is meant; BadTokenError."""
        known = self._tokens.get(token)
        if known is None:
            raise BadTokenError(NO_SUCH_TOKEN)
        meant = tuple(a for a in audiences if a in known.audiences)
        if not known.account:
            if not meant:  # people's tokens are for the API server only
                raise BadTokenError(NO_SUCH_TOKEN)
            return known.user, meant
        if not meant:
            asked, own = (f"[{' '.join(_quoted(a) for a in some)}]" for some in (audiences, known.audiences))
            raise BadTokenError(f"token audiences {own} is invalid for the target audiences {asked}")
        now = self._store.clock.now()
        if now >= self._accepted_until.get(token, 0.0):
            self._check_alive(known, now)
            self._accepted_until[token] = now + ACCEPTED_S
        return known.user, meant

    def _check_alive(self, known: Token, now: float) -> None:
        """BadTokenError for one that has expired, or whose account or pod is gone."""
        account = self._store.shelf("serviceaccounts").records.get(known.account)
        if account is None or account.object["metadata"]["uid"] != known.user.uid:
            raise BadTokenError(INVALIDATED)
        if now >= known.expires_at:
            raise BadTokenError(EXPIRED)
        if known.bound is not None:
            pod = self._store.shelf("pods").records.get(f"{known.bound.namespace}/{known.bound.pod}")
            if pod is None or pod.object["metadata"]["uid"] != known.bound.pod_uid:
                raise BadTokenError(INVALIDATED)

    def authenticate(self, headers: dict[str, str]) -> User:
        """The caller, before impersonation; ApiError 401 for a token that is not good."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if not scheme:
            return ANONYMOUS
        user = self.user_of(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return user

    def impersonated(self, user: User, headers: dict[str, str], attempt: Attempt) -> User:
        """Whom the request is made for; ApiError 403 when `user` may not speak for them."""
        name, listed = headers.get("impersonate-user", ""), headers.get("impersonate-group", "")
        asked = tuple(g.strip() for g in listed.split(",") if g.strip())
        if not name:
            if asked:
                raise ApiError(500, "InternalError", f"Internal error occurred: {NOBODY_NAMED % asked[0]}", {})
            return user
        wanted = [_impersonation(name), *(Attempt("impersonate", resource="groups", name=g) for g in asked)]
        if not all(self.decide(user, w).allowed for w in wanted):
            raise refused(user, replace(attempt, verb=f"impersonate-on:user-info:{attempt.verb}"))
        own = service_account(*_account(name)).groups if _account(name) else (AUTHENTICATED,)
        return User(name, tuple(dict.fromkeys((*asked, *own))))

    def decide(self, user: User, attempt: Attempt) -> Decision:
        if MASTERS in user.groups:
            return Decision(True)
        for grant in self.grants(user):
            if grant.namespace and grant.namespace != attempt.namespace:
                continue
            if any(_covers(rule, attempt) for rule in grant.rules):
                return Decision(True, grant.reason)
        return Decision(False)

    def check(self, user: User, attempt: Attempt, resource: Resource | None = None) -> None:
        """ApiError 403 unless allowed."""
        if not self.decide(user, attempt).allowed:
            raise refused(user, attempt, resource)

    def grants(self, user: User) -> Iterator[Grant]:
        for plural in ("clusterrolebindings", "rolebindings"):
            for binding in self._store.list(plural):
                subject = _subject(binding.get("subjects") or (), user, binding["metadata"])
                rules = self._rules(binding) if subject else ()
                if subject and rules:
                    yield Grant(rules, binding["metadata"].get("namespace", ""), _reason(binding, subject))

    def _rules(self, binding: Object) -> tuple[Object, ...]:
        ref = binding["roleRef"]
        cluster_wide = ref["kind"] == "ClusterRole"
        key = ref["name"] if cluster_wide else f"{binding['metadata']['namespace']}/{ref['name']}"
        record = self._store.shelf("clusterroles" if cluster_wide else "roles").records.get(key)
        return tuple(record.object.get("rules") or ()) if record else ()


def _quoted(text: str) -> str:
    return f'"{text}"'


def _account(name: str) -> tuple[str, str] | tuple[()]:
    """Namespace and name of the service account that a user name means."""
    parts = name.split(":")
    return (parts[2], parts[3]) if parts[:2] == ["system", "serviceaccount"] and len(parts) == 4 else ()


def _impersonation(name: str) -> Attempt:
    account = _account(name)
    if account:
        return Attempt("impersonate", resource="serviceaccounts", namespace=account[0], name=account[1])
    return Attempt("impersonate", resource="users", name=name)


def refused(user: User, attempt: Attempt, resource: Resource | None = None) -> ApiError:
    """403 in the real server's words."""
    if attempt.path:
        message = f'forbidden: User "{user.name}" cannot {attempt.verb} path "{attempt.path}"'
        return ApiError(403, "Forbidden", message, {})
    where = f'in the namespace "{attempt.namespace}"' if attempt.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {attempt.verb} resource "{attempt.full_resource}" '
        f'in API group "{attempt.group}" {where}'
    )
    known = resource or Resource(attempt.group, "", "", attempt.resource, "", bool(attempt.namespace))
    return forbidden(known, attempt.name, why)


def _subject(subjects: Iterable[Object], user: User, binding: Object) -> str:
    """The subject of a binding that means this user, as the decision's reason names it; empty when none does."""
    for subject in subjects:
        kind, name = subject["kind"], subject["name"]
        if kind == "User" and name == user.name:
            return f'User "{name}"'
        if kind == "Group" and name in user.groups:
            return f'Group "{name}"'
        namespace = subject.get("namespace", binding.get("namespace", ""))
        if kind == "ServiceAccount" and user.name == f"system:serviceaccount:{namespace}:{name}":
            return f'ServiceAccount "{name}/{namespace}"'
    return ""


def _reason(binding: Object, subject: str) -> str:
    metadata, ref = binding["metadata"], binding["roleRef"]
    scope = f"/{metadata['namespace']}" if metadata.get("namespace") else ""
    name = f"{metadata['name']}{scope}"
    return f'RBAC: allowed by {binding["kind"]} "{name}" of {ref["kind"]} "{ref["name"]}" to {subject}'


def _covers(rule: Object, attempt: Attempt) -> bool:
    if not _in(rule.get("verbs"), attempt.verb):
        return False
    if attempt.path:
        return any(_path_matches(p, attempt.path) for p in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    return (
        _in(rule.get("apiGroups"), attempt.group)
        and _resource_matches(rule.get("resources") or (), attempt)
        and (not names or attempt.name in names)
    )


def _in(values: list[str] | None, wanted: str) -> bool:
    return values is not None and ("*" in values or wanted in values)


def _resource_matches(resources: Iterable[str], attempt: Attempt) -> bool:
    any_parent = f"*/{attempt.subresource}" if attempt.subresource else ""
    return any(r in {"*", attempt.full_resource, any_parent} for r in resources)


def _path_matches(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern
