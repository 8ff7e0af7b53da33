"""Probes for whoever runs Vigie: is the process alive, and does it have something to show?

Owns `/healthz` and `/readyz`. Anybody may ask, so the answers hold cluster names at most. Must not touch a cluster.
"""

from http import HTTPStatus

import msgspec
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard import clusters
from fleet.live import PictureError


@require_safe
def healthz(_request: HttpRequest) -> HttpResponse:
    """This process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def readyz(_request: HttpRequest) -> HttpResponse:
    """200 once the first snapshot of every configured cluster is published; else 503 with the clusters that are missing."""
    known = clusters.names()
    missing = [name for name in known if not _has_picture(name)]
    ready = bool(known) and not missing
    body = msgspec.json.encode({"ready": ready, "clusters": known, "missing": missing})
    status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
    headers = {} if ready else {"Retry-After": "1"}
    return HttpResponse(body, status=status, content_type="application/json", headers=headers)


def _has_picture(name: str) -> bool:
    """A store that cannot be reached has none to show."""
    try:
        return clusters.published(name) is not None
    except PictureError:
        return False
