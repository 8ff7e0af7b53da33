"""Draining: which pods have to go from a node, which stay, why one may not go, in which order, and what an eviction reply means.

Owns kubectl's selection (its drain filters, in its order) and the classification of the eviction subresource's replies. Must not
know budgets' arithmetic (`budgets`) or whether a drain is wise (`guards`).

Sources: kubectl pkg/drain/filters.go and drain.go; kube-apiserver registry/core/pod/storage/eviction.go.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from fleet.domain.capacity import finished
from fleet.domain.objects import Pod, seconds

MIRROR = "kubernetes.io/config.mirror"
BUDGET_RETRY_S = 5.0
THROTTLED_RETRY_S = 1.0
RETRY_S = 5.0


class Stay(StrEnum):
    """Why a pod stays on a node that is drained."""

    DAEMON = "daemon"  # its DaemonSet would put it back at once
    MIRROR = "mirror"  # the kubelet runs it from a file
    TERMINATING = "terminating"  # has been going for longer than we wait for


class Blocker(StrEnum):
    """Why kubectl would refuse to evict a pod without being told to."""

    UNMANAGED = "unmanaged"  # no controller brings it back
    EMPTY_DIR = "empty-dir"
    DAEMON_GONE = "daemon-gone"  # its DaemonSet does not exist: nobody brings it back
    DAEMON_UNREADABLE = "daemon-unreadable"  # we may not see whether its DaemonSet exists


class Options(Struct, frozen=True):
    """What the person has accepted; kubectl's flags by what they mean. Pods of DaemonSets always stay (--ignore-daemonsets)."""

    empty_dir: bool = False  # --delete-emptydir-data
    unmanaged: bool = False  # --force
    skip_terminating_s: float = 0.0  # --skip-wait-for-delete-timeout; 0 waits for all


class Selection(Struct, frozen=True):
    """`evict` in no particular order; `stay` and `blockers` by pod UID."""

    evict: tuple[Pod, ...]
    stay: dict[str, Stay]
    blockers: dict[str, Blocker]

    @property
    def complete(self) -> bool:
        """Whether the drain may begin: one blocked pod and kubectl evicts none."""
        return not self.blockers


def select(pods: Iterable[Pod], daemon_sets: Collection[str] | None, options: Options, now: float) -> Selection:
    """What kubectl drain would do with the pods of a node.

    `daemon_sets`: keys ("namespace/name") of those that exist, None when we may not read them. The filters run in kubectl's order
    and the first that keeps a pod decides.
    """
    evict: list[Pod] = []
    stay: dict[str, Stay] = {}
    blockers: dict[str, Blocker] = {}
    for pod in pods:
        match _verdict(pod, daemon_sets, options, now):
            case Stay() as reason:
                stay[pod.metadata.uid] = reason
            case Blocker() as blocker:
                blockers[pod.metadata.uid] = blocker
            case None:
                evict.append(pod)
    return Selection(tuple(evict), stay, blockers)


def _verdict(pod: Pod, daemon_sets: Collection[str] | None, options: Options, now: float) -> Stay | Blocker | None:
    if _terminating_too_long(pod, options.skip_terminating_s, now):
        return Stay.TERMINATING
    if _of_daemon_set(pod) and not finished(pod):
        verdict = _daemon_verdict(pod, daemon_sets, options)
        if verdict is not None:
            return verdict
    if MIRROR in pod.metadata.annotations:
        return Stay.MIRROR
    return None if finished(pod) else _unaccepted(pod, options)


def _unaccepted(pod: Pod, options: Options) -> Blocker | None:
    if has_empty_dir(pod) and not options.empty_dir:
        return Blocker.EMPTY_DIR
    if pod.controller is None and not options.unmanaged:
        return Blocker.UNMANAGED
    return None


def _terminating_too_long(pod: Pod, limit_s: float, now: float) -> bool:
    """kubectl compares whole seconds, and the deletion timestamp is the end of the grace period already."""
    deleted_at = seconds(pod.metadata.deletion_timestamp)
    return limit_s > 0 and deleted_at is not None and int(now - deleted_at) > limit_s


def _of_daemon_set(pod: Pod) -> bool:
    owner = pod.controller
    return owner is not None and owner.kind == "DaemonSet"


def _daemon_verdict(pod: Pod, daemon_sets: Collection[str] | None, options: Options) -> Stay | Blocker | None:
    if daemon_sets is None:
        return Blocker.DAEMON_UNREADABLE
    owner = pod.controller
    if owner is not None and f"{pod.metadata.namespace}/{owner.name}" in daemon_sets:
        return Stay.DAEMON
    return None if options.unmanaged else Blocker.DAEMON_GONE


