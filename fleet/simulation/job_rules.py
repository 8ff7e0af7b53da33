"""What the Job controller decides by: which pods have failed, what a failure means, and how long to wait after it.

Follows kubernetes/pkg/controller/job (pod_failure_policy.go, backoff_utils.go). Pure: Jobs and pods in, decisions out.
"""

from dataclasses import dataclass
from typing import Any

from fleet.simulation import podstatus
from fleet.simulation.clock import parse_stamp

Object = dict[str, Any]

TRACKING = "batch.kubernetes.io/job-tracking"
FIRST_BACK_OFF_S = 10.0
LAST_BACK_OFF_S = 600.0


@dataclass(frozen=True)
class Backoff:
    """Failures since the last success, and when the latest was."""

    failures: int = 0
    last_at: float = 0.0

    def after(self, succeeded: list[Object], failed: list[Object]) -> "Backoff":
        """With these newly finished pods."""
        success_at = max((finished_at(p) for p in succeeded), default=0.0)
        later = [at for p in failed if (at := finished_at(p)) >= success_at]
        count = len(later) + (0 if succeeded else self.failures)
        last_at = max(later, default=0.0 if succeeded else self.last_at)
        return Backoff(count, last_at)

    def wait_s(self, now: float) -> float:
        """How long no new pod may be made: 10 s after a failure, twice as long after each more, at most 10 min."""
        if not self.failures:
            return 0.0
        pause_s = min(LAST_BACK_OFF_S, FIRST_BACK_OFF_S * 2.0 ** min(self.failures - 1, 10))
        return max(0.0, self.last_at + pause_s - now)


def finished_at(pod: Object) -> float:
    """When a pod ended: its containers', else when it became unready, else when it was asked to go."""
    ends = [c["state"]["terminated"]["finishedAt"] for c in pod["status"].get("containerStatuses") or () if _ended(c)]
    containers = pod["spec"]["containers"]
    if ends and len(ends) == len(containers):
        return max(parse_stamp(e) for e in ends)
    ready = podstatus.condition(pod["status"], "Ready")
    if ready is not None and ready["status"] == "False":
        return parse_stamp(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if "deletionTimestamp" in metadata:
        return parse_stamp(metadata["deletionTimestamp"]) - float(metadata.get("deletionGracePeriodSeconds", 0))
    return parse_stamp(metadata["creationTimestamp"])


def _ended(container: Object) -> bool:
    return "terminated" in container["state"]


def replaces_only_failed(job: Object) -> bool:
    """A pod on its way out counts once it has really failed, and is replaced only then."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def has_failed(job: Object, pod: Object) -> bool:
    if pod["status"].get("phase") == "Failed":
        return True
    going = podstatus.is_terminating(pod) and pod["status"].get("phase") != "Succeeded"
    return going and not replaces_only_failed(job)


@dataclass(frozen=True)
class Verdict:
    """What a Job's podFailurePolicy says of one failed pod. `message` is set for FailJob."""

    counts: bool = True
    message: str = ""


def verdict(job: Object, pod: Object) -> Verdict:
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    for index, rule in enumerate(rules):
        why = _matches(rule, pod)
        if not why:
            continue
        if rule["action"] == "FailJob":
            return Verdict(message=f"{why} matching FailJob rule at index {index}")
        return Verdict(counts=rule["action"] != "Ignore")
    return Verdict()


def _matches(rule: Object, pod: Object) -> str:
    """Why a rule matches, "" when it does not."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    if rule.get("onExitCodes"):
        wanted = rule["onExitCodes"]
        for container in pod["status"].get("containerStatuses") or ():
            code = container["state"].get("terminated", {}).get("exitCode", 0)
            listed = (code in wanted["values"]) == (wanted["operator"] == "In")
            if code and listed and wanted.get("containerName") in {None, container["name"]}:
                return f"Container {container['name']} for pod {name} failed with exit code {code}"
        return ""
    for condition in rule.get("onPodConditions") or ():
        found = podstatus.condition(pod["status"], condition["type"])
        if found is not None and found["status"] == condition.get("status", "True"):
            return f"Pod {name} has condition {condition['type']}"
    return ""
