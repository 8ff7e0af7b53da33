"""The buttons of a node and of a workload: one for each kind of action, off with the reason where it may not be done.

Owns which of them are shown in which state. Must not decide anything: the server refuses whatever a button offered.
"""

from dataclasses import dataclass

from dashboard.panels.words import Text, say
from dashboard.roles import Role
from fleet.domain.actions import ACTIONS
from fleet.domain.kinds import ActionKind, Danger, Subject

# A node that is open can be cordoned and one that is not can be uncordoned; everything else is always offered.
WHEN = {"cordon": "open", "uncordon": "closed"}


@dataclass(frozen=True, slots=True)
class Button:
    """`off`: why it is off, "" when it is not. `when`: open, closed, or "" for always."""

    kind: str
    title: Text
    plain: Text  # without the sign that more is asked
    means: Text
    off: Text
    when: str
    hidden: bool
    quick: bool  # asked for in a dialog; else on a page of its own


def buttons(
    node: str, role: Role | None, *, unschedulable: bool, changeable: bool, allowed: bool | None
) -> list[Button]:
    """`changeable`: the site lets Vigie change the cluster. `allowed`: the cluster lets Vigie change nodes, None unknown."""
    off = why_off(role, changeable=changeable, allowed=allowed)
    now = "closed" if unschedulable else "open"
    return [
        _button(kind, node, off, when=WHEN.get(kind.name, ""), hidden=WHEN.get(kind.name, now) != now)
        for kind in ACTIONS.values()
        if kind.subject is Subject.NODE
    ]


# Kinds of workloads that an action is for; all of them where none are named.
ONLY = {"pause": {"Deployment"}, "resume": {"Deployment"}, "scale": {"Deployment", "StatefulSet"}}


def of_workload(
    kind: str, name: str, role: Role | None, *, paused: bool, changeable: bool, allowed: bool | None
) -> list[Button]:
    """One for each kind of action on a workload of this kind; a paused one can be resumed, any other paused."""
    off = why_off(role, changeable=changeable, allowed=allowed)
    gone = "pause" if paused else "resume"
    return [
        _button(one, name, off)
        for one in ACTIONS.values()
        if one.subject is Subject.WORKLOAD and one.name != gone and kind in ONLY.get(one.name, {kind})
    ]


def _button(kind: ActionKind, name: str, off: Text, *, when: str = "", hidden: bool = False) -> Button:
    return Button(
        kind=kind.name,
        title=title(kind.name, name),
        plain=say(f"act.do.{kind.name}", node=name),
        means=say(f"act.means.{kind.name}"),
        off=off,
        when=when,
        hidden=hidden,
        quick=kind.danger is Danger.REVERSIBLE,
    )


def title(kind: str, node: str) -> Text:
    return say("act.more", do=say(f"act.do.{kind}", node=node))


def why_off(role: Role | None, *, changeable: bool, allowed: bool | None) -> Text:
    """The first thing that stands in the way, "" for nothing that is known."""
    if role is None or not role.includes(Role.OPERATOR):
        return say("act.off.role")
    if not changeable:
        return say("act.off.read-only")
    return say("act.off.rights") if allowed is False else ""
