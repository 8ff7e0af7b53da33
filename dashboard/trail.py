"""The page of everything that people and Vigie did to a cluster, whether its chain is intact, and its export.

Owns how filters become questions to the ledger. Must not change anything, nor hold words.
"""

import csv
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import Max, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from dashboard.pages import page
from dashboard.panels import trail
from dashboard.panels.trail import Choice
from dashboard.panels.words import say
from fleet.act import audit
from fleet.domain.actions import ACTIONS
from fleet.domain.plans import ActionState
from fleet.models import Action, AuditEntry, AuditHead

PART = 50
FORMS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
COLUMNS = ("number", "at", "cluster", "actor", "via", "what", "action", "kind", "target", "facts", "previous", "hash")


@require_safe
@gzip_page
def actions(request: HttpRequest, cluster: str) -> HttpResponse:
    """The newest first. `check=1`: walk the whole chain of the audit now and say whether it is intact."""
    choice = Choice.of_query(request.GET)
    wanted = matching(cluster, choice)
    rows = list(wanted.order_by("-pk")[: PART + 1])
    shown = rows[:PART]
    context = {
        "here": "actions",
        "choice": choice,
        "entries": trail.entries(shown, _seals(shown)),
        "people": _people(cluster),
        "kinds": [(kind, say(f"act.kind.{kind}")) for kind in ACTIONS],
        "outcomes": [(state.value, say(f"act.state.{state}")) for state in ActionState],
        "spans": list(trail.SINCE_S),
        "older": choice.query(before=shown[-1].pk) if len(rows) > PART else "",
        "newest": choice.query(before=0) if choice.before else "",
        "export": choice.query(before=0),
        "chain": _chain(checked="check" in request.GET),
        "check": choice.query(),
    }
    return page(request, "actions.html", cluster, context)


@require_safe
def export(request: HttpRequest, cluster: str, form: str) -> HttpResponseBase:
    """The entries of the audit about the actions that match, oldest first, as they are sealed."""
    if form not in FORMS:
        raise Http404
    wanted = matching(cluster, Choice.of_query(request.GET))
    entries = AuditEntry.objects.filter(cluster=cluster, action__in=wanted.values("pk")).order_by("number")
    rows = entries.values(*COLUMNS).iterator(chunk_size=500)
    answer = StreamingHttpResponse(_csv(rows) if form == "csv" else _json(rows), content_type=FORMS[form])
    answer["Content-Disposition"] = f'attachment; filename="vigie-audit.{form}"'
    return answer


def matching(cluster: str, choice: Choice) -> QuerySet[Action]:
    """The actions that somebody asked to see."""
    found = Action.objects.filter(cluster=cluster)
    if choice.q:
        found = found.filter(_text(choice.q))
    if choice.who:
        found = found.filter(Q(proposed_by=choice.who) | Q(confirmed_by=choice.who) | Q(second_by=choice.who))
    if choice.what:
        found = found.filter(kind=choice.what)
    if choice.outcome:
        found = found.filter(state=choice.outcome)
    if choice.since:
        found = found.filter(proposed_at__gte=time.time() - trail.SINCE_S[choice.since])
    return found.filter(pk__lt=choice.before) if choice.before else found


def _text(q: str) -> Q:
    """A node, words of a reason, or a number: "M-0412"."""
    digits = q.upper().removeprefix("M-").lstrip("0")
    numbered = Q(pk=int(digits)) if digits.isascii() and digits.isdecimal() and len(digits) < 16 else Q()
    return Q(target__icontains=q) | Q(reason__icontains=q) | numbered


def _people(cluster: str) -> list[str]:
    names = Action.objects.filter(cluster=cluster).values_list("proposed_by", flat=True)
    return sorted(names.distinct())


def _seals(rows: Iterable[Action]) -> dict[int, tuple[int, str]]:
    """The newest audit entry of each action, with its seal."""
    newest = (
        AuditEntry.objects.filter(action__in=[row.pk for row in rows]).values("action").annotate(last=Max("number"))
    )
    found = AuditEntry.objects.filter(number__in=newest.values("last")).values_list("action", "number", "hash")
    return {action: (number, seal) for action, number, seal in found if action is not None}


def _chain(*, checked: bool) -> dict[str, Any]:
    """How long the chain is; whether it is intact only when somebody has it walked, which takes a while for a long one."""
    if not checked:
        head = AuditHead.objects.filter(pk=audit.HEAD).first()
        number = head.number if head else 0
        return {"level": "run", "length": say("act.chain.length", n=number)}
    found = audit.verify()
    head = AuditHead.objects.filter(pk=audit.HEAD).first()
    return {
        "level": "ok" if found.broken is None else "bad",
        "number": head.number if head else 0,
        "intact": found.entries,
        "broken": found.broken,
        "why": say(f"act.chain.{found.why}") if found.why else "",
        "at": time.time(),
    }


class _Line:
    """What csv writes to: it gives each line back."""

    def write(self, line: str) -> str:
        return line


def _csv(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow(COLUMNS)
    for row in rows:
        yield writer.writerow([_cell(json.dumps(row[name]) if name == "facts" else row[name]) for name in COLUMNS])


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula is marked as text: names and reasons come from people."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _json(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    yield "["
    for n, row in enumerate(rows):
        yield (",\n" if n else "\n") + json.dumps(row, ensure_ascii=False)
    yield "\n]\n"
