"""What the API server refuses of a pod that is well formed: no such service account, a quota used up.

Follows the admission plugins ServiceAccount and ResourceQuota. Owns counting what a namespace uses. Must not write: the
quotas' status is quotas.py's.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from fleet.simulation.pod_validation import SUFFIXES, quantity
from fleet.simulation.refusals import ApiError, forbidden
from fleet.simulation.resources import RESOURCES

Object = dict[str, Any]
Amounts = dict[str, Decimal]

PODS = RESOURCES["pods"]
FINISHED = frozenset({"Succeeded", "Failed"})
# Resources that a quota may name without "requests.": they mean the requests.
PLAIN = frozenset({"cpu", "memory", "ephemeral-storage"})
BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


def check_account(pod: Object, accounts: Mapping[str, Any]) -> None:
    """ApiError 403 for a pod that names a service account which is not there.

    Every namespace's own "default" counts as there: its controller makes it within moments.
    """
    namespace, name = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName", "default")
    if name != "default" and f"{namespace}/{name}" not in accounts:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden(PODS, pod["metadata"]["name"], why)


def check_quotas(pod: Object, quotas: Iterable[Object], pods: Iterable[Object]) -> None:
    """ApiError 403 when a quota of the namespace does not have room for `pod` beside `pods`."""
    present = list(pods)
    for quota in quotas:
        hard = limits_of(quota)
        asked, used = usage([pod], hard), usage(present, hard)
        unsaid = [k for k in hard if _plain(k) and asked[k] == 0]
        if unsaid:
            raise _missing(pod, quota, unsaid)
        over = [k for k in hard if asked[k] > 0 and used[k] + asked[k] > hard[k]]
        if over:
            raise _exceeded(pod, quota, over, (asked, used, hard))


def limits_of(quota: Object) -> Amounts:
    return {k: quantity(v) or Decimal(0) for k, v in (quota["spec"].get("hard") or {}).items()}


def usage(pods: Iterable[Object], names: Iterable[str]) -> Amounts:
    """How much of each quota resource the pods use that have not finished."""
    used = dict.fromkeys(names, Decimal(0))
    for pod in pods:
        if pod.get("status", {}).get("phase") not in FINISHED:
            for name in used:
                used[name] += _amount(pod, name)
    return used


def _amount(pod: Object, name: str) -> Decimal:
    if name in {"pods", "count/pods"}:
        return Decimal(1)
    kind, _, resource = name.partition(".")
    if kind not in {"requests", "limits"}:
        kind, resource = "requests", name
    containers = pod["spec"].get("containers") or ()
    first = [_container_amount(c, kind, resource) for c in pod["spec"].get("initContainers") or ()]
    return max(sum((_container_amount(c, kind, resource) for c in containers), Decimal(0)), *first, Decimal(0))


def _container_amount(container: Object, kind: str, resource: str) -> Decimal:
    found = (container.get("resources") or {}).get(kind) or {}
    return quantity(found.get(resource, "0")) or Decimal(0)


def _plain(name: str) -> bool:
    """Whether a pod must say how much of it it wants, once a quota counts it."""
    return name.removeprefix("requests.").removeprefix("limits.") in PLAIN


def _missing(pod: Object, quota: Object, unsaid: list[str]) -> ApiError:
    containers = ",".join(sorted(c["name"] for c in pod["spec"].get("containers") or ()))
    listed = "; ".join(f"{name} for: {containers}" for name in sorted(unsaid))
    why = f"failed quota: {quota['metadata']['name']}: must specify {listed}"
    return forbidden(PODS, pod["metadata"]["name"], why)


def _exceeded(pod: Object, quota: Object, over: list[str], amounts: tuple[Amounts, Amounts, Amounts]) -> ApiError:
    asked, used, hard = (_listed(a, over) for a in amounts)
    why = f"exceeded quota: {quota['metadata']['name']}, requested: {asked}, used: {used}, limited: {hard}"
    return forbidden(PODS, pod["metadata"]["name"], why)


def _listed(amounts: Amounts, names: list[str]) -> str:
    return ",".join(f"{n}={shown(amounts[n], n)}" for n in sorted(names))


def shown(value: Decimal, name: str) -> str:
    """A quantity as the server writes it: memory in the largest unit that divides it, fractions in thousandths."""
    if "memory" in name or "storage" in name:
        for unit in BINARY:
            if value and value % SUFFIXES[unit] == 0:
                return f"{int(value / SUFFIXES[unit])}{unit}"
    if value != value.to_integral_value():
        return f"{int(value * 1000)}m"
    return str(int(value))
