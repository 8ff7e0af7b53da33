"""The Job controller: pods that run to their end, counted exactly once.

Follows kubernetes/pkg/controller/job: a finished pod is first named in uncountedTerminatedPods, then loses its finalizer,
then is counted; so a restart in between counts nothing twice.
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation import podstatus
from fleet.simulation.clock import parse_stamp, stamp
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.history import Change
from fleet.simulation.informer import controller_of, key_of, split_key
from fleet.simulation.ownership import is_active, pod_from_template, without_zeros

Object = dict[str, Any]

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


class Jobs(Controller):
    """Keys are Jobs."""

    name = "job-controller"
    primary = "jobs"
    latency_s = (0.02, 0.4)  # it gathers the changes of pods for up to a second

    def watches(self) -> dict[str, Keys]:
        return {"jobs": _itself, "pods": _owner}

    def sync(self, key: str) -> float | None:
        job = self.informers["jobs"].get(key)
        if job is None:
            return None
        pods = self.informers["pods"].indexed("controller", job["metadata"]["uid"])
        if _condition(job, "Complete") or _condition(job, "Failed"):
            self._release(pods)
            return self._expire(job)
        status = self._tally(job, pods)
        self._conclude(job, status, len(status["uncountedTerminatedPods"].get("succeeded", ())))
        active = [p for p in pods if is_active(p)]
        if _ending(status):
            self._delete(job, active)
        elif "deletionTimestamp" not in job["metadata"]:
            self._manage(job, active, status)
        self._write(job, status)
        self._release([p for p in pods if podstatus.is_finished(p)])
        self._count(key)
        return None

    def _tally(self, job: Object, pods: list[Object]) -> Object:
        """The status before this sync acts: running pods counted, finished ones named as not yet counted."""
        old = job["status"]
        status: Object = {"conditions": [dict(c) for c in old.get("conditions") or []]}
        status["startTime"] = old.get("startTime") or stamp(self.clock.now())
        active = [p for p in pods if is_active(p)]
        waiting = old.get("uncountedTerminatedPods") or {}
        uncounted: dict[str, list[str]] = {k: list(v) for k, v in waiting.items()}
        for pod in pods:
            uid = pod["metadata"]["uid"]
            finished = podstatus.is_finished(pod) and TRACKING in pod["metadata"].get("finalizers", ())
            if finished and not any(uid in uids for uids in uncounted.values()):
                which = "succeeded" if pod["status"]["phase"] == "Succeeded" else "failed"
                uncounted.setdefault(which, []).append(uid)
        status |= {"active": len(active), "succeeded": old.get("succeeded", 0), "failed": old.get("failed", 0)}
        leaving = [p for p in pods if podstatus.is_terminating(p) and not podstatus.is_finished(p)]
        status |= {"terminating": len(leaving), "uncountedTerminatedPods": uncounted}
        status["ready"] = sum(podstatus.is_ready(p) for p in active)
        return status

    def _conclude(self, job: Object, status: Object, fresh: int) -> None:
        """SuccessCriteriaMet or FailureTarget as soon as the outcome is known."""
        if _ending(status):
            return
        spec = job["spec"]
        needed = spec.get("completions", spec.get("parallelism", 1))
        failed = status["failed"] + len(status["uncountedTerminatedPods"].get("failed", ()))
        if status["succeeded"] + fresh >= needed:
            message = "Reached expected number of succeeded pods"
            status["conditions"].append(self._made("SuccessCriteriaMet", "CompletionsReached", message))
        elif failed > spec.get("backoffLimit", 6):
            message = "Job has reached the specified backoff limit"
            status["conditions"].append(self._made("FailureTarget", "BackoffLimitExceeded", message))

    def _manage(self, job: Object, active: list[Object], status: Object) -> None:
        """As many pods as parallelism allows and completions still need."""
        spec = job["spec"]
        if spec.get("suspend"):
            self._delete(job, active)
            return
        parallelism = spec.get("parallelism", 1)
        needed = spec.get("completions", parallelism)
        done = status["succeeded"] + len(status["uncountedTerminatedPods"].get("succeeded", ()))
        wanted = min(parallelism, needed - done)
        if spec.get("podReplacementPolicy", "TerminatingOrFailed") == "Failed":
            wanted -= status["terminating"]
        if len(active) > wanted:
            self._delete(job, active[max(0, wanted) :])
        taken = {_index(p) for p in active} | self._finished_indexes(job)
        free = iter(sorted(set(range(needed)) - taken)) if spec.get("completionMode") == "Indexed" else None
        for _ in range(wanted - len(active)):
            pod = job_pod(job, next(free, None) if free is not None else None)
            made = self.store.create("pods", pod, manager=self.manager)
            self._tell(job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
            status["active"] += 1

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
        if not left and not status.get("active"):
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
        ended = _condition(job, "Complete") or _condition(job, "Failed") or {}
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


def _condition(job: Object, kind: str) -> Object | None:
    found: Object | None = next((c for c in job["status"].get("conditions") or () if c["type"] == kind), None)
    return found


def _ending(status: Object) -> bool:
    return any(c["type"] in {"SuccessCriteriaMet", "FailureTarget"} for c in status.get("conditions") or ())


def _index(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX)
    return int(text) if text is not None else None


def _itself(change: Change) -> Iterable[str]:
    return (key_of(change.object),)


def _owner(change: Change) -> Iterable[str]:
    owner = controller_of(change.object)
    if owner is None or owner["kind"] != "Job":
        return ()
    return (f"{change.object['metadata']['namespace']}/{owner['name']}",)
