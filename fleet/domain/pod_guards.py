"""Guards about the pods of a drain: what would be lost with each, and whether it can go and come back at all.

Owns one function per guard, from a draft to what it found. A guard that finds nothing passes. Must not know which actions run it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from fleet.domain.budgets import Course, Permission, Standing, permission
from fleet.domain.capacity import finished
from fleet.domain.draining import Blocker, Meaning
from fleet.domain.facts import Owner, Saved, gpus, saved, serves, trains, workload
from fleet.domain.first_saves import Cannot, obstacle
from fleet.domain.gangs import gang, gang_gpus
from fleet.domain.losses import DO_NOT_DISRUPT, Draft, comes_back
from fleet.domain.plans import Check, Facts, Outcome
from fleet.domain.scheduling import Unfit
from fleet.domain.specs import FullPod

APPROVER = "approver"
OPERATOR = "operator"

# How to make it save: by this very plan where it can be asked, else what stands against that.
SAVING = {
    None: "save-first",
    Cannot.UNDECLARED: "let-save",
    Cannot.UNREADABLE: "mend-hook",
    Cannot.EXEC_OFF: "allow-exec",
    Cannot.UNPROVED: "grant-store",
}
CHECKPOINT_S = 3600.0  # so much work of a job may be done once more without asking an approver


def unmanaged(draft: Draft) -> Iterator[Check]:
    """Nobody brings the pod back: evicting it is deleting it."""
    for pod in draft.going:
        blocker = draft.blockers.get(pod.metadata.uid)
        alone = pod.controller is None and blocker is not None
        if alone or blocker is Blocker.DAEMON_GONE:
            reason = "daemon-gone" if blocker is Blocker.DAEMON_GONE else "unmanaged"
            yield _block("unmanaged", reason, pod, remedy="make-managed", waivable_by=APPROVER)
    yield from _last_tries(draft)


def _last_tries(draft: Draft) -> Iterator[Check]:
    """An evicted pod of a Job has failed; one failure too many and the Job is given up, with everything it has done."""
    leaving: defaultdict[str, list[FullPod]] = defaultdict(list)
    for pod in draft.going:
        owner = draft.facts.owners.get(pod.metadata.uid)
        if owner is not None and owner.retries is not None and comes_back(pod):
            leaving[owner.key].append(pod)
    for key, pods in leaving.items():
        retries = draft.facts.owners[pods[0].metadata.uid].retries or 0
        if len(pods) > retries:
            evidence: Facts = (("workload", key), ("retries", retries), ("leaving", len(pods)))
            for pod in pods:
                yield _block("unmanaged", "last-try", pod, evidence, remedy="ask-owner", waivable_by=APPROVER)


def daemons_known(draft: Draft) -> Iterator[Check]:
    """Without reading DaemonSets nobody can tell a pod that comes back at once from one that is lost."""
    for pod in draft.facts.target_pods:
        if draft.selection.blockers.get(pod.metadata.uid) is Blocker.DAEMON_UNREADABLE:
            yield _block("daemons-known", "daemon-unreadable", pod, remedy="grant-daemonsets")


def scratch(draft: Draft) -> Iterator[Check]:
    """An emptyDir dies with its pod. Declared scratch is a warning: its team has said that nobody misses it."""
    losses = {pod.uid: pod for pod in draft.loss.pods}
    for pod in draft.going:
        volumes = losses[pod.metadata.uid].scratch if comes_back(pod) or pod.controller is None else ()
        missed = [volume for volume in volumes if not volume.declared and not volume.in_memory]
        for volume in volumes:
            evidence: Facts = (("volume", volume.volume), ("bytes", _number(volume.used_bytes)))
            if volume in missed:
                yield _block("scratch", "undeclared", pod, evidence, remedy="save-or-declare", waivable_by=APPROVER)
            else:
                yield _warn("scratch", "in-memory" if volume.in_memory else "declared", pod, evidence)


def budget_course(draft: Draft) -> Iterator[Check]:
    """The budgets over the whole drain, not over each pod alone."""
    pods = {pod.metadata.uid: pod for pod in draft.going}
    for hold in draft.outlook.holds:
        pod = pods[hold.uid]
        if hold.standing is None:
            continue  # more than one budget: a guard of its own
        found = next((draft.facts.allowances.get(budget.key) for budget in draft.facts.over[hold.uid]), None)
        evidence: Facts = (("budget", hold.budgets[0]), ("behind", hold.behind))
        if found is not None:
            evidence += (("healthy", found.healthy), ("needs", found.desired), ("expected", found.expected))
        if hold.course is Course.UNKNOWN:
            yield _block("budgets", "unknown", pod, evidence, remedy="look-at-budget", waivable_by=APPROVER)
        elif hold.course is Course.NEVER:
            stuck = hold.standing is not Standing.NEVER
            remedy = "make-room" if stuck else "change-budget"
            yield _block("budgets", "no-replacement" if stuck else "never", pod, evidence, remedy)
        else:
            yield _warn("budgets", "unready" if hold.standing is Standing.UNREADY else "waits", pod, evidence)


def budgets_known(draft: Draft) -> Iterator[Check]:
    """Budgets that may not be read are not absent ones."""
    if draft.facts.budgets is None and draft.going:
        yield Check("budgets-known", Outcome.BLOCK, "unreadable", draft.facts.target, remedy="grant-budgets")


def one_budget(draft: Draft) -> Iterator[Check]:
    """The eviction subresource refuses a pod under two budgets, for ever."""
    for pod in draft.going:
        over = draft.facts.over.get(pod.metadata.uid, ())
        if permission(pod, over, {}) is Permission.TWO_BUDGETS:
            names = ", ".join(sorted(budget.metadata.name for budget in over))
            yield _block("one-budget", "two-budgets", pod, (("budgets", names),), remedy="merge-budgets")


def placement(draft: Draft) -> Iterator[Check]:
    """There is a place for every pod that comes back; otherwise its work stops until there is one."""
    pods = {pod.metadata.uid: pod for pod in draft.going}
    for uid, refused in draft.unplaced.items():
        if Unfit.VOLUME in refused:
            continue  # the guard of volumes says it better
        pod = pods[uid]
        evidence: Facts = (
            ("gpus", gpus(pod)),
            *((f"nodes-{reason}", count) for reason, count in refused.most_common()),
        )
        yield _block("placement", "no-place", pod, evidence, remedy="make-room", waivable_by=APPROVER)


def volumes(draft: Draft) -> Iterator[Check]:
    """Local volumes keep a pod to its node; a volume that one node at a time may mount makes its replacement wait."""
    claims, storage = draft.facts.claims or {}, draft.facts.storage or {}
    for pod in filter(comes_back, draft.going):
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            if source is None:
                continue
            claim = claims.get(f"{pod.metadata.namespace}/{source.claim_name}")
            evidence: Facts = (("claim", source.claim_name),)
            if claim is None or (claim.spec.volume_name and claim.spec.volume_name not in storage):
                # It may be a disk of this node: what cannot be read is not elsewhere.
                yield _block("volumes", "claim-unknown", pod, evidence, remedy="grant", waivable_by=APPROVER)
            elif Unfit.VOLUME in draft.unplaced.get(pod.metadata.uid, {}):  # whatever else keeps it off other nodes
                yield _block("volumes", "local", pod, evidence, remedy="move-data", waivable_by=APPROVER)
            elif {"ReadWriteOnce", "ReadWriteOncePod"} & {*claim.spec.access_modes}:
                yield _warn("volumes", "one-node-at-a-time", pod, evidence)


def capacity_of_service(draft: Draft) -> Iterator[Check]:
    """A service keeps at least one Ready pod that stays where it is."""
    if draft.facts.services is None and any(map(comes_back, draft.going)):
        yield Check("service", Outcome.BLOCK, "unreadable", draft.facts.target, (), "grant", APPROVER)
    leaving: defaultdict[str, list[FullPod]] = defaultdict(list)
    for pod in draft.going:
        owner = draft.facts.owners.get(pod.metadata.uid)
        if owner is not None and comes_back(pod) and serves(draft.facts, pod):
            leaving[owner.key].append(pod)
    for key, pods in leaving.items():
        owner = draft.facts.owners[pods[0].metadata.uid]
        evidence: Facts = (("workload", key), ("ready", owner.ready), ("leaving", len(pods)))
        if owner.ready is None or (owner.ready - len(pods) <= 0 and not _one_is_kept(draft, owner, pods)):
            reason = "unknown" if owner.ready is None else "none-left"
            yield _block("service", reason, pods[0], evidence, remedy="add-replica", waivable_by=APPROVER)
        else:
            yield _warn("service", "fewer", pods[0], evidence)


def _one_is_kept(draft: Draft, owner: Owner, pods: Sequence[FullPod]) -> bool:
    """Whether the budget over all of them holds at least one Ready pod of this very workload until another is Ready."""
    over = [draft.facts.over.get(pod.metadata.uid, ()) for pod in pods]
    if owner.ready is None or owner.ready <= 1 or any(len(mine) != 1 for mine in over):
        return False
    found = draft.facts.allowances[over[0][0].key]
    of_others = max(0, found.healthy - owner.ready)
    return found.desired - of_others >= 1


def checkpoint(draft: Draft) -> Iterator[Check]:
    """A training pod loses what it did since its last complete checkpoint; when that is unknown, it may be everything. A reboot
    ends the pods that no drain moves as well. One that is saved first loses little, if what it saves outlives it."""
    first = {uid for save in draft.saves for uid in save.pods}
    for pod in draft.ending:
        if not trains(draft.facts, pod) or finished(pod):
            continue
        evidence: Facts = (("gpus", gpus(pod) + gang_gpus(draft.facts, pod)),)
        newest, durable = saved(draft.facts, pod), _durable(draft, pod)
        if pod.metadata.uid in first and durable:
            found = (("workload", workload(draft.facts, pod)), ("step", newest.step if newest else None))
            yield Check("checkpoint", Outcome.PASS, "saved-first", pod.key, found)
        elif newest is None and pod.metadata.uid not in first:
            unsaved = draft.facts.unsaved.get(pod.metadata.uid)
            reason = unsaved.why if unsaved else "unknown"
            yield _block("checkpoint", reason, pod, evidence, _saving(draft, pod), APPROVER)
        elif not durable:
            reason = "durability-unknown" if durable is None else "dies-with-pod"
            yield _block("checkpoint", reason, pod, evidence, remedy="copy-checkpoint", waivable_by=APPROVER)
        elif newest is not None:
            yield from _since(draft, pod, newest, (*evidence, ("step", newest.step)))


def _durable(draft: Draft, pod: FullPod) -> bool | None:
    """Whether what it saves outlives it: by where it is, else by the word that the policy trusts."""
    newest, unsaved = saved(draft.facts, pod), draft.facts.unsaved.get(pod.metadata.uid)
    durable = newest.durable if newest else unsaved.durable if unsaved else None
    return True if durable is None and _trusted(draft, pod) and (newest is None or newest.reported) else durable


def _trusted(draft: Draft, pod: FullPod) -> bool:
    return workload(draft.facts, pod) in draft.facts.policy.checkpoints.reported


def _since(draft: Draft, pod: FullPod, newest: Saved, evidence: Facts) -> Iterator[Check]:
    age_s = draft.facts.now - newest.lost_since_at
    evidence = (*evidence, ("age_s", age_s))
    if newest.reported and not _trusted(draft, pod):
        yield _block("checkpoint", "reported", pod, evidence, remedy="grant-store", waivable_by=APPROVER)
    elif age_s > CHECKPOINT_S:
        yield _block("checkpoint", "age", pod, evidence, _saving(draft, pod), APPROVER)
    elif age_s > 0:
        yield _warn("checkpoint", "age", pod, evidence)


def _saving(draft: Draft, pod: FullPod) -> str:
    return SAVING[obstacle(draft.facts, pod)]


def gang_members(draft: Draft) -> Iterator[Check]:
    """All ranks of a job stop when one goes."""
    for pod in draft.going:
        others = [other for other in gang(draft.facts, pod) if other.spec.node_name != draft.facts.target]
        if others:
            evidence: Facts = (("pods", len(others)), ("gpus", sum(map(gpus, others))))
            yield _warn("gang", "stops-others", pod, evidence)


def undisturbed(draft: Draft) -> Iterator[Check]:
    """Somebody has written on the pod that it must not be disturbed."""
    for pod in draft.going:
        for name, value in DO_NOT_DISRUPT.items():
            if pod.metadata.annotations.get(name, "").lower() == value:
                yield _block(
                    "undisturbed", "annotated", pod, (("annotation", name),), remedy="ask-owner", waivable_by=APPROVER
                )


def server_accepts(draft: Draft) -> Iterator[Check]:
    """The API server's own answer to an eviction that changes nothing. Budgets and throttling are no refusal for good."""
    reasons = {Meaning.FORBIDDEN: "forbidden", Meaning.REJECTED: "rejected", Meaning.TWO_BUDGETS: "two-budgets"}
    for pod in draft.going:
        answer = draft.facts.dry_runs.get(pod.metadata.uid)
        if answer is not None and answer.meaning in reasons:
            yield _block("server", reasons[answer.meaning], pod, (("message", answer.message),), remedy="see-message")


def requests_known(draft: Draft) -> Iterator[Check]:
    """Requests in flight are lost when a pod does not finish them within its grace; without a metric nobody knows how many."""
    for pod in draft.going:
        if serves(draft.facts, pod) and comes_back(pod):
            found = draft.facts.in_flight.get(pod.metadata.uid)
            grace_s = pod.spec.termination_grace_period_seconds
            if not isinstance(found, int | float):
                yield _warn("requests", "unknown", pod, (("grace_s", grace_s),))
            elif found > 0:
                yield _warn("requests", "in-flight", pod, (("requests", found), ("grace_s", grace_s)))


def _number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) else None


def _block(
    guard: str, reason: str, pod: FullPod, evidence: Facts = (), remedy: str = "", waivable_by: str = ""
) -> Check:
    return Check(guard, Outcome.BLOCK, reason, pod.key, evidence, remedy, waivable_by)


def _warn(guard: str, reason: str, pod: FullPod, evidence: Facts = ()) -> Check:
    return Check(guard, Outcome.WARN, reason, pod.key, evidence)
