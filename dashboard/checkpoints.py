"""The pages about checkpoints: every workload that trains, one of them, and what operators do there.

Owns which template answers, and what of a form goes where. Must not judge a checkpoint, nor hold words: rows come from the
picture, the rest from the store of scans and the ledger. `?part=live`: only what changes while somebody looks.
"""

import time
from http import HTTPStatus
from typing import Any

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe
from msgspec import structs

from dashboard import access, celery, ledger
from dashboard.pages import behind, not_yet, page, read, readable
from dashboard.panels import advice as advice_panel
from dashboard.panels import checkpoint as one_panel
from dashboard.panels import checkpoint_choice as choice_panel
from dashboard.panels import checkpoint_notes as notes_panel
from dashboard.panels import checkpoints as panel
from dashboard.panels.cadence import length
from dashboard.panels.checkpoint_reasons import reasons
from dashboard.panels.words import say
from fleet import live, save_records, wiring
from fleet.act import audit
from fleet.domain import save_history
from fleet.domain.checkpoints import Format
from fleet.domain.mtbf import Mtbf
from fleet.domain.picture import Snapshot
from fleet.domain.save_picture import CheckpointRow
from fleet.domain.training import Record

MTBF_S = 30 * 86_400
KEPT_S = 60.0
SHOWN_SAVES = 60

_observed: dict[str, tuple[float, Mtbf]] = {}


@require_safe
@readable
def checkpoints(request: HttpRequest, cluster: str) -> HttpResponse:
    published = read(cluster)
    if published is None:
        return not_yet(request, cluster, {"screen": "checkpoints"})
    now, snapshot = time.time(), published.snapshot
    rows, choice = snapshot.checkpoints, choice_panel.Choice.of_query(request.GET)
    context = {
        "view": None,
        "here": "checkpoints",
        "follows": True,
        "behind": behind(snapshot),
        "known_at": published.pulse.at,
        "away": bool(published.pulse.loss(now)),
        "sum": panel.total(snapshot, now),
        "jobs": panel.jobs(snapshot, failures(cluster), now, choice.of(rows)),
        "concerns": panel.concerns(choice.of(rows)),
        "any": bool(rows),
        "scanned": bool(rows) or live.saves().scan(cluster) is not None,
        "choice": choice,
        "shown": list(choice_panel.SHOWN),
        "namespaces": choice_panel.options(rows.values(), "namespace"),
        "teams": choice_panel.options(rows.values(), "team"),
    }
    part = request.GET.get("part") == "live"
    return page(request, "vigie/checkpoints.html" if part else "checkpoints.html", cluster, context)


@require_safe
@readable
def checkpoint(request: HttpRequest, cluster: str, kind: str, namespace: str, name: str) -> HttpResponse:
    """One workload."""
    return _shown(request, cluster, f"{kind}/{namespace}/{name}")


@require_POST
def check(request: HttpRequest, cluster: str, kind: str, namespace: str, name: str) -> HttpResponse:
    """Ask for a deep check of one of its checkpoints, by its path in the store."""
    key, path = f"{kind}/{namespace}/{name}", request.POST.get("path", "")
    found = live.saves().found(cluster, key)
    if found is None or path not in {each.path for each in found.checkpoints}:
        raise Http404
    now, by = time.time(), request.user.get_username()
    if not celery.check_soon(cluster, key, path, by):
        return _shown(request, cluster, key, {"unasked": True}, HTTPStatus.SERVICE_UNAVAILABLE)
    live.saves().tell(cluster, live.DeepCheck(key, path, "running", now, now, by))
    return redirect("checkpoint", cluster, kind, namespace, name)


