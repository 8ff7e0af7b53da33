"""Rules R19 to R23 and R30: disruption budgets that never let a pod go, protect nothing or too much, and selectors of blue/green
Services that select nothing after the way back.

Owns their conditions and remedies. The arithmetic is `budgets`': both kinds of percentages round up.
"""

from collections.abc import Iterator, Sequence

from fleet.domain import budgets
from fleet.domain.budgets import selects
from fleet.domain.manifests import Deployment, Manifest, Service, StatefulSet
from fleet.domain.objects import Budget
from fleet.domain.readiness_subjects import (
    COLOURS,
    Finding,
    Rule,
    Severity,
    Subject,
    colours,
    identity,
    of_manifest,
)
from fleet.domain.snippets import Value


def findings(subject: Subject) -> Iterator[Finding]:
    yield from _no_budget(subject)
    yield from _two_budgets(subject)
    yield from _colour_not_in_template(subject)


def of_budget(found: Manifest, subjects: Sequence[Subject], services: Sequence[Manifest]) -> Iterator[Finding]:
    """`subjects` and `services`: all of its namespace."""
    budget = found.object
    if not isinstance(budget, Budget):
        return
    mine = [one for one in subjects if selects(budget.spec.selector, one.template.metadata.labels)]
    yield from _never(found, budget, mine)
    if subjects and not mine:
        yield _selects_nothing(found, subjects)
    if budget.spec.unhealthy_pod_eviction_policy != "AlwaysAllow":
        remedy: Value = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
        path = ("spec", "unhealthyPodEvictionPolicy")
        yield of_manifest(found, Rule.UNHEALTHY_EVICTION, Severity.INFO, path, remedy)
    yield from _spans_colours(found, budget, services)


def _never(found: Manifest, budget: Budget, mine: Sequence[Subject]) -> Iterator[Finding]:
    """R19. With an autoscaler the budget never lets a pod go if it does not at the most replicas either."""
    least, most = budget.spec.min_available, budget.spec.max_unavailable
    remedy: Value = {"spec": {"minAvailable": None, "maxUnavailable": 1}}
    if most is not None:
        if str(most).removesuffix("%").lstrip("0") == "":
            yield of_manifest(
                found, Rule.BUDGET_NEVER, Severity.ERROR, ("spec", "maxUnavailable"), remedy, "zero", told=str(most)
            )
        return
    pods = sum(one.most or 0 for one in mine)
    if least is None or pods == 0 or any(one.most is None for one in mine):
        return
    needed = budgets.of(least, pods)
    if needed >= pods:
        path = ("spec", "minAvailable")
        yield of_manifest(
            found, Rule.BUDGET_NEVER, Severity.ERROR, path, remedy, told=str(least), needed=needed, pods=pods
        )


def _selects_nothing(found: Manifest, subjects: Sequence[Subject]) -> Finding:
    """R21."""
    bare = [one for one in subjects if not one.budgets and one.runs_on]
    labels = dict(bare[0].template.metadata.labels) if len(bare) == 1 else {}
    remedy: Value = {"spec": {"selector": {"matchLabels": labels}}} if labels else None
    return of_manifest(found, Rule.BUDGET_SELECTS, Severity.ERROR, ("spec", "selector"), remedy, "nothing")


def _two_budgets(subject: Subject) -> Iterator[Finding]:
    """R21: the eviction subresource refuses a pod of two budgets."""
    if len(subject.budgets) > 1:
        names = ", ".join(sorted(one.object.metadata.name for one in subject.budgets))
        last = subject.budgets[-1]
        head = identity("PodDisruptionBudget", last.object.metadata.name, last.namespace)
        yield subject.finding(
            Rule.BUDGET_SELECTS,
            Severity.ERROR,
            (*subject.at, "metadata", "labels"),
            {**head, "$patch": "delete"},
            "two",
            budgets=names,
        )


def _no_budget(subject: Subject) -> Iterator[Finding]:
    """R20, of what a budget can count."""
    labels = subject.template.metadata.labels
    counted = isinstance(subject.manifest.object, Deployment | StatefulSet)
    if not counted or subject.budgets or max(subject.replicas or 0, subject.most or 0) < 2:
        return
    spec: Value = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": dict(labels)},
    }
    name = subject.manifest.object.metadata.name
    remedy: Value = {**identity("PodDisruptionBudget", name, subject.manifest.namespace), "spec": spec}
    yield subject.finding(Rule.NO_BUDGET, Severity.WARNING, (), remedy, replicas=subject.replicas or 0)


def _spans_colours(found: Manifest, budget: Budget, services: Sequence[Manifest]) -> Iterator[Finding]:
    """R23: whether the selector would select both colours of what a blue/green Service chooses from."""
    for service in services:
        selector = service.object.spec.selector if isinstance(service.object, Service) else {}
        keys = sorted(colours(selector))
        if not keys:
            continue
        sides = [{**selector, **dict.fromkeys(keys, colour)} for colour in sorted(COLOURS)]
        if all(selects(budget.spec.selector, side) for side in sides):
            labels = budget.spec.selector.match_labels if budget.spec.selector else {}
            chosen = {key: selector[key] for key in keys}
            remedy: Value = {"spec": {"selector": {"matchLabels": {**labels, **chosen}}}}
            yield of_manifest(
                found,
                Rule.BUDGET_SPANS_COLOURS,
                Severity.WARNING,
                ("spec", "selector"),
                remedy,
                label=keys[0],
                service=service.object.metadata.name,
            )
            return


def _colour_not_in_template(subject: Subject) -> Iterator[Finding]:
    """R30: switched back to its colour, such a Service selects no pod."""
    labels = subject.template.metadata.labels
    for service in subject.services:
        selector = service.object.spec.selector if isinstance(service.object, Service) else {}
        missing = sorted(key for key in colours(selector) if key not in labels)
        if missing:
            name = subject.manifest.object.metadata.name
            colour = "green" if "green" in name.lower() else "blue"
            remedy = subject.patch(metadata={"labels": dict.fromkeys(missing, colour)})
            yield subject.finding(
                Rule.COLOUR_NOT_IN_TEMPLATE,
                Severity.ERROR,
                (*subject.at, "metadata", "labels"),
                remedy,
                label=missing[0],
                service=service.object.metadata.name,
                chosen=selector[missing[0]],
            )
