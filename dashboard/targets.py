"""What an action is done to, as pages show it: its name, its own page, and where the same may be asked for again.

Owns addresses alone, and which of the cluster's rights a button asks about. Must not decide whether anybody may.
"""

from typing import Any

from django.urls import reverse

from dashboard import rights
from dashboard.roles import Role
from fleet.domain.actions import ACTIONS
from fleet.domain.kinds import Subject, named


def shown(cluster: str, kind: str, target: str) -> dict[str, Any]:
    """A Service leads to its page as a pair; what no object can be called, to all rollouts."""
    if ACTIONS[kind].subject is Subject.NODE:
        parent, here = "fleet", reverse("node", args=[cluster, target])
        again = reverse("propose", args=[cluster, target, kind])
    elif target.count("/") == 2:
        parts = target.split("/")
        service = parts[0] == "Service"
        parent, own = ("blue-green", "blue-green-pair") if service else ("rollouts", "rollout")
        here = reverse(own, args=[cluster, *(parts[1:] if service else parts)])
        again = reverse("propose-release", args=[cluster, *parts, kind])
    else:
        parent, here, again = "rollouts", reverse("rollouts", args=[cluster]), ""
    return {
        "target_name": named(target),
        "target_url": here,
        "target_parent": parent,
        "parent_url": reverse(parent, args=[cluster]),
        "propose_url": again,
    }


def changes(cluster: str, role: Role | None, kind: str, target: str) -> bool | None:
    """Whether the cluster lets Vigie change it; None unknown, or nothing that a button asks about."""
    if ACTIONS[kind].subject is Subject.NODE:
        return rights.changes_nodes(cluster, role)
    if ACTIONS[kind].subject is Subject.WORKLOAD and target.count("/") == 2:
        of, namespace, _ = target.split("/")
        return rights.changes_workload(cluster, role, of, namespace)
    return None