@require_POST
def note(request: HttpRequest, cluster: str, kind: str, namespace: str, name: str) -> HttpResponse:
    """Keep where a workload saves, as an operator says it; what is left empty is taken back."""
    key = f"{kind}/{namespace}/{name}"
    _row(cluster, key)
    typed = notes_panel.Typed.of_form(request.POST)
    record, errors = notes_panel.checked(typed, namespace, wiring.policies().store)
    if not errors and record == save_records.notes(cluster).get(key, Record()):
        errors = {"uri": say("ckpt.form.empty")} if record == Record() else {}
    if errors:
        return _shown(request, cluster, key, {"typed": typed, "errors": errors}, HTTPStatus.UNPROCESSABLE_ENTITY)
    _note(cluster, key, record, request.user.get_username())
    return redirect("checkpoint", cluster, kind, namespace, name)


def _note(cluster: str, key: str, record: Record, by: str) -> None:
    now = time.time()
    facts = {"uri": record.uri, "format": record.format, "interval_s": record.interval_s}
    with transaction.atomic():
        save_records.note(cluster, key, record, by, now)
        audit.append(audit.Entry(now, by, "web", "noted-checkpoints", cluster, target=key[:253], facts=facts))


def failures(cluster: str) -> Mtbf:
    """The time between failures of one GPU, up to a minute old: many look at this page, and the ledger is long."""
    now = time.monotonic()
    kept = _observed.get(cluster)
    if kept is None or now - kept[0] > KEPT_S:
        end = ledger.until()
        kept = _observed[cluster] = (now, ledger.mtbf(cluster, end - MTBF_S, end))
    return kept[1]


def _row(cluster: str, key: str) -> tuple[Snapshot, CheckpointRow]:
    """Raises Http404."""
    published = read(cluster)
    row = published.snapshot.checkpoints.get(key) if published else None
    if published is None or row is None:
        raise Http404
    return published.snapshot, row


def _shown(
    request: HttpRequest, cluster: str, key: str, more: dict[str, Any] | None = None, status: int = HTTPStatus.OK
) -> HttpResponse:
    snapshot, row = _row(cluster, key)
    now, observed = time.time(), failures(cluster)
    held = panel.holdings(snapshot).get(key, panel.Holding())
    seen, saves = live.saves().found(cluster, key), save_records.last_saves(cluster, key, SHOWN_SAVES)
    usual, noted = save_history.usual(saves), save_records.noted(cluster, key)
    if row.save_cost_s is None:  # the scan that saw them first did not know yet
        row = structs.replace(row, save_cost_s=usual.cost_s)
    context: dict[str, Any] = {
        "view": None,
        "here": "checkpoint",
        "follows": more is None,
        "behind": behind(snapshot),
        "key": key,
        "kind": key.split("/", maxsplit=1)[0],
        "namespace": row.namespace,
        "name": key.split("/", 2)[2],
        "row": row,
        "job": panel.job(key, row, held, observed, now),
        "reasons": panel.concerns({key: row}) if any(reasons(row)) else [],
        "seen": seen,
        "lines": one_panel.lines(seen, live.saves().checks(cluster)) if seen else [],
        "stories": one_panel.stories(saves),
        "saves": len(saves),
        "source": say(f"ckpt.source.{row.source}"),
        "interval": _interval(row),
        "by_hand": one_panel.by_hand(key, snapshot.pods, seen),
        "hook": say(f"ckpt.hook.{row.hook or 'none'}"),
        "ranks": say("ckpt.ranks", n=row.pods),
        "advice": advice_panel.advice(row, held, observed, usual, MTBF_S),
        "noted": noted,
        "typed": notes_panel.Typed.of_note(noted),
        "formats": [each.value for each in Format],
        "errors": {},
        "may_act": access.may(access.role_of(request.user, cluster), "checkpoint-check"),
        **(more or {}),
    }
    part = request.GET.get("part") == "live"
    return page(request, "vigie/checkpoint.html" if part else "checkpoint.html", cluster, context, status=status)


def _interval(row: CheckpointRow) -> Any:
    if row.target_s is None:
        return None
    return say(f"ckpt.interval.{'observed' if row.observed else 'declared'}", time=length(row.target_s))
