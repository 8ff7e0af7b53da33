"""A kind of action: what it is done to, how much is asked before it, its guards, steps and commands.

Owns the shape of an entry in `actions.ACTIONS`. Must not know any entry.
"""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from fleet.domain.losses import Draft
from fleet.domain.plans import Step

SAVE_FIRST = ("save", "first")  # the option of a plan whose pods may lose work


class Danger(StrEnum):
    """How much is asked before it runs."""

    REVERSIBLE = "reversible"  # a short question with two named buttons
    DESTRUCTIVE = "destructive"  # loss, checks, expiry, typed name


class Subject(StrEnum):
    """What it is done to, and how that is named."""

    NODE = "node"  # "node-07"
    WORKLOAD = "workload"  # "Deployment/chat/llm"
    SERVICE = "service"  # "Service/chat/llm"


class ActionKind(Struct, frozen=True):
    """One kind of action. `options`: names of what a person may choose."""

    name: str
    danger: Danger
    guards: tuple[str, ...]
    steps: Callable[[Draft], tuple[Step, ...]]
    kubectl: Callable[[Draft], tuple[str, ...]]
    empties: bool = False  # pods of a node have to go
    ends: bool = False  # pods of a workload end: their controller replaces or removes them
    subject: Subject = Subject.NODE
    options: tuple[str, ...] = ()


def named(target: str) -> str:
    """What somebody types to confirm: the name without kind and namespace."""
    return target.rpartition("/")[2]
