"""PodDisruptionBudgets: which pods one selects, how many it lets go, and how a whole drain would fare under them.

Owns label selectors as policy/v1 reads them, the disruption controller's arithmetic (kube-controller-manager, disruption.go) and
the eviction subresource's rules about budgets (eviction.go). Must not ask anybody to go.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from fleet.domain.objects import Budget, LabelSelector, Pod, Requirement, seconds

DISRUPTED_FOR_S = 120.0  # so long an evicted pod counts as gone though it is still there


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a budget's selector selects these labels: no selector selects nothing, an empty one everything (policy/v1)."""
    if selector is None:
        return False
    return selector.match_labels.items() <= labels.items() and all(
        _meets(requirement, labels) for requirement in selector.match_expressions
    )


def selecting(budgets: Iterable[Budget], labels: Mapping[str, str]) -> tuple[str, ...]:
    """Names of those of `budgets` (all of one namespace) that select these labels, sorted."""
    return tuple(sorted(b.metadata.name for b in budgets if selects(b.spec.selector, labels)))


def _meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """As apimachinery's labels.Requirement.Matches: NotIn also holds where the label is missing."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            raise ValueError(f"unknown selector operator {requirement.operator!r}")


class Scale(Struct, frozen=True):
    """What the controller of a pod is set to: `owner` tells controllers apart. `replicas` None: it has no scale (a Job), or, not
    `known`, it is of a kind that we do not read and that may well have one (an Argo Rollout)."""

    owner: str
    replicas: int | None
    known: bool = True


class Standing(StrEnum):
    """How a budget is, for somebody who wants one of its pods to go."""

    OK = "ok"
    WAIT = "wait"  # none now; when missing pods are Ready again, some
    UNREADY = "unready"  # none while its pod is not Ready, and that protects nothing
    NEVER = "never"  # not even with every pod Ready: the budget has to change
    UNKNOWN = "unknown"  # nobody has told what it counts with


class Allowance(Struct, frozen=True):
    """One budget's arithmetic, in pods."""

    expected: int
    healthy: int
    desired: int
    allowed: int
    standing: Standing


def allowance(budget: Budget, pods: Iterable[tuple[Pod, Scale | None]], now: float) -> Allowance:
    """`pods`: those that the budget selects, each with its controller's scale (None: it has no controller).

    Percentages round up, both kinds. A count of `minAvailable` expects the pods that there are; everything else expects what the
    controllers are set to, and leaves bare pods out. Of a controller that we do not read, the server's own count is taken.
    """
    found = list(pods)
    healthy = sum(_healthy(budget, pod, now) for pod, _ in found)
    if _counts_scales(budget) and any(scale is not None and not scale.known for _, scale in found):
        return _told(budget, healthy, found)
    scales = {scale.owner: scale.replicas for _, scale in found if scale is not None}
    expected, desired = _expected(budget, len(found), scales)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    return Allowance(expected, healthy, desired, allowed, _standing(expected, desired, allowed, healthy, found))


def _counts_scales(budget: Budget) -> bool:
    """Whether the budget's arithmetic needs to know what controllers are set to."""
    return budget.spec.max_unavailable is not None or not isinstance(budget.spec.min_available, int)


def _told(budget: Budget, healthy: int, pods: Sequence[tuple[Pod, Scale | None]]) -> Allowance:
    """By the expected and desired pods of the budget's status: its controller asks any kind for its scale. They mean nothing
    before it has seen this version of the budget, or when it could not count (SyncFailed)."""
    status = budget.status
    failed = any(c.type == "DisruptionAllowed" and c.reason == "SyncFailed" for c in status.conditions)
    if failed or status.observed_generation < budget.metadata.generation or status.expected_pods <= 0:
        return Allowance(status.expected_pods, healthy, status.desired_healthy, 0, Standing.UNKNOWN)
    expected, desired = status.expected_pods, status.desired_healthy
    allowed = max(0, min(healthy - desired, status.disruptions_allowed))
    return Allowance(expected, healthy, desired, allowed, _standing(expected, desired, allowed, healthy, pods))


def _expected(budget: Budget, matching: int, scales: Mapping[str, int | None]) -> tuple[int, int]:
    least, most = budget.spec.min_available, budget.spec.max_unavailable
    if most is None and isinstance(least, int):
        return matching, least
    if any(replicas is None for replicas in scales.values()):
        return 0, 0  # a controller without a scale: the disruption controller gives up (SyncFailed)
    expected = sum(replicas or 0 for replicas in scales.values())
    if most is not None:
        return expected, max(0, expected - of(most, expected))
    return expected, of(least or 0, expected)


