"""A plan: what a dangerous action would do, what would be lost, which checks stand against it, and how it goes on.

Owns the shapes that are shown before an action, stored with it and proved afterwards, and their digest. Must not decide anything:
`guards` checks, `draining` chooses pods, `actions` says which steps a kind has. Words are the screens' job: tokens and facts.

Three values everywhere, as in `gpus`: a number, `NA` (nothing of that kind can be lost here), `None` (unknown, which is never 0).
"""

import hashlib
from collections.abc import Iterable
from enum import StrEnum

import msgspec
from msgspec import Struct

from fleet.domain.gpus import Measure
from fleet.domain.revisions import Difference
from fleet.domain.strategy import Advice
from fleet.domain.training import Training

Facts = tuple[tuple[str, str | int | float | None], ...]

LIVES_S = 300.0  # a plan that nobody has confirmed by then is void


class ActionState(StrEnum):
    """PROPOSED → CONFIRMED → RUNNING → SUCCEEDED, FAILED or STOPPED; or REFUSED by a guard, or EXPIRED before it began."""

    PROPOSED = "proposed"
    CONFIRMED = "confirmed"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    REFUSED = "refused"
    EXPIRED = "expired"


ENDED = {
    ActionState.SUCCEEDED,
    ActionState.FAILED,
    ActionState.STOPPED,
    ActionState.REFUSED,
    ActionState.EXPIRED,
}


class StepKind(StrEnum):
    CORDON = "cordon"
    SAVE = "save"  # ask workloads for a checkpoint, each once, and wait until a newer one is complete
    DRAIN = "drain"  # evict the pods of the plan and wait until they are gone, by UID
    RELEASE = "release"  # wait until the driver says that no process is left on the node's GPUs
    REBOOT = "reboot"  # ask for it, then wait for another boot id
    VERIFY = "verify"  # Ready, all GPUs back and well by readings younger than the reboot, driver as before
    UNCORDON = "uncordon"
    PROVE = "prove"  # every evicted pod's workload is whole again elsewhere
    CHANGE = "change"  # write a workload as it was shown
    ROLLOUT = "rollout"  # until `kubectl rollout status` would call it done
    SMOKE = "smoke"  # ask the side that shall serve
    SWITCH = "switch"  # write a Service's selector on the version that was shown
    ENDPOINTS = "endpoints"  # its slices have Ready pods of that side alone
    CREATE = "create"  # the other side of a pair
    BUDGET = "budget"  # its own


class StepState(StrEnum):
    TODO = "todo"
    STARTED = "started"
    WAITING = "waiting"  # the outcome of a try that has to be repeated: due_at says when
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNDONE = "undone"


class LaneState(StrEnum):
    """One pod on its way off a node, in order."""

    QUEUED = "queued"
    ASKED = "asked"  # written down before the request: whoever finds it so has to look whether it was carried out
    HELD = "held"  # its budget refuses; everything else that refuses is in `reason`
    ACCEPTED = "accepted"  # the API server took the eviction
    TERMINATING = "terminating"
    GONE = "gone"  # by UID
    REPLACED = "replaced"  # gone, and its workload has a Ready pod in its place
    FAILED = "failed"
    LEFT = "left"  # was not asked to go when the action stopped


class Outcome(StrEnum):
    PASS = "pass"  # noqa: S105 -- no password
    WARN = "warn"
    BLOCK = "block"


class Check(Struct, frozen=True):
    """What one guard found about one subject."""

    guard: str  # token of `guards.GUARDS`
    outcome: Outcome
    reason: str = ""  # token of a sentence, "" for the guard's own sentence
    subject: str = ""  # pod key, budget, node …
    evidence: Facts = ()
    remedy: str = ""  # token of how to make it safe; "" when it passes
    waivable_by: str = ""  # "" nobody; operator; approver

    @property
    def key(self) -> str:
        """What a waiver names."""
        return f"{self.guard}:{self.subject}"


class Scratch(Struct, frozen=True):
    """One emptyDir that dies with its pod."""

    volume: str
    used_bytes: Measure = None
    in_memory: bool = False
    declared: bool = False  # its team says that it is scratch (vigie.dev/scratch)


