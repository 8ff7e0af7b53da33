"""PodDisruptionBudgets: which pods one selects.

Owns label selectors as policy/v1 reads them. Must not know evictions.
"""

from collections.abc import Iterable, Mapping

from fleet.domain.objects import Budget, LabelSelector, Requirement


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
