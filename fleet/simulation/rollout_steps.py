"""The arithmetic of Deployments: bounds, and how far each ReplicaSet may be scaled in the next step.

Follows kubernetes/pkg/controller/deployment (rolling.go, sync.go, util/deployment_util.go). Pure: ReplicaSets in, sizes out.
"""

from typing import Any

Object = dict[str, Any]
Sizes = dict[str, int]  # ReplicaSet name → wanted size

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"


def size(replica_set: Object) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def available(replica_set: Object) -> int:
    return int(replica_set["status"].get("availableReplicas", 0))


def share(value: int | str, of: int, *, up: bool) -> int:
    """An integer, or a percentage of `of`, rounded up or down in whole numbers. ValueError for other strings."""
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"neither a number nor a percentage: {value!r}")
    points = int(value[:-1]) * of
    return -(-points // 100) if up else points // 100


def is_rolling(deployment: Object) -> bool:
    return bool(deployment["spec"].get("strategy", {}).get("type", "RollingUpdate") == "RollingUpdate")


def surge_and_unavailable(deployment: Object) -> tuple[int, int]:
    """maxSurge rounded up and maxUnavailable rounded down; both 0 becomes one unavailable; never more than there are."""
    if not is_rolling(deployment):
        return 0, 0
    replicas = size(deployment)
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate") or {}
    surge = share(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = share(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, replicas)


def new_size(deployment: Object, every: list[Object], newest: Object | None) -> int:
    """How large the new ReplicaSet may become now."""
    wanted, present = size(deployment), size(newest) if newest else 0
    if not is_rolling(deployment):
        return wanted
    if present > wanted:
        return wanted
    surge, _ = surge_and_unavailable(deployment)
    room = wanted + surge - sum(_alive(r) for r in every)
    return present + min(room, wanted - present) if room > 0 else present


def _alive(replica_set: Object) -> int:
    """Pods that may still be there: a ReplicaSet that was just made smaller has its pods until its status says less.

    The real controller adds up spec sizes only and so may pass its own bound for an instant; this one never does.
    """
    return max(size(replica_set), int(replica_set["status"].get("replicas", 0)))


def old_sizes(deployment: Object, newest: Object, old: list[Object]) -> Sizes:
    """How small the old ReplicaSets may become now: unhealthy pods first, then as far as availability allows."""
    every = [*old, newest]
    _, unavailable = surge_and_unavailable(deployment)
    least = size(deployment) - unavailable
    sizes = {r["metadata"]["name"]: size(r) for r in old}
    may_go = sum(size(r) for r in every) - least - (size(newest) - available(newest))
    if may_go <= 0 or not any(sizes.values()):
        return {}
    oldest_first = sorted(old, key=lambda r: (r["metadata"]["creationTimestamp"], r["metadata"]["name"]))
    for replica_set in oldest_first:
        name = replica_set["metadata"]["name"]
        gone = min(may_go, max(0, sizes[name] - available(replica_set)))
        sizes[name] -= gone
        may_go -= gone
    spare = min(may_go, sum(available(r) for r in every) - least)  # a status that lags must not count twice
    for replica_set in oldest_first:
        name = replica_set["metadata"]["name"]
        gone = min(sizes[name], max(0, spare))
        sizes[name] -= gone
        spare -= gone
    return {r["metadata"]["name"]: s for r in old if (s := sizes[r["metadata"]["name"]]) != size(r)}


def is_saturated(deployment: Object, newest: Object | None) -> bool:
    """The new ReplicaSet is all that there should be."""
    if newest is None:
        return False
    desired = int((newest["metadata"].get("annotations") or {}).get(DESIRED, "-1"))
    wanted = size(deployment)
    return size(newest) == wanted == desired == available(newest)


def scaled_sizes(deployment: Object, newest: Object | None, old: list[Object]) -> Sizes:
    """The sizes that follow from a changed spec.replicas: all to the only active one, else in proportion."""
    every = [*old, *([newest] if newest else [])]
    active = [r for r in every if size(r) > 0]
    wanted = size(deployment)
    if len(active) <= 1:
        only = active[0] if active else newest or (old[-1] if old else None)
        return {only["metadata"]["name"]: wanted} if only is not None and size(only) != wanted else {}
    if is_saturated(deployment, newest):
        return {r["metadata"]["name"]: 0 for r in old if size(r) > 0}
    return _proportional(deployment, active) if is_rolling(deployment) else {}


def _proportional(deployment: Object, active: list[Object]) -> Sizes:
    wanted = size(deployment)
    surge, _ = surge_and_unavailable(deployment)
    to_add = (wanted + surge if wanted else 0) - sum(size(r) for r in active)
    grow = to_add > 0
    active = sorted(active, key=lambda r: r["metadata"]["creationTimestamp"], reverse=grow)
    active.sort(key=size, reverse=True)
    sizes: Sizes = {}
    added = 0
    for replica_set in active:
        part = _fraction(deployment, replica_set, wanted + surge)
        left = to_add - added
        part = min(part, left) if grow else max(part, left)
        sizes[replica_set["metadata"]["name"]] = size(replica_set) + (part if to_add else 0)
        added += part if to_add else 0
    first = active[0]["metadata"]["name"]
    sizes[first] = max(0, sizes[first] + to_add - added)
    return sizes


def _fraction(deployment: Object, replica_set: Object, most: int) -> int:
    """By how much a ReplicaSet changes when the whole changes from its max-replicas annotation to `most`."""
    if size(deployment) == 0:
        return -size(replica_set)
    annotated = int((replica_set["metadata"].get("annotations") or {}).get(MAX, "0"))
    annotated = annotated or int(deployment["status"].get("replicas", 0)) or most
    return (2 * size(replica_set) * most + annotated) // (2 * annotated) - size(replica_set)
