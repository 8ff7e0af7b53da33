"""The operations of the API about checkpoints: every workload that trains, one of them, and what a trainer reports of its saves.

Owns their addresses, parameters and shapes, how large a report may be and how often one may come. Must not judge a checkpoint.
A report takes a token that is bound to the workload that it is about; it is kept as reported, whatever it says.
"""

import threading
import time
from collections import OrderedDict
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from django.http import HttpRequest, HttpResponse
from msgspec import Meta, Struct
from ninja import Field, Query, Router

from dashboard import access
from dashboard.api import answers
from dashboard.api.actions import Token
from dashboard.api.answers import Head, Page, Refused, described, head, page, published
from dashboard.api.parameters import Cluster, Part
from dashboard.models import ApiToken, Scope
from dashboard.panels import checkpoints as panel
from fleet import live, save_records
from fleet.domain.checkpoints import Checkpoint
from fleet.domain.freshness import Report, Standing
from fleet.domain.save_history import Save
from fleet.domain.save_picture import CheckpointRow
from fleet.live import DeepCheck

router = Router()

MOST_BYTES: Final = 10_000
BURST, PER_S = 10.0, 1.0
MOST_TOKENS: Final = 10_000
SHOWN_SAVES: Final = 100
AHEAD_S: Final = 86_400.0

_Count = Annotated[int, Meta(ge=0, le=2**62)]
_Text = Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*$")]


class CheckpointsAnswer(Page, frozen=True):
    """Workloads of one cluster that train, by their keys, each with how fresh its checkpoints are."""

    items: list[CheckpointRow]


class Lost(msgspec.Struct, frozen=True):
    """What a workload would do again if it ended now, on all its GPUs. `seconds` null: nobody knows. `nothing`: nothing of it
    runs that could lose anything. `steps`: about; null where its saves do not tell its pace."""

    seconds: float | None
    gpu_hours: float | None
    steps: int | None
    nothing: bool


class CheckpointAnswer(Head, frozen=True):
    """One workload. `checkpoints`: the newest first, as a scan found them at `scanned_at`; `saves`: complete ones that were ever
    seen, oldest first; `checks`: deep checks of the last day."""

    row: CheckpointRow
    would_lose: Lost
    scanned_at: float | None
    checkpoints: tuple[Checkpoint, ...]
    saves: tuple[Save, ...]
    checks: tuple[DeepCheck, ...]


class Saying(Struct, forbid_unknown_fields=True):
    """What a trainer says of one save that is complete. `committed_at`: seconds since 1970, by its own clock; one ahead of
    Vigie's says nothing of its age. `duration_s`: since when what was saved is as it was; without it nobody knows what would be
    lost, until a save was seen."""

    committed_at: Annotated[float, Meta(ge=0)]
    step: _Count | None = None
    size_bytes: _Count = 0
    duration_s: Annotated[float, Meta(ge=0, le=30 * 86_400)] | None = None
    uri: _Text = ""


SHAPES: Final = (CheckpointsAnswer, CheckpointAnswer, Saying)


class CheckpointsWanted(Part):
    standing: Standing | None = None
    namespace: str = Field("", max_length=63)
    team: str = Field("", max_length=253)

    def fits(self, _key: str, row: CheckpointRow) -> bool:
        return (
            self.standing in {None, row.standing}
            and self.namespace in {"", row.namespace}
            and self.team in {"", row.team}
        )


@router.get("/checkpoints", url_name="checkpoints", openapi_extra=described(CheckpointsAnswer))
def checkpoints(request: HttpRequest, wanted: Query[CheckpointsWanted]) -> HttpResponse:
    """Workloads that train, with how fresh their newest complete checkpoints are."""
    name, found = published(request, wanted.cluster)
    part = page(found.snapshot.checkpoints, wanted.fits, wanted.after, wanted.limit)
    return answers.answer(request, found, CheckpointsAnswer(**head(name, found), **part))