def has_empty_dir(pod: Pod) -> bool:
    """Local data that dies with the pod; memory counts too, hostPath does not (it stays on the node)."""
    return any(volume.empty_dir is not None for volume in pod.spec.volumes)


class Cause(Struct, frozen=True):
    reason: str = ""
    message: str = ""


class Reply(Struct, frozen=True):
    """What the API server answered to an eviction. `retry_after_s` None: no such header."""

    status: int
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_s: float | None = None
    terminating: bool = False  # the pod, read again, has a deletion timestamp


class Meaning(StrEnum):
    ACCEPTED = "accepted"  # not gone
    GONE = "gone"  # no pod of that name, or another one under its name
    BUDGET = "budget"  # its budget allows none now
    BUDGET_UNOBSERVED = "budget-unobserved"  # the budget controller has not seen its budget yet
    THROTTLED = "throttled"  # the API server has too much to do
    NAMESPACE = "namespace-terminating"
    FORBIDDEN = "forbidden"
    TWO_BUDGETS = "two-budgets"
    TRY_AGAIN = "try-again"  # a conflict or a fault of the server
    REJECTED = "rejected"  # it will never be taken


PERMANENT = {Meaning.FORBIDDEN, Meaning.TWO_BUDGETS, Meaning.REJECTED}


class Answer(Struct, frozen=True):
    """`retry_in_s` None: do not ask again. `budget`: the name that the server gave, with its `needs` and `has`."""

    meaning: Meaning
    retry_in_s: float | None = None
    budget: str = ""
    needs: int | None = None
    has: int | None = None
    message: str = ""


_NEEDS = re.compile(r"The disruption budget (\S+) needs (\d{1,9}) healthy pods and has (\d{1,9}) currently")
_NAMED = re.compile(r"The disruption budget (\S+) ")


def classify(reply: Reply) -> Answer:
    """What a reply to an eviction with a UID precondition means, and when to ask again."""
    match reply.status:
        case status if 200 <= status < 300:
            return Answer(Meaning.ACCEPTED)
        case 404 | 409:  # 409 is the UID precondition: the original is gone
            return Answer(Meaning.GONE, message=reply.message)
        case 429:
            return _too_many(reply)
        case 403:
            return _forbidden(reply)
        case status if status >= 500:
            return _failed(reply)
    return Answer(Meaning.REJECTED, message=reply.message)


def _failed(reply: Reply) -> Answer:
    if "more than one PodDisruptionBudget" in reply.message:
        return Answer(Meaning.TWO_BUDGETS, message=reply.message)
    return Answer(Meaning.TRY_AGAIN, max(RETRY_S, reply.retry_after_s or 0.0), message=reply.message)


def _too_many(reply: Reply) -> Answer:
    cause = next((cause for cause in reply.causes if cause.reason == "DisruptionBudget"), None)
    if cause is None:
        return Answer(Meaning.THROTTLED, max(THROTTLED_RETRY_S, reply.retry_after_s or 0.0), message=reply.message)
    named = _NAMED.search(cause.message)
    budget = named[1] if named else ""
    if reply.retry_after_s is not None:
        return Answer(Meaning.BUDGET_UNOBSERVED, reply.retry_after_s, budget, message=cause.message)
    needs = _NEEDS.search(cause.message)
    if needs is None:
        return Answer(Meaning.BUDGET, BUDGET_RETRY_S, budget, message=cause.message)
    return Answer(Meaning.BUDGET, BUDGET_RETRY_S, budget, int(needs[2]), int(needs[3]), cause.message)


def _forbidden(reply: Reply) -> Answer:
    if not any(cause.reason == "NamespaceTerminating" for cause in reply.causes):
        return Answer(Meaning.FORBIDDEN, message=reply.message)
    if reply.terminating:
        return Answer(Meaning.ACCEPTED, message=reply.message)
    return Answer(Meaning.NAMESPACE, RETRY_S, message=reply.message)


class Turn(Struct, frozen=True):
    """A pod that has not been accepted yet, as the engine knows it. `order`: its place in the plan."""

    uid: str
    order: int
    tries: int = 0
    retry_at: float = 0.0


def next_turns(turns: Iterable[Turn], now: float) -> Sequence[Turn]:
    """Who may be asked to go now, in order: those that were tried least come first, so that pods which a budget holds never keep
    a free one from its first try. Asking takes no slot; being accepted does."""
    return sorted((turn for turn in turns if turn.retry_at <= now), key=lambda turn: (turn.tries, turn.order))
