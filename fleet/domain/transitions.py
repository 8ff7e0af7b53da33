"""What the ledger is told of a GPU after a reading: one row that changes its state, and rows for findings that came or went.

Owns the choice of the reason. Must not judge: it compares what was remembered with what is remembered now.
"""

from collections.abc import Iterator
from typing import Final

from fleet.domain.findings import Docket
from fleet.domain.gpus import DeviceState, GpuAction
from fleet.domain.intake import reported_once
from fleet.domain.picture import FindingRow
from fleet.domain.verdicts import NOT_OWNED, Fact, GpuHealth, Transition, severity

QUIET: Final = frozenset(
    (DeviceState.OK, DeviceState.UNKNOWN)
)  # notes, and not knowing: told only as a change of state


def transitions(
    node: str, key: str, boot_id: str, before: GpuHealth | None, after: GpuHealth, docket: Docket
) -> Iterator[Transition]:
    """Nothing, as a rule: most readings bring no news. All rows of one reading end in the same state."""
    changed = before is None or (before.state, before.soft, before.planned) != (after.state, after.soft, after.planned)
    if not changed and not docket.opened and not docket.closed:
        return
    left = NOT_OWNED if before is None else before.state

    def row(from_state: str, finding: FindingRow | None, closes: str = "") -> Transition:
        return Transition(
            node=node,
            gpu=key,
            at=docket.at,
            from_state=from_state,
            to_state=after.state,
            soft=after.soft,
            reason=finding.rule if finding else "",
            action=finding.action if finding and not closes else GpuAction.NONE if closes else after.action,
            evidence=evidence(after, finding),
            boot_id=boot_id,
            planned=after.planned,
            closes=closes,
        )

    cause, how = _cause(before, after, docket)
    if changed:
        yield row(left, cause, how)
    for finding in docket.opened:
        if not (changed and finding is cause) and (finding.state not in QUIET or reported_once(finding)):
            yield row(after.state, finding)
    for finding, closes in docket.closed:
        news = finding.state not in QUIET and closes != "expired"
        if news and not (changed and finding is cause):
            yield row(after.state, finding, closes)


def left_fleet(node: str, key: str, boot_id: str, before: GpuHealth, at: float, closes: str) -> Iterator[Transition]:
    """A GPU that is no longer ours: one row per open finding, or one without a reason."""
    open_: list[FindingRow | None] = [finding for finding in before.findings if finding.state != DeviceState.OK]
    for place, finding in enumerate(open_ or [None]):
        yield Transition(
            node=node,
            gpu=key,
            at=at,
            from_state=NOT_OWNED if place else before.state,
            to_state=NOT_OWNED,
            reason=finding.rule if finding else "",
            evidence=evidence(before, finding),
            boot_id=boot_id,
            closes=closes,
        )


def evidence(health: GpuHealth, finding: FindingRow | None) -> dict[str, Fact]:
    """What a person needs to believe it later, when the GPU has another index."""
    facts: dict[str, Fact] = {"index": health.gpu.index, "pci": health.gpu.pci, "name": health.gpu.name}
    if finding is not None:
        facts |= dict(finding.facts)
        facts |= {
            "text": finding.evidence,
            "source": finding.source,
            "since_at": finding.since_at,
            "state": finding.state,
        }
        facts |= {"instance": finding.instance} if finding.instance else {}
    return facts


def _cause(before: GpuHealth | None, after: GpuHealth, docket: Docket) -> tuple[FindingRow | None, str]:
    """Better than before: the worst finding that closed. Else the one that decides now."""
    if before is not None and severity(after.state, after.soft) < severity(before.state, before.soft) and docket.closed:
        return max(docket.closed, key=lambda closed: severity(closed[0].state, closed[0].soft))
    return next((finding for finding in after.findings if not finding.instance), None), ""