@router.get("/checkpoints/{kind}/{namespace}/{name}", url_name="checkpoint", openapi_extra=described(CheckpointAnswer))
def checkpoint(request: HttpRequest, kind: str, namespace: str, name: str, cluster: Cluster = "") -> HttpResponse:
    """One workload: its checkpoints, the story of its saves, its deep checks, and what it would lose now."""
    chosen, found = published(request, cluster)
    key = f"{kind}/{namespace}/{name}"
    row = found.snapshot.checkpoints.get(key)
    if row is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"Nothing is known of checkpoints of {key} on cluster {chosen}.")
    seen, now = live.saves().found(chosen, key), time.time()
    held = panel.holdings(found.snapshot).get(key, panel.Holding())
    lost = panel.lost(row, held, now)
    body = CheckpointAnswer(
        **head(chosen, found),
        row=row,
        would_lose=Lost(lost.seconds, lost.gpu_hours, lost.steps, lost.nothing),
        scanned_at=seen.scanned_at if seen else None,
        checkpoints=seen.checkpoints[::-1] if seen else (),
        saves=tuple(save_records.last_saves(chosen, key, SHOWN_SAVES)),
        checks=tuple(one for one in live.saves().checks(chosen).values() if one.workload == key),
    )
    return _json(body)


_PROBLEM: Final = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_REFUSALS: Final = (401, 403, 413, 422, 429)
SENT: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Saying"}}},
    },
    "responses": {
        201: {"description": "Kept as reported"},
        **{one: {"description": HTTPStatus(one).phrase, "content": _PROBLEM} for one in _REFUSALS},
    },
}


@router.post("/checkpoints", url_name="checkpoints", auth=Token(), openapi_extra=SENT)
def report(request: HttpRequest) -> HttpResponse:
    """What a trainer says of its own save. Takes a token of scope `report`, which is bound to one workload of one cluster."""
    token = access.token_of(request)
    if token is None or token.scope != Scope.REPORT or not token.workload or not token.cluster:
        detail = "This takes a token of scope report: manage.py token USER --scope report --cluster … --workload …"
        raise Refused(HTTPStatus.FORBIDDEN, detail)
    answers.chosen(request, token.cluster)
    _pace(token)
    said, now = _saying(request), time.time()
    if said.committed_at > now + AHEAD_S:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "`committed_at` is more than a day ahead of Vigie’s clock.")
    kept = Report(said.committed_at, said.step, said.size_bytes, said.duration_s, said.uri, now)
    save_records.report(token.cluster, token.workload, kept, token.user.get_username())
    body = {"cluster": token.cluster, "workload": token.workload, "received_at": now}
    return _json(body, HTTPStatus.CREATED)


def _saying(request: HttpRequest) -> Saying:
    """Raises Refused. Of a body that is too large nothing is read."""
    length = request.headers.get("Content-Length", "")
    if not length.isdecimal() or int(length) > MOST_BYTES:
        raise Refused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A report says its length, and has at most {MOST_BYTES} bytes."
        )
    try:
        return msgspec.json.decode(request.read(MOST_BYTES), type=Saying)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"The body is no report: {error}"[:500]) from None


_paces: OrderedDict[int, tuple[float, float]] = OrderedDict()
_lock = threading.Lock()


def _pace(token: ApiToken) -> None:
    """A token may report once a second, and ten times at once, to each process. Raises Refused."""
    now = time.monotonic()
    with _lock:
        left, at = _paces.get(token.pk, (BURST, now))
        left = min(BURST, left + (now - at) * PER_S)
        enough = left >= 1
        _paces[token.pk] = (left - 1 if enough else left, now)
        _paces.move_to_end(token.pk)
        if len(_paces) > MOST_TOKENS:
            _paces.popitem(last=False)
    if not enough:
        raise Refused(
            HTTPStatus.TOO_MANY_REQUESTS, "This workload reports more than once a second.", {"Retry-After": "5"}
        )


def _json(body: object, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    headers = {"Cache-Control": "no-store", "Vary": "Cookie, Authorization"}
    return HttpResponse(msgspec.json.encode(body), status=status, content_type="application/json", headers=headers)
