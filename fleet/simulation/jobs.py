"""The Job controller: pods that run to their end, counted exactly once.

Follows kubernetes/pkg/controller/job: a finished pod is first named in uncountedTerminatedPods, then loses its finalizer,
then is counted; so a restart in between counts nothing twice.
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation import podstatus
from fleet.simulation.clock import parse_stamp, stamp
from fleet.simulation.controller import Controller, Keys, Process
from fleet.simulation.history import Change
from fleet.simulation.informer import controller_of, key_of, split_key
from fleet.simulation.job_rules import TRACKING, Backoff, has_failed, replaces_only_failed, verdict
from fleet.simulation.ownership import is_active, pod_from_template, without_zeros

Object = dict[str, Any]

INDEX = "batch.kubernetes.io/job-completion-index"


class Jobs(Controller):
    """Keys are Jobs."""

    name = "job-controller"
    primary = "jobs"
    latency_s = (0.008, 0.02)
    GATHER_S = 1.0  # changes of pods and of the status are gathered for so long

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._backoffs: dict[str, Backoff] = {}  # by the Job's uid: in memory, as in the real one

    def watches(self) -> dict[str, Keys]:
        return {"jobs": self._job_changed, "pods": _owner}

    def delay_s(self, change: Change) -> float:
        """At once only when somebody made a Job or changed its spec."""
        job, before = change.object, change.previous
        spec = job["kind"] == "Job" and (before is None or before["spec"] != job["spec"])
        return super().delay_s(change) if spec else self.GATHER_S

    def _job_changed(self, change: Change) -> Iterable[str]:
        if change.type == "DELETED":
            self._backoffs.pop(change.object["metadata"]["uid"], None)
        return (key_of(change.object),)

    def sync(self, key: str) -> float | None:
        job = self.informers["jobs"].get(key)
        if job is None:
            return None
        pods = self.informers["pods"].indexed("controller", job["metadata"]["uid"])
        if _condition(job["status"], "Complete") or _condition(job["status"], "Failed"):
            self._release(pods)
            return self._expire(job)
        status, backoff = self._tally(job, pods)
        self._conclude(job, status, pods)
        active = [p for p in pods if is_active(p)]
        again_s = None
        if _ending(status):
            self._let_go(job, active, status)
        elif "deletionTimestamp" not in job["metadata"]:
            again_s = self._manage(job, active, status, backoff)
        self._write(job, status)
        self._release([p for p in pods if podstatus.is_finished(p) or has_failed(job, p)])
        self._backoffs[job["metadata"]["uid"]] = backoff
        self._count(key)
        return again_s

    def _tally(self, job: Object, pods: list[Object]) -> tuple[Object, Backoff]:
        """The status before this sync acts: running pods counted, newly finished ones named as not yet counted."""
        old = job["status"]
        status: Object = {"conditions": [dict(c) for c in old.get("conditions") or []]}
        if old.get("startTime") or not job["spec"].get("suspend"):
            status["startTime"] = old.get("startTime") or stamp(self.clock.now())
        waiting = old.get("uncountedTerminatedPods") or {}
        uncounted: dict[str, list[str]] = {k: list(v) for k, v in waiting.items()}
        named = {uid for uids in uncounted.values() for uid in uids}
        fresh = [
            p for p in pods if p["metadata"]["uid"] not in named and TRACKING in p["metadata"].get("finalizers", ())
        ]
        succeeded = [p for p in fresh if p["status"].get("phase") == "Succeeded"]
        failed = [p for p in fresh if has_failed(job, p)]
        counted = [p for p in failed if verdict(job, p).counts]
        for which, group in (("succeeded", succeeded), ("failed", counted)):
            if group:
                uncounted.setdefault(which, []).extend(p["metadata"]["uid"] for p in group)
        active = [p for p in pods if is_active(p)]
        status |= {"active": len(active), "succeeded": old.get("succeeded", 0), "failed": old.get("failed", 0)}
        leaving = [p for p in pods if podstatus.is_terminating(p) and not podstatus.is_finished(p)]
        status |= {"terminating": len(leaving), "uncountedTerminatedPods": uncounted}
        status["ready"] = sum(podstatus.is_ready(p) for p in active)
        return status, self._backoffs.get(job["metadata"]["uid"], Backoff()).after(succeeded, failed)

    def _conclude(self, job: Object, status: Object, pods: list[Object]) -> None:
        """SuccessCriteriaMet or FailureTarget as soon as the outcome is known."""
        if _ending(status):
            return
        spec, uncounted = job["spec"], status["uncountedTerminatedPods"]
        needed = spec.get("completions", spec.get("parallelism", 1))
        failed = status["failed"] + len(uncounted.get("failed", ()))
        fatal = next((v.message for p in pods if has_failed(job, p) and (v := verdict(job, p)).message), "")
        if fatal:
            status["conditions"].append(self._made("FailureTarget", "PodFailurePolicy", fatal))
        elif failed > spec.get("backoffLimit", 6):
            message = "Job has reached the specified backoff limit"
            status["conditions"].append(self._made("FailureTarget", "BackoffLimitExceeded", message))
        elif self._is_overdue(job, status):
            message = "Job was active longer than specified deadline"
            status["conditions"].append(self._made("FailureTarget", "DeadlineExceeded", message))
        elif status["succeeded"] + len(uncounted.get("succeeded", ())) >= needed:
            message = "Reached expected number of succeeded pods"
            status["conditions"].append(self._made("SuccessCriteriaMet", "CompletionsReached", message))

    def _is_overdue(self, job: Object, status: Object) -> bool:
        deadline_s = job["spec"].get("activeDeadlineSeconds")
        begun = status.get("startTime")
        if deadline_s is None or begun is None or job["spec"].get("suspend"):
            return False
        return self.clock.now() - parse_stamp(begun) >= float(deadline_s)

    def _manage(self, job: Object, active: list[Object], status: Object, backoff: Backoff) -> float | None:
        """As many pods as parallelism allows and completions still need; seconds to wait after a failure."""
        spec = job["spec"]
        if spec.get("suspend"):
            self._suspend(job, active, status)
            return None
        self._resume(job, status)
        parallelism = spec.get("parallelism", 1)
        needed = spec.get("completions", parallelism)
        done = status["succeeded"] + len(status["uncountedTerminatedPods"].get("succeeded", ()))
        wanted = min(parallelism, needed - done)
        if replaces_only_failed(job):
            wanted -= status["terminating"]
        if len(active) > wanted:
            self._let_go(job, active[max(0, wanted) :], status)
        if len(active) >= wanted:
            return self._until_deadline_s(job, status)
        wait_s = backoff.wait_s(self.clock.now())
        if wait_s > 0:
            return wait_s
        self._create(job, active, needed, wanted - len(active))
        status["active"] += wanted - len(active)
        return self._until_deadline_s(job, status)

    def _until_deadline_s(self, job: Object, status: Object) -> float | None:
        deadline_s = job["spec"].get("activeDeadlineSeconds")
        if deadline_s is None:
            return None
        return max(0.0, parse_stamp(status["startTime"]) + float(deadline_s) - self.clock.now())

    def _create(self, job: Object, active: list[Object], needed: int, count: int) -> None:
        taken = {_index(p) for p in active} | self._finished_indexes(job)
        indexed = job["spec"].get("completionMode") == "Indexed"
        free = iter(sorted(set(range(needed)) - taken)) if indexed else None
        for _ in range(count):
            pod = job_pod(job, next(free, None) if free is not None else None)
            made = self.store.create("pods", pod, manager=self.manager)
            self._tell(job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    def _suspend(self, job: Object, active: list[Object], status: Object) -> None:
        self._let_go(job, active, status)
        if self._set_suspended(status, "True", "JobSuspended", "Job suspended"):
            self._tell(job, "Suspended", "Job suspended")

    def _resume(self, job: Object, status: Object) -> None:
        known = _condition(status, "Suspended")
        if known is not None and self._set_suspended(status, "False", "JobResumed", "Job resumed"):
            status["startTime"] = stamp(self.clock.now())
            self._tell(job, "Resumed", "Job resumed")

    def _set_suspended(self, status: Object, value: str, reason: str, message: str) -> bool:
        known = _condition(status, "Suspended")
        if known is not None and known["status"] == value:
            return False
        others = [c for c in status["conditions"] if c["type"] != "Suspended"]
        made = {**self._made("Suspended", reason, message), "status": value}
        status["conditions"] = [*others, made]
        return True

    def _let_go(self, job: Object, pods: list[Object], status: Object) -> None:
        """Delete pods that are still active; none of them counts as failed."""
        self._release(pods)
        self._delete(job, pods)
        status["active"] -= len(pods)
        status["terminating"] += len(pods)
        status["ready"] -= sum(podstatus.is_ready(p) for p in pods)

    def _finished_indexes(self, job: Object) -> set[int]:
        pods = self.informers["pods"].indexed("controller", job["metadata"]["uid"])
        return {i for p in pods if p["status"].get("phase") == "Succeeded" and (i := _index(p)) is not None}

    def _count(self, key: str) -> None:
        """Move what has lost its finalizer from the uncounted to the counts, and end the Job when it has ended."""
        job = self.informers["jobs"].get(key)
        if job is None:
            return
        status: Object = dict(job["status"])
        uncounted = status.get("uncountedTerminatedPods") or {}
        held = {
            p["metadata"]["uid"]
            for p in self.informers["pods"].indexed("controller", job["metadata"]["uid"])
            if TRACKING in p["metadata"].get("finalizers", ())
        }
        left: dict[str, list[str]] = {}
        for which, uids in uncounted.items():
            still = [u for u in uids if u in held]
            status[which] = status.get(which, 0) + len(uids) - len(still)
            if still:
                left[which] = still
        status["uncountedTerminatedPods"] = left
        if not left and not status.get("active") and not status.get("terminating"):
            self._close(job, status)
        self._write(job, status)

    def _close(self, job: Object, status: Object) -> None:
        """Complete or Failed, once everything is counted."""
        for early, final in (("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")):
            cause = next((c for c in status.get("conditions") or () if c["type"] == early), None)
            if cause is None:
                continue
            status["conditions"] = [
                *status["conditions"],
                self._made(final, cause["reason"], cause["message"]),
            ]
            if final == "Complete":
                status["completionTime"] = stamp(self.clock.now())
                self._tell(job, "Completed", "Job completed")
            else:
                self._tell(job, cause["reason"], cause["message"], kind="Warning")

    def _expire(self, job: Object) -> float | None:
        """ttlSecondsAfterFinished."""
        ttl_s = job["spec"].get("ttlSecondsAfterFinished")
        if ttl_s is None:
            return None
        ended = _condition(job["status"], "Complete") or _condition(job["status"], "Failed") or {}
        wait_s: float = parse_stamp(ended["lastTransitionTime"]) + ttl_s - self.clock.now()
        if wait_s > 0:
            return wait_s
        namespace, name = split_key(key_of(job))
        self.store.delete("jobs", namespace, name, uid=job["metadata"]["uid"])
        return None

    def _delete(self, job: Object, pods: list[Object]) -> None:
        for pod in pods:
            namespace, name = split_key(key_of(pod))
            self.store.delete("pods", namespace, name, uid=pod["metadata"]["uid"])
            self._tell(job, "SuccessfulDelete", f"Deleted pod: {name}")

    def _release(self, pods: list[Object]) -> None:
        for pod in pods:
            if TRACKING in pod["metadata"].get("finalizers", ()):
                namespace, name = split_key(key_of(pod))
                self.store.mutate("pods", namespace, name, _untracked, manager=self.manager)

    def _write(self, job: Object, status: Object) -> None:
        counts = without_zeros({k: status.get(k, 0) for k in ("active", "succeeded", "failed")})
        order = (
            "conditions",
            "startTime",
            "completionTime",
            "active",
            "succeeded",
            "failed",
            "terminating",
            "uncountedTerminatedPods",
            "ready",
        )
        known = {**status, **{k: counts.get(k) for k in ("active", "succeeded", "failed")}}
        shown = {k: known[k] for k in order if known.get(k) is not None and known[k] != []}
        if shown == job["status"]:
            return
        namespace, name = split_key(key_of(job))
        self.store.mutate(
            "jobs",
            namespace,
            name,
            lambda draft: {**draft, "status": shown},
            manager=self.manager,
            subresource="status",
        )

    def _made(self, kind: str, reason: str, message: str) -> Object:
        now = stamp(self.clock.now())
        times = {"lastProbeTime": now, "lastTransitionTime": now}
        return {"type": kind, "status": "True", **times, "reason": reason, "message": message}

    def _tell(self, job: Object, reason: str, message: str, kind: str = "Normal") -> None:
        self.recorder.core(job, reason, message, component=self.name, kind=kind)


def job_pod(job: Object, index: int | None) -> Object:
    """A pod of a Job; with an index when it is Indexed."""
    pod = pod_from_template(job, job["spec"]["template"])
    pod["metadata"]["finalizers"] = [TRACKING]
    if index is not None:
        name = job["metadata"]["name"]
        pod["metadata"]["generateName"] = f"{name}-{index}-"
        pod["metadata"].setdefault("annotations", {})[INDEX] = str(index)
        pod["metadata"]["labels"][INDEX] = str(index)
        pod["spec"] = {**pod["spec"], "hostname": f"{name}-{index}"}
    return pod


def _untracked(pod: Object) -> None:
    left = [f for f in pod["metadata"].get("finalizers", ()) if f != TRACKING]
    if left:
        pod["metadata"]["finalizers"] = left
    else:
        pod["metadata"].pop("finalizers", None)


def _condition(status: Object, kind: str) -> Object | None:
    found: Object | None = next((c for c in status.get("conditions") or () if c["type"] == kind), None)
    return found


def _ending(status: Object) -> bool:
    return any(c["type"] in {"SuccessCriteriaMet", "FailureTarget"} for c in status.get("conditions") or ())


def _index(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX)
    return int(text) if text is not None else None


def _owner(change: Change) -> Iterable[str]:
    owner = controller_of(change.object)
    if owner is None or owner["kind"] != "Job":
        return ()
    return (f"{change.object['metadata']['namespace']}/{owner['name']}",)
