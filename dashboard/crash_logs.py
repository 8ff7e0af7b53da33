"""The last lines of a container that ends again and again, for the page about its rollout, when an operator asks for them.

Owns who is shown a log, and of which container. Which container it is follows from the picture,
never from the address: nobody reads any other pod's log here. Must not hold words, markup or rules.
"""

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass

import structlog

from dashboard.panels.words import Text, say
from dashboard.roles import Role
from fleet import wiring
from fleet.domain import log_lines
from fleet.domain.holdups import Cause
from fleet.domain.rollout_picture import HoldupRow, RolloutRow

log = structlog.get_logger(__name__)

WAITS_S = 2.5
ENDED = frozenset({Cause.CRASH, Cause.STARTUP_BUDGET})
_pool = ThreadPoolExecutor(2, thread_name_prefix="logs")


@dataclass(frozen=True, slots=True)
class Said:
    """`cause`: of the reason that it belongs to; `asked`: whether it is shown; `lines`: what was written; `why`: why nothing."""

    cause: str
    container: str
    asked: bool
    lines: tuple[str, ...] = ()
    why: Text = ""


def said(cluster: str, row: RolloutRow, role: Role | None, *, asked: bool) -> Said | None:
    """None: no container ends again and again, or this role is shown no logs."""
    found = next((one for one in row.holdups if one.cause in ENDED and one.pod), None)
    if found is None or role is None or not role.includes(Role.OPERATOR):
        return None
    container = str(dict(found.facts).get("container") or "")
    if not asked:
        return Said(found.cause, container, asked=False)
    lines, why = _read(cluster, found, container)
    return Said(found.cause, container, asked=True, lines=lines, why=why)


def _read(cluster: str, found: HoldupRow, container: str) -> tuple[tuple[str, ...], Text]:
    try:
        answer = _pool.submit(wiring.last_words().of, cluster, found.pod, container).result(WAITS_S)
    except Late:
        return (), say("rollout.log.silent")
    except Exception as error:  # noqa: BLE001 -- whatever it is, the page has the rest
        log.warning("a log could not be read", cluster=cluster, reason=type(error).__name__)
        return (), say("rollout.log.silent")
    if isinstance(answer, int):
        return (), say("rollout.log.refused") if answer == 403 else say("rollout.log.gone")
    return log_lines.ending(answer), "" if answer.strip() else say("rollout.log.empty")
