"""A plan in short, as the audit keeps it.

Owns which of a plan's numbers and findings an entry repeats. Must not judge them.
"""

from collections.abc import Iterable
from typing import Any

from fleet.domain.plans import Check, Outcome, Plan


def loss_of(plan: Plan) -> dict[str, Any]:
    loss = plan.loss
    return {
        "loss": {
            "work_s": loss.work_s,
            "gpu_hours": loss.gpu_hours,
            "requests": loss.requests,
            "scratch_bytes": loss.scratch_bytes,
        }
    }


def against(checks: Iterable[Check]) -> dict[str, Any]:
    """The blocks and warnings, short."""
    return {
        "checks": [
            {"guard": check.guard, "outcome": check.outcome, "reason": check.reason, "subject": check.subject}
            for check in checks
            if check.outcome is not Outcome.PASS
        ]
    }
