"""Rules R07 to R11 and R34: whether a pod that has to go gets the time to go well.

Owns their conditions and remedies. The clock of the grace period starts before the preStop hook. Times are seconds.
"""

from collections.abc import Iterator
from math import ceil
from typing import Final

from fleet.domain import stopping
from fleet.domain.manifests import Container, Path
from fleet.domain.readiness_subjects import Finding, Rule, Severity, Subject
from fleet.domain.saving import LEADS_S, Notice
from fleet.domain.snippets import Value

ENDPOINTS_S: Final = 5  # of a hook that we suggest, for load balancers to hear that the pod goes: the lesson's
SHORT_GRACE_S: Final = 30
# Kubernetes' autoscaler waits so long for a pod when it takes a node away (--max-graceful-termination-sec).
AUTOSCALER_S: Final = 600
NOT_SCALED: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
# What a pod says when it is meant for machines that are taken back at short notice.
SPOT: Final[dict[tuple[str, str], Notice]] = {
    ("eks.amazonaws.com/capacitytype", "spot"): Notice.AWS_SPOT,
    ("karpenter.sh/capacity-type", "spot"): Notice.AWS_SPOT,
    ("cloud.google.com/gke-spot", "true"): Notice.GCP_SPOT,
    ("cloud.google.com/gke-preemptible", "true"): Notice.GCP_SPOT,
    ("kubernetes.azure.com/scalesetpriority", "spot"): Notice.AZURE_SPOT,
}


def findings(subject: Subject) -> Iterator[Finding]:
    for path, container in subject.containers():
        yield from _pre_stop_eats_grace(subject, path, container)
        yield from _sleep_without_shell(subject, path, container)
        yield from _sigterm_lost(subject, path, container)
    yield from _grace_too_short(subject)
    yield from _no_pre_stop(subject)
    yield from _grace_over_notice(subject)


def _grace(subject: Subject) -> Path:
    return (*subject.at, "spec", "terminationGracePeriodSeconds")


def _pre_stop_eats_grace(subject: Subject, path: Path, container: Container) -> Iterator[Finding]:
    """R07."""
    sleep_s, grace_s = stopping.pre_stop_s(container.pre_stop), subject.template.spec.grace_s
    if container.pre_stop is None or sleep_s is None or sleep_s < grace_s:
        return
    need_s = _need(subject)[1]
    remedy = subject.patch({"terminationGracePeriodSeconds": ceil(sleep_s + (need_s or SHORT_GRACE_S))})
    yield subject.finding(
        Rule.PRE_STOP_EATS_GRACE,
        Severity.ERROR,
        (*path, "lifecycle", "preStop"),
        remedy,
        container=container.name,
        sleep_s=sleep_s,
        grace_s=grace_s,
    )


def _need(subject: Subject) -> tuple[str, float | None]:
    """What has to be done after SIGTERM, the longer of saving and draining; None: nobody says."""
    told = [
        (name, s) for name, s in (("save", subject.times.save_s), ("drain", subject.times.drain_s)) if s is not None
    ]
    return max(told, key=lambda one: one[1]) if told else ("", None)


def _grace_too_short(subject: Subject) -> Iterator[Finding]:
    """R08, of the container whose hook takes longest."""
    what, need_s = _need(subject)
    hooks = [(stopping.pre_stop_s(one.pre_stop) or 0.0, one.name) for _, one in subject.containers()]
    sleep_s, name = max(hooks, key=lambda one: one[0], default=(0.0, ""))
    grace_s = subject.template.spec.grace_s
    if need_s is None or grace_s - sleep_s >= need_s:
        return
    yield subject.finding(
        Rule.GRACE_TOO_SHORT,
        Severity.ERROR,
        _grace(subject),
        subject.patch({"terminationGracePeriodSeconds": ceil(sleep_s + need_s)}),
        what,
        container=name,
        left_s=max(0, grace_s - sleep_s),
        need_s=need_s,
        grace_s=grace_s,
        sleep_s=sleep_s,
    )


def _no_pre_stop(subject: Subject) -> Iterator[Finding]:
    """R09."""
    found = list(subject.containers())
    grace_s = subject.template.spec.grace_s
    if not subject.services or not subject.runs_on or not found or grace_s > SHORT_GRACE_S:
        return
    if any(one.pre_stop for _, one in found):
        return
    path, first = found[0]
    hook: Value = {"preStop": {"sleep": {"seconds": ENDPOINTS_S}}}
    remedy = subject.patch_container(path, first, {"lifecycle": hook})
    yield subject.finding(Rule.NO_PRE_STOP, Severity.WARNING, path, remedy, container=first.name, grace_s=grace_s)


def _sleep_without_shell(subject: Subject, path: Path, container: Container) -> Iterator[Finding]:
    """R10."""
    if not stopping.sleeps_by_command(container.pre_stop) or not stopping.lacks_shell(container.image):
        return
    sleep_s = stopping.pre_stop_s(container.pre_stop)
    hook: Value = {"preStop": {"exec": None, "sleep": {"seconds": ceil(sleep_s or ENDPOINTS_S)}}}
    remedy = subject.patch_container(path, container, {"lifecycle": hook})
    at = (*path, "lifecycle", "preStop")
    yield subject.finding(
        Rule.SLEEP_WITHOUT_SHELL, Severity.INFO, at, remedy, container=container.name, image=container.image
    )


def _sigterm_lost(subject: Subject, path: Path, container: Container) -> Iterator[Finding]:
    """R11. With one process namespace for the whole pod the shell is not process 1, and still passes nothing on."""
    script = stopping.loses_sigterm(container)
    if script is None:
        return
    words, better = [*container.command, *container.args], stopping.with_exec(script)
    line: Value = [better if word == script else word for word in words]
    remedy = subject.patch_container(path, container, {"command": line, "args": None}) if better else None
    at = (*path, "command")
    yield subject.finding(Rule.SIGTERM_LOST, Severity.WARNING, at, remedy, container=container.name, shell=words[0])


def _grace_over_notice(subject: Subject) -> Iterator[Finding]:
    """R34."""
    grace_s = subject.template.spec.grace_s
    notice = min((one for one in _notices(subject)), key=LEADS_S.__getitem__, default=None)
    if notice is not None and grace_s > LEADS_S[notice]:
        lead_s = int(LEADS_S[notice])
        remedy = subject.patch({"terminationGracePeriodSeconds": lead_s})
        yield subject.finding(
            Rule.GRACE_OVER_NOTICE,
            Severity.WARNING,
            _grace(subject),
            remedy,
            "spot",
            grace_s=grace_s,
            lead_s=lead_s,
        )
    elif grace_s > AUTOSCALER_S and subject.template.metadata.annotations.get(NOT_SCALED) != "false":
        remedy = subject.patch(metadata={"annotations": {NOT_SCALED: "false"}})
        yield subject.finding(
            Rule.GRACE_OVER_NOTICE,
            Severity.WARNING,
            _grace(subject),
            remedy,
            "autoscaler",
            grace_s=grace_s,
            lead_s=AUTOSCALER_S,
        )


def _notices(subject: Subject) -> Iterator[Notice]:
    """Of the machines that it chooses, or that it tolerates."""
    spec = subject.template.spec
    terms = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    expressions = (each for term in (terms.node_selector_terms if terms else ()) for each in term.match_expressions)
    chosen = [*spec.node_selector.items(), *((t.key, t.value) for t in spec.tolerations)]
    chosen += [(each.key, value) for each in expressions if each.operator == "In" for value in each.values]
    for key, value in chosen:
        if (notice := SPOT.get((key.lower(), value.lower()))) is not None:
            yield notice