class PodLoss(Struct, frozen=True):
    """What the eviction of one pod would cost."""

    uid: str
    namespace: str
    name: str
    node: str
    owner_kind: str = ""
    owner_name: str = ""
    team: str = ""
    gpus: int = 0
    training: bool = False
    serving: bool = False
    work_s: Measure = None  # of a training pod, since its last complete checkpoint
    steps: Measure = None
    requests: Measure = None  # in flight
    warm_up_s: Measure = None  # until a replacement is Ready, measured from earlier pods
    scratch: tuple[Scratch, ...] = ()
    caches: tuple[str, ...] = ()  # what else is lost, by name: model cache, sessions
    gang_gpus: int = 0  # GPUs of other pods that stop with it
    grace_s: float | None = None
    budgets: tuple[str, ...] = ()
    available: int | None = None  # of its workload, now
    needed: int | None = None  # by its budget
    comes_back_on: str = ""  # node with room for it; "" none is known
    saved_at: float | None = None  # of its newest complete checkpoint
    saved_step: int | None = None
    saved_uri: str = ""
    reported: bool = False  # that checkpoint is what the workload says of itself; nobody has read it
    unsaved: str = ""  # why no checkpoint is known, see `facts.Unsaved`
    hook: str = ""  # how it may be asked to save, as its team declares it; "" it cannot be asked
    evicted: bool = True  # False: it stays (DaemonSet, mirror pod) and `stays_because` says why
    stays_because: str = ""


class Loss(Struct, frozen=True):
    """The sum over a plan; unknown when any part of it is."""

    pods: tuple[PodLoss, ...] = ()
    work_s: Measure = 0  # each job once, however many of its pods go
    gpu_hours: Measure = 0
    requests: Measure = 0
    scratch_bytes: Measure = 0


class Save(Struct, frozen=True):
    """One workload that is asked to save first. `uid`: of the pod that is asked, by its `hook`; `pods`: UIDs of those that go and
    lose no more than what they do after it."""

    workload: str
    namespace: str
    pod: str
    uid: str
    hook: str
    training: Training  # where it saves
    pods: tuple[str, ...] = ()


class Step(Struct, frozen=True):
    """One step of a plan, in the order of `Plan.steps`."""

    kind: StepKind
    subject: str
    facts: Facts = ()
    undo: str = ""  # token of what takes it back; "" nothing can
    deadline_s: float = 0.0


class Plan(Struct, frozen=True):
    """`digest` covers what was shown and has to be true still when somebody confirms: all but ages and wordings."""

    cluster: str
    kind: str  # key of `actions.ACTIONS`
    target: str
    target_uid: str
    reason: str
    options: Facts
    made_at: float
    read_at: float  # when the oldest fact was read
    loss: Loss
    checks: tuple[Check, ...]
    steps: tuple[Step, ...]
    kubectl: tuple[str, ...]
    pods: tuple[str, ...] = ()  # UIDs that it would evict, in its order
    saves: tuple[Save, ...] = ()
    seen: tuple[tuple[str, str], ...] = ()  # versions of what it was made for
    differences: tuple[Difference, ...] = ()  # between the templates before and after
    advice: Advice | None = None  # the strategies for a new version; None: there is none, or its pods ask for no GPUs

    @property
    def expires_at(self) -> float:
        return self.made_at + LIVES_S

    @property
    def blocks(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.outcome is Outcome.BLOCK)

    @property
    def digest(self) -> str:
        """SHA-256 over the decision: kind, target, pods by UID, steps, and each check's key with its outcome."""
        decided = (
            self.cluster,
            self.kind,
            self.target,
            self.target_uid,
            self.options,
            self.pods,
            [(save.workload, save.uid, save.hook) for save in self.saves],
            self.seen,
            [(step.kind, step.subject) for step in self.steps],
            sorted((check.key, check.outcome) for check in self.checks if check.outcome is not Outcome.PASS),
        )
        return hashlib.sha256(msgspec.json.encode(decided)).hexdigest()


def total(values: Iterable[Measure]) -> Measure:
    """The sum; unknown when any part is unknown, NA when every part is (or there is none)."""
    found = list(values)
    if any(value is None for value in found):
        return None
    numbers = [value for value in found if isinstance(value, int | float)]
    return sum(numbers) if numbers else "n/a"
