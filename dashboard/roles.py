"""Roles: what a group's name gives its members, everywhere or on one cluster.

Owns the names of groups and which role includes which. Must not know requests, pages or the database.

A Django group named "operator" gives its members that role on every cluster; one named "operator:paris" on the cluster paris
alone. What somebody holds is the higher of the two.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

REHEARSAL_GROUP = "rehearsal"  # accounts whose passwords everybody knows


class Role(StrEnum):
    """What an account may do; a later one includes the earlier ones."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"

    def includes(self, other: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


def higher(one: Role | None, other: Role | None) -> Role | None:
    if one is None or other is None:
        return one or other
    return one if one.includes(other) else other


@dataclass(frozen=True)
class Roles:
    """What one person may do, and where."""

    everywhere: Role | None = None
    by_cluster: Mapping[str, Role] = field(default_factory=dict)

    def on(self, cluster: str) -> Role | None:
        return higher(self.everywhere, self.by_cluster.get(cluster))

    @property
    def highest(self) -> Role | None:
        """On the cluster where it is highest."""
        found = self.everywhere
        for role in self.by_cluster.values():
            found = higher(found, role)
        return found

    def __str__(self) -> str:
        parts = [str(self.everywhere)] if self.everywhere else []
        return ", ".join(parts + [f"{role} on {name}" for name, role in sorted(self.by_cluster.items())])


def group_name(role: Role, cluster: str = "") -> str:
    """The group that gives `role` on `cluster`, "" for every cluster."""
    return f"{role}:{cluster}" if cluster else role.value


def parsed(group_name: str) -> tuple[Role, str] | None:
    """The role and the cluster ("" for every one) that a group gives; None for a group that gives none."""
    word, colon, cluster = group_name.partition(":")
    if word not in set(Role) or (colon and not cluster):
        return None
    return Role(word), cluster


def from_groups(group_names: Iterable[str]) -> Roles:
    """What the members of all these groups hold; other groups do not count."""
    everywhere: Role | None = None
    by_cluster: dict[str, Role] = {}
    for role, cluster in filter(None, map(parsed, group_names)):
        if cluster:
            by_cluster[cluster] = higher(by_cluster.get(cluster), role) or role
        else:
            everywhere = higher(everywhere, role)
    return Roles(everywhere, by_cluster)
