"""Who hands in a reading: what a cluster says about a token, and whether its holder may speak for a node.

Owns the rules. Must not know how a token is reviewed. A token of an agent is bound to its pod and meant for us alone: audience
`vigie`; Kubernetes 1.32 and newer write the pod's node into it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

AUDIENCE: Final = "vigie"
_EXTRA: Final = "authentication.kubernetes.io/"
NODE: Final = f"{_EXTRA}node-name"
POD: Final = f"{_EXTRA}pod-name"
_ACCOUNT: Final = "system:serviceaccount:"


class Review(Struct, frozen=True):
    """A cluster's answer about a token."""

    authenticated: bool
    user: str = ""
    audiences: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = {}
    error: str = ""


class Caller(Struct, frozen=True):
    """Whoever holds a good token. `node`: the one that it may speak for."""

    node: str


class Refusal(Struct, frozen=True):
    """`reason`: a token of ours, for counters; `status`: of HTTP."""

    status: int
    reason: str
    detail: str


def refusal(review: Review, account: str) -> Refusal | None:
    """Why the holder of a token is not an agent; None when it is. `account`: "namespace:name" of the agents' service account."""
    if (
        not review.authenticated and "audience" in review.error
    ):  # the API server looks at audiences before anything else
        return Refusal(401, "wrong-audience", f"The token is not meant for us: {review.error}.")
    if not review.authenticated:
        return Refusal(401, "bad-token", f"The cluster does not know this token: {review.error or 'no reason given'}.")
    if AUDIENCE not in review.audiences:
        return Refusal(401, "wrong-audience", f"The token is not meant for us: its audience must be {AUDIENCE}.")
    if review.user != f"{_ACCOUNT}{account}":
        return Refusal(403, "wrong-account", f"Readings are handed in by service account {account} only.")
    return None


def node_of(review: Review) -> str:
    """The node that the token names; "" when it names none."""
    return next(iter(review.extra.get(NODE, ())), "")


def pod_of(review: Review) -> tuple[str, str] | None:
    """Namespace and name of the pod that the token is bound to; None when it is bound to none."""
    name = next(iter(review.extra.get(POD, ())), "")
    namespace = review.user.removeprefix(_ACCOUNT).partition(":")[0]
    return (namespace, name) if name else None