def of(amount: int | str, whole: int) -> int:
    """A count, or a percentage of `whole` rounded up. Raises ValueError for other text."""
    if isinstance(amount, int):
        return amount
    digits = amount.removesuffix("%")
    if digits == amount or not digits.isdecimal():
        raise ValueError(f"neither a count nor a percentage: {amount!r}")
    return -(-int(digits) * whole // 100)


def _healthy(budget: Budget, pod: Pod, now: float) -> bool:
    disrupted_at = seconds(budget.status.disrupted_pods.get(pod.metadata.name))
    disrupted = disrupted_at is not None and now - disrupted_at < DISRUPTED_FOR_S
    return ready(pod) and pod.metadata.deletion_timestamp is None and not disrupted


def ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


def _standing(
    expected: int, desired: int, allowed: int, healthy: int, pods: Sequence[tuple[Pod, Scale | None]]
) -> Standing:
    if allowed > 0:
        return Standing.OK
    if expected <= 0 or desired >= expected:
        return Standing.NEVER
    running = any(not ready(pod) and pod.status.phase == "Running" for pod, _ in pods)
    return Standing.UNREADY if desired == 0 and healthy == 0 and running else Standing.WAIT


def standing(found: Allowance, allowed: int) -> Standing:
    """How the budget is when the server allows fewer than our own arithmetic."""
    return Standing.WAIT if allowed <= 0 and found.standing is Standing.OK else found.standing


class Permission(StrEnum):
    """What the eviction subresource would say of one pod, budgets alone considered."""

    FREE = "free"  # no budget is asked
    ALLOWED = "allowed"
    BUDGET = "budget"
    UNOBSERVED = "unobserved"  # the controller has not seen the budget's newest version
    TWO_BUDGETS = "two-budgets"


def permission(pod: Pod, over: Sequence[Budget], allowed: Mapping[str, int]) -> Permission:
    """`over`: the budgets that select the pod; `allowed`: what is left of each, by name."""
    if pod.status.phase in {"Pending", "Succeeded", "Failed"} or pod.metadata.deletion_timestamp is not None:
        return Permission.FREE
    if not over:
        return Permission.FREE
    if len(over) > 1:
        return Permission.TWO_BUDGETS
    budget = over[0]
    if not ready(pod) and _unready_may_go(budget):
        return Permission.FREE
    if budget.status.observed_generation < budget.metadata.generation:
        return Permission.UNOBSERVED
    return Permission.ALLOWED if allowed.get(budget.metadata.name, 0) > 0 else Permission.BUDGET


def _unready_may_go(budget: Budget) -> bool:
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    return budget.status.current_healthy >= budget.status.desired_healthy > 0


class Course(StrEnum):
    """How a drain ends under its budgets."""

    FINISHES = "finishes"
    WAITS = "waits"
    UNKNOWN = "unknown"
    NEVER = "never"


class Hold(Struct, frozen=True):
    """Why one pod of a drain cannot go at once. `behind`: how many of the drain's pods have to be replaced before it may go."""

    uid: str
    course: Course
    budgets: tuple[str, ...]
    standing: Standing | None
    behind: int = 0


class Outlook(Struct, frozen=True):
    course: Course
    holds: tuple[Hold, ...] = ()


def outlook(
    pods: Sequence[Pod],
    over: Mapping[str, Sequence[Budget]],
    allowances: Mapping[str, Allowance],
    returning: Collection[str],
) -> Outlook:
    """What becomes of evicting `pods` in this order, when each that goes uses up its budget until its replacement is Ready.

    `over`: budgets by pod UID; `allowances`: by budget key; `returning`: UIDs of pods whose replacement has a place to run.
    The sum counts: each pod alone may be allowed while all together are not.
    """
    walk = _Walk({key: found.allowed for key, found in allowances.items()}, allowances)
    holds = [hold for pod in pods if (hold := walk.step(pod, over.get(pod.metadata.uid, ()), returning)) is not None]
    courses = {hold.course for hold in holds}
    course = next(
        (course for course in (Course.NEVER, Course.UNKNOWN, Course.WAITS) if course in courses), Course.FINISHES
    )
    return Outlook(course, tuple(holds))


class _Walk:
    """The state of one walk over the pods of a drain, by budget key."""

    def __init__(self, left: dict[str, int], allowances: Mapping[str, Allowance]) -> None:
        self._left, self._allowances = left, allowances
        self._gone = Counter[str]()  # charged to it so far
        self._stuck = Counter[str]()  # of them those that nothing will replace

    def step(self, pod: Pod, mine: Sequence[Budget], returning: Collection[str]) -> Hold | None:
        asked = permission(pod, mine, {budget.metadata.name: self._left.get(budget.key, 0) for budget in mine})
        hold = self._hold(pod.metadata.uid, mine, asked)
        charged = asked in {Permission.ALLOWED, Permission.BUDGET, Permission.UNOBSERVED}
        if charged and (hold is None or hold.course is Course.WAITS):
            key = mine[0].key
            self._left[key] = self._left.get(key, 0) - 1
            self._gone[key] += 1
            self._stuck[key] += pod.metadata.uid not in returning
        return hold

    def _hold(self, uid: str, mine: Sequence[Budget], asked: Permission) -> Hold | None:
        names = tuple(sorted(budget.metadata.name for budget in mine))
        match asked:
            case Permission.FREE | Permission.ALLOWED:
                return None
            case Permission.TWO_BUDGETS:
                return Hold(uid, Course.NEVER, names, None)
        key = mine[0].key
        found = self._allowances[key]
        if found.standing is Standing.UNKNOWN:
            return Hold(uid, Course.UNKNOWN, names, found.standing, self._gone[key])
        if asked is Permission.UNOBSERVED and found.standing is not Standing.NEVER:
            return Hold(uid, Course.WAITS, names, Standing.WAIT)
        # With every pod Ready the budget would spare this many; those that nothing replaces are spent for good.
        spare = found.expected - found.desired - self._stuck[key]
        never = found.standing is Standing.NEVER or spare <= 0
        return Hold(uid, Course.NEVER if never else Course.WAITS, names, found.standing, self._gone[key])
