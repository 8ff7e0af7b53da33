"""The rows of the picture about rollouts, at display precision; `picture` holds their table.

Owns their shape. Times are absolute, never ages, and come from current objects alone, so load times and ETA are known only as far
as pods that still exist have shown them.
"""

from fleet.domain.rows import Row


class HoldupRow(Row, frozen=True):
    """One reason why a rollout does not get on. Words are the screens' job, apart from what Kubernetes itself says."""

    cause: str  # a `holdups.Cause`
    level: str  # bad: does not pass by itself; warn: it may; note: somebody wants it so
    pods: int = 0  # how many it concerns
    pod: str = ""  # key of the oldest of them
    since_at: float | None = None
    evidence: str = ""
    facts: tuple[tuple[str, str | int | float | None], ...] = ()


class RolloutRow(Row, frozen=True):
    """How far a Deployment, StatefulSet or DaemonSet is with its newest version. Key: that of its WorkloadRow.

    `old` and `new` count pods that are not terminating: the bounds speak of those. GPUs are those that pods hold on nodes.
    """

    kind: str
    strategy: str = "RollingUpdate"  # Recreate, OnDelete
    verdict: str = "done"  # a `rollouts.Verdict`
    step: str = ""  # a `rollouts.Step`: what it waits for, `have` of `want`
    have: int = 0
    want: int = 0
    desired: int = 0
    available: int = 0  # as its controller counts: Ready for long enough
    surge: int | None = None  # None: its strategy has no bounds
    unavailable: int | None = None
    max_pods: int | None = None
    min_available: int | None = None
    partition: int = 0  # of a StatefulSet: so many keep the old version
    paused: bool = False
    revision: str = ""  # of a Deployment: number of the newest version
    was: str = ""  # and of the version that most old pods have
    template: str | None = None  # that new pods have; None: no pod has the newest version yet
    old: int = 0
    new: int = 0
    terminating: int = 0
    old_gpus: int = 0
    new_gpus: int = 0
    terminating_gpus: int = 0
    gpus_per_pod: int = 0  # of the newest version
    gpus_per_old_pod: int = 0  # 0: no old pods
    answering: int = 0  # old pods, terminating ones too, that are Ready and so may still answer requests
    old_stages: tuple[tuple[str, int], ...] = ()  # (stage, pods), those that there are
    new_stages: tuple[tuple[str, int], ...] = ()
    remarks: tuple[str, ...] = ()  # `rollouts.Remark`s: done for kubectl, and yet
    started_at: float | None = None  # the first new pod was made; None not known, or done
    deadline_at: float | None = None  # then its controller gives up unless there is progress
    eta_at: float | None = None  # from the pods seen so far; None unknown, or it will not end like this
    ready_after_s: float | None = None  # from creation to Ready, median of the new pods
    seen: int = 0  # of so many; 0 when it is done
    holdups: tuple[HoldupRow, ...] = ()  # the most serious first
