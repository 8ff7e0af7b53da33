"""A node's memory as the ledger can restore it: the findings that were open when everything else was forgotten.

Owns the way back from transitions to findings. What was reported once (an Xid) would otherwise be lost with the memory; what is
measured is measured again, and closes by itself. The boot id comes along, so that a reboot meanwhile is noticed.
"""

from collections.abc import Sequence

from fleet.domain.gpus import DeviceState, Gpu
from fleet.domain.picture import FindingRow
from fleet.domain.verdicts import GpuHealth, NodeHealth, Transition, ordered, urgent

_KNOWN = frozenset(("index", "pci", "name", "text", "source", "since_at", "state", "instance"))


def restored(node: str, opened: Sequence[Transition]) -> NodeHealth | None:
    """`opened`: transitions of findings that are still open, oldest first; None when there is none."""
    by_gpu: dict[str, list[Transition]] = {}
    for transition in opened:
        by_gpu.setdefault(transition.gpu, []).append(transition)
    gpus = {key: _gpu(key, found) for key, found in by_gpu.items()}
    return NodeHealth(node=node, boot_id=opened[-1].boot_id, gpus=gpus) if gpus else None


def _gpu(key: str, opened: Sequence[Transition]) -> GpuHealth:
    last = opened[-1]
    findings = ordered(_finding(transition) for transition in opened)
    index = last.evidence.get("index")
    gpu = Gpu(
        uuid="" if "/" in key else key,
        index=index if isinstance(index, int) else 0,
        pci=str(last.evidence.get("pci") or ""),
        name=str(last.evidence.get("name") or ""),
    )
    deciding = next((finding for finding in findings if not finding.instance), None)
    return GpuHealth(
        gpu=gpu,
        seen_at=last.at,
        state=deciding.state if deciding else DeviceState.OK,
        action=urgent(findings),
        soft=deciding.soft if deciding else False,
        planned=last.planned,
        since_at=deciding.since_at if deciding else last.at,
        findings=findings,
    )


def _finding(opened: Transition) -> FindingRow:
    evidence = opened.evidence
    since_at = evidence.get("since_at")
    return FindingRow(
        rule=opened.reason,
        source=str(evidence.get("source") or "nvml"),
        state=str(evidence.get("state") or opened.to_state),
        action=opened.action,
        since_at=float(since_at) if isinstance(since_at, int | float) else opened.at,
        seen_at=opened.at,
        evidence=str(evidence.get("text") or ""),
        facts=tuple((name, fact) for name, fact in evidence.items() if name not in _KNOWN),
        instance=str(evidence.get("instance") or ""),
        soft=opened.soft,
    )
