"""Probes for whoever runs Vigie: is the process alive, and does it have something to show?

Owns `/healthz` and `/readyz`. Anybody may ask, so the answers hold the names of clusters, words of ours and numbers at most. Must
not touch a cluster, nor read a whole picture.
"""

import time
from http import HTTPStatus

import msgspec
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard import clusters
from fleet import live
from fleet.live import Loss, PictureError, Pulse


class State(msgspec.Struct, frozen=True):
    """One cluster. `age_s`: since its picture was last known to be true, None when it never was. `lost`: a `live.Loss`.

    `trouble` and `hidden` are numbers: of streams that are broken, and of kinds that may not be read.
    """

    picture: bool
    age_s: float | None
    lost: Loss
    trouble: int
    hidden: int


@require_safe
def healthz(_request: HttpRequest) -> HttpResponse:
    """This process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def readyz(_request: HttpRequest) -> HttpResponse:
    """200 once the first snapshot of every configured cluster is published; else 503 with the clusters that are missing.

    One that was lost later does not make us unready: every page says so, and no other replica would know better.
    """
    known = clusters.names()
    states = {name: state(name) for name in known}
    missing = [name for name in known if not states[name].picture]
    ready = bool(known) and not missing
    body = msgspec.json.encode({"ready": ready, "clusters": known, "missing": missing, "detail": states})
    status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
    headers = {} if ready else {"Retry-After": "1"}
    response = HttpResponse(body, status=status, content_type="application/json", headers=headers)
    # Asked several times a second during a start: an answer, not an error for the log.
    response._has_been_logged = True  # type: ignore[attr-defined]  # Django's own mark
    return response


def state(name: str) -> State:
    """A store that cannot be reached has no picture to show."""
    try:
        there, pulse = live.picture().version(name) is not None, live.picture().last_pulse(name)
    except PictureError:
        return State(picture=False, age_s=None, lost=Loss.WRITER, trouble=0, hidden=0)
    return _state(pulse, time.time(), there=there and pulse is not None)


def _state(pulse: Pulse | None, now: float, *, there: bool) -> State:
    if pulse is None:
        return State(picture=False, age_s=None, lost=Loss.NO_PICTURE, trouble=0, hidden=0)
    age_s = round(now - pulse.at, 1) if pulse.at else None
    loss, hidden = pulse.loss(now), len(pulse.hidden)
    return State(there, age_s, loss if there or loss else Loss.NO_PICTURE, len(pulse.trouble) - hidden, hidden)
