"""What the Help page says about GPUs: states, actions with their commands, every rule with its source, and NVIDIA's errors.

Owns nothing but the order: rules, sources and opinions are the domain's tables. Must not list anything that does not exist.
"""

from collections.abc import Iterable

import msgspec

from dashboard.panels import verdict
from dashboard.panels.gpus import rule
from dashboard.panels.help import Entry
from dashboard.panels.words import say
from fleet.domain import health, xid, xid_catalogue
from fleet.domain.gpus import DeviceState, Fault, FaultKind, GpuAction
from fleet.domain.picture import GpuRow


def devices() -> list[Entry]:
    """Best first."""
    found = []
    for state in DeviceState:
        level, glyph = verdict.LEVELS[verdict.level_of(state)]
        found.append(Entry(say(f"device.{state}"), say(f"help.device.{state}"), level=level, glyph=glyph))
    return found


def actions() -> list[Entry]:
    """Mildest first, with what to type."""
    row = GpuRow("NODE", 0, "UUID", pods=("NAMESPACE/POD",))
    return [Entry(say(f"action.{action}"), "", labels=_commands(row, action)) for action in GpuAction]


def _commands(row: GpuRow, action: GpuAction) -> tuple[str, ...]:
    found = verdict.steps(msgspec.structs.replace(row, action=action))
    return tuple(step.command for step in found if step.command)


def rules() -> list[Entry]:
    return [Entry(rule(token), source, labels=(token,)) for token, source in health.RULES.items()]


def errors() -> list[Entry]:
    """NVIDIA's Xid codes: what each is about, what NVIDIA says, what Vigie makes of it, and who sees it differently."""
    return [_error(code, entry) for code, entry in sorted(xid_catalogue.ENTRIES.items())]


def _error(code: int, entry: xid_catalogue.Entry) -> Entry:
    ours = xid.classify(Fault(kind=FaultKind.XID, at=0, code=code, pci="0000:01:00.0"))
    others = {who: says for who, says in xid_catalogue.opinions(code).items() if who != xid_catalogue.AUTHORITIES[0]}
    meaning = (
        entry.subject,
        say("help.xid.nvidia", immediate=entry.immediate.value),
        say("help.xid.vigie", state=say(f"device.{ours.state}"), action=say(f"action.{ours.action}")),
        *(say("help.xid.other", who=who, says=says) for who, says in others.items()),
    )
    return Entry(rule(ours.rule), meaning)


def sections() -> Iterable[tuple[str, list[Entry]]]:
    return (("devices", devices()), ("actions", actions()), ("rules", rules()), ("errors", errors()))
