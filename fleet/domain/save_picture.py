"""The row of the picture about one workload's checkpoints.

Owns its shape alone: `save_rows` fills it.
"""

from fleet.domain.rows import Row


class CheckpointRow(Row, frozen=True):
    """One workload that trains. Key: that of its WorkloadRow, or "Pod/namespace/name". Times are seconds since 1970."""

    workload: str
    namespace: str
    team: str = ""
    standing: str = "unknown"  # a `freshness.Standing`
    level: str = "off"  # ok, warn, bad, off, "": data-level of the visual language
    trouble: str = ""  # why it was not read: a reason of `ports.CheckpointStore`, not-granted, no-place, local, no-scan
    uri: str = ""  # where it saves
    place: str = ""  # the same as it declares it
    source: str = "none"  # a `training.Source`
    durability: str = "unknown"  # a `save_sites.Durability`
    volume: str = ""
    claim: str = ""
    hook: str = ""  # how it can be asked to save: http, signal; "" it cannot
    pods: int = 1  # that train together
    format: str = ""  # of the newest, else as declared
    target_s: float | None = None
    observed: bool = False  # nobody declares the target: it is what usually happens
    save_cost_s: float | None = None
    newest_at: float | None = None
    newest_step: int | None = None
    newest_bytes: int | None = None
    newest_uri: str = ""
    components: tuple[
        str, ...
    ] = ()  # weights, optimizer, schedule, position, rng of the newest: `checkpoints.Presence`
    resumable_at: float | None = None
    resumable_step: int | None = None
    stale_at: float | None = None  # from when on it is stale
    lost_since_at: float | None = None  # from when on work is lost if it ends now; None: nobody knows
    step_s: float | None = None  # between its saves
    saving_step: int | None = None
    saving_bytes: int | None = None  # None: no save goes on
    saving_since_at: float | None = None
    abandoned: int = 0
    abandoned_bytes: int = 0
    weights_only: int = 0
    broken_state: str = ""  # of what ought to be the newest; "" it is sound
    broken_step: int | None = None
    broken_why: str = ""  # a `checkpoints.Sign`
    broken_file: str = ""
    broken_at: float | None = None
    tracker: str = ""  # a file that names another one than the newest; "" none does
    tracker_says: str = ""
    skew_s: float = 0.0  # how far in the future the newest was committed
    reported_at: float | None = None
    reported_step: int | None = None
    reported_bytes: int = 0
    started_at: float | None = None
    running_since_at: float | None = None
    unread: tuple[str, ...] = ()  # annotations that make no sense
