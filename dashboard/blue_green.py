"""The page about blue/green: every Service with two sides, which of them serves, and what both hold.

Must not hold markup or rules. It reads the cluster afresh when it is opened; nothing on it is live.
"""

import time
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard import access, rights
from dashboard.pages import page, read, readable
from dashboard.panels import buttons
from dashboard.panels.words import Text
from dashboard.roles import Role
from fleet import wiring
from fleet.act import sides
from fleet.domain.actions import ACTIONS
from fleet.domain.kinds import Subject


@require_safe
@readable
def blue_green(request: HttpRequest, cluster: str) -> HttpResponse:
    read(cluster)  # a cluster that is not configured has no page
    found = sides.read(lambda: wiring.site(cluster))
    role, changeable = access.role_of(request.user, cluster), rights.changeable(cluster)
    shown = [_shown(one, role, changeable=changeable) for one in found or ()]
    context = {"here": "rollouts", "read_at": time.time(), "unanswered": found is None, "pairs": shown}
    return page(request, "blue-green.html", cluster, context)


def _shown(one: sides.Shown, role: Role | None, *, changeable: bool) -> dict[str, Any]:
    namespace, _, name = one.pair.service.partition("/")
    off = buttons.why_off(role, changeable=changeable, allowed=None)
    kinds = [kind.name for kind in ACTIONS.values() if kind.subject is Subject.SERVICE]
    offered = [(kind, buttons.title(kind, name)) for kind in kinds if kind != "way-back" or one.back is not None]
    found: list[tuple[str, Text]] = [] if one.pair.owned_by else offered
    return {
        "pair": one.pair,
        "namespace": namespace,
        "name": name,
        "back_at": one.back.at if one.back else None,
        "sides": [(side, *side.key.split("/")[:1], side.key in one.pair.live) for side in one.pair.sides],
        "buttons": found,
        "off": off,
    }
