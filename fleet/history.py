"""The ledger's story of GPUs: transitions written and read, minutes packed into hours, and what is too old taken away.

Owns every query of the ledger about GPUs. Must not judge, and keeps nothing in memory. Times are seconds since 1970.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.db import transaction
from django.db.models import Max, QuerySet

from fleet.domain import machines, spans
from fleet.domain.spans import Sample
from fleet.domain.verdicts import Fact, Transition
from fleet.models import GpuHour, GpuLineup, GpuMinute, HealthTransition, Packed

MINUTES_KEPT_S = 7 * 86_400
HOURS_KEPT_S = 90 * 86_400
OPEN_FOR_S = 180 * 86_400  # a finding that was reported longer ago is not restored
AT_ONCE = 500

Samples = dict[str, list[tuple[float, Sample]]]  # by key of the GPU: (when the span began, what it did)


# Transitions


def record(cluster: str, transitions: Iterable[Transition], products: Mapping[str, str]) -> None:
    """Append; what is there already is left as it is. `products`: as labelled, by node."""
    rows = [_row(cluster, found, products.get(found.node, "")) for found in transitions]
    HealthTransition.objects.bulk_create(rows, batch_size=AT_ONCE, ignore_conflicts=True)


def transitions(
    cluster: str, *, since: float, until: float, gpu: str | None = None, node: str | None = None
) -> list[Transition]:
    """Those of a time, oldest first."""
    rows = _of(cluster, gpu, node).filter(at__gte=_time(since), at__lt=_time(until))
    return [_transition(row) for row in rows.order_by("at", "pk").iterator(chunk_size=2000)]


def before(cluster: str, at: float, *, gpu: str | None = None, node: str | None = None) -> dict[str, Transition]:
    """The last transition of each GPU before a time: in which state a window begins. It may be of a finding alone."""
    last = _of(cluster, gpu, node).filter(at__lt=_time(at)).order_by().values("gpu").annotate(last=Max("pk"))
    rows = HealthTransition.objects.filter(pk__in=last.values("last"))
    return {row.gpu: _transition(row) for row in rows.iterator(chunk_size=2000)}


def leading(cluster: str, at: float, gpus: Sequence[str]) -> list[Transition]:
    """What led to the states of these GPUs at a time, as far as it is remembered; oldest first of each."""
    found: list[Transition] = []
    for first in range(0, len(gpus), AT_ONCE):
        rows = HealthTransition.objects.filter(
            cluster=cluster, gpu__in=gpus[first : first + AT_ONCE], at__lt=_time(at), at__gte=_time(at - OPEN_FOR_S)
        )
        found += [_transition(row) for row in rows.order_by("at", "pk").iterator(chunk_size=2000)]
    return found


def products(cluster: str) -> dict[str, str]:
    """The product of every GPU that the ledger knows, short, as last recorded."""
    rows = HealthTransition.objects.filter(cluster=cluster)
    last = rows.order_by().values("gpu").annotate(last=Max("pk"))
    return dict(HealthTransition.objects.filter(pk__in=last.values("last")).values_list("gpu", "product"))


def open_findings(cluster: str, node: str, now: float) -> list[Transition]:
    """The transitions of findings that came and have not gone, on GPUs that the node still has; oldest first."""
    rows = HealthTransition.objects.filter(cluster=cluster, node=node, at__gte=_time(now - OPEN_FOR_S)).order_by("pk")
    found: dict[tuple[str, str, str], Transition] = {}
    for row in rows.iterator(chunk_size=2000):
        if row.closes or not row.to_state:
            found.pop((row.gpu, row.reason, row.instance), None)
        elif row.reason:
            found[row.gpu, row.reason, row.instance] = _transition(row)
        if not row.to_state:
            for key in [key for key in found if key[0] == row.gpu]:
                del found[key]
    return list(found.values())


def _of(cluster: str, gpu: str | None, node: str | None) -> QuerySet[HealthTransition]:
    wanted = {"cluster": cluster} | ({"gpu": gpu} if gpu is not None else {})
    return HealthTransition.objects.filter(**wanted | ({"node": node} if node is not None else {}))


def _row(cluster: str, found: Transition, product_name: str) -> HealthTransition:
    return HealthTransition(
        cluster=cluster,
        node=found.node,
        gpu=found.gpu,
        product=machines.short_product(product_name or str(found.evidence.get("name") or ""))[:100],
        at=_time(found.at),
        from_state=found.from_state,
        to_state=found.to_state,
        soft=found.soft,
        reason=found.reason,
        action=found.action,
        evidence={name: _clean(fact) for name, fact in found.evidence.items()},
        boot_id=found.boot_id,
        planned=found.planned,
        closes=found.closes,
        instance=str(found.evidence.get("instance") or "")[:100],
    )


def _clean(fact: Fact) -> Fact:
    """PostgreSQL takes no NUL in a text."""
    return fact.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(fact, str) else fact


def _transition(row: HealthTransition) -> Transition:
    return Transition(
        node=row.node,
        gpu=row.gpu,
        at=row.at.timestamp(),
        from_state=row.from_state,
        to_state=row.to_state,
        soft=row.soft,
        reason=row.reason,
        action=row.action,
        evidence=row.evidence,
        boot_id=row.boot_id,
        planned=row.planned,
        closes=row.closes,
    )


# Minutes and hours


def record_minutes(cluster: str, minutes: Sequence[tuple[str, int, Mapping[str, Sample]]]) -> None:
    """(node, minute since 1970, samples by GPU) each; one that is there already is left as it is."""
    lineups = _lineups(cluster, [(node, tuple(samples)) for node, _, samples in minutes])
    rows = [
        GpuMinute(lineup_id=lineups[node, tuple(samples)], span=minute, packed=spans.packed(samples.values()))
        for node, minute, samples in minutes
    ]
    GpuMinute.objects.bulk_create(rows, batch_size=AT_ONCE, ignore_conflicts=True)


def minutes(cluster: str, node: str, since: float, until: float) -> Samples:
    """By GPU, oldest first."""
    return _samples(GpuMinute, cluster, node, since, until, spans.MINUTE_S)


def hours(cluster: str, node: str, since: float, until: float) -> Samples:
    """By GPU, oldest first. The hour under way has none yet: its minutes have."""
    return _samples(GpuHour, cluster, node, since, until, spans.HOUR_S)


def make_hours(now: float) -> int:
    """The hours that have ended and are not made yet, of the minutes that there are; how many rows."""
    ended = int(now // spans.HOUR_S)
    made = 0
    for lineup in GpuLineup.objects.values_list("pk", flat=True).iterator(chunk_size=AT_ONCE):
        last = GpuHour.objects.filter(lineup=lineup).aggregate(last=Max("span"))["last"]
        first = (last + 1 if last is not None else 0) * spans.MINUTES_AN_HOUR
        found = GpuMinute.objects.filter(
            lineup=lineup, span__gte=first, span__lt=ended * spans.MINUTES_AN_HOUR
        ).values_list("span", "packed")
        hours_: defaultdict[int, list[list[Sample]]] = defaultdict(list)
        for span, packed in found.iterator(chunk_size=2000):
            hours_[span // spans.MINUTES_AN_HOUR].append(spans.unpacked(bytes(packed)))
        rows = [GpuHour(lineup_id=lineup, span=hour, packed=_hour(minutes_)) for hour, minutes_ in hours_.items()]
        GpuHour.objects.bulk_create(rows, batch_size=AT_ONCE, ignore_conflicts=True)
        made += len(rows)
    return made


def prune(now: float) -> int:
    """Take away what is too old, one node at a time so that no transaction is long; how many rows."""
    oldest_minute = int((now - MINUTES_KEPT_S) // spans.MINUTE_S)
    oldest_hour = int((now - HOURS_KEPT_S) // spans.HOUR_S)
    gone = 0
    for lineup in list(GpuLineup.objects.values_list("pk", flat=True)):
        gone += GpuMinute.objects.filter(lineup=lineup, span__lt=oldest_minute).delete()[0]
        gone += GpuHour.objects.filter(lineup=lineup, span__lt=oldest_hour).delete()[0]
        with transaction.atomic():
            kept = any(model.objects.filter(lineup=lineup).exists() for model in (GpuMinute, GpuHour))
            gone += 0 if kept else GpuLineup.objects.filter(pk=lineup).delete()[0]
    return gone


def _hour(minutes_: Sequence[Sequence[Sample]]) -> bytes:
    return spans.packed(spans.together(of_gpu) for of_gpu in zip(*minutes_, strict=True))


def _lineups(cluster: str, wanted: Sequence[tuple[str, tuple[str, ...]]]) -> dict[tuple[str, tuple[str, ...]], int]:
    """Their ids, made where they are not there yet."""
    digests = {(node, digest(keys)): (node, keys) for node, keys in wanted}
    found = _known(cluster, digests)
    missing = [pair for pair in digests if pair not in found]
    if missing:
        rows = [
            GpuLineup(cluster=cluster, node=node, keys=list(digests[node, text][1]), digest=text)
            for node, text in missing
        ]
        GpuLineup.objects.bulk_create(rows, batch_size=AT_ONCE, ignore_conflicts=True)
        found |= _known(cluster, missing)
    return {digests[pair]: pk for pair, pk in found.items()}


def _known(cluster: str, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    wanted = list(pairs)
    found: dict[tuple[str, str], int] = {}
    for first in range(0, len(wanted), AT_ONCE):
        part = set(wanted[first : first + AT_ONCE])
        rows = GpuLineup.objects.filter(cluster=cluster, digest__in=[text for _, text in part])
        found |= {
            (node, text): pk for pk, node, text in rows.values_list("pk", "node", "digest") if (node, text) in part
        }
    return found


def digest(keys: Sequence[str]) -> str:
    return hashlib.sha256(msgspec.json.encode(keys)).hexdigest()


def _samples(model: type[Packed], cluster: str, node: str, since: float, until: float, length_s: int) -> Samples:
    lineups = dict(GpuLineup.objects.filter(cluster=cluster, node=node).values_list("pk", "keys"))
    spans_ = {"span__gte": int(since // length_s), "span__lt": -int(-until // length_s)}
    manager: Any = model._default_manager
    rows = manager.filter(lineup__in=lineups, **spans_).order_by("span").values_list("lineup_id", "span", "packed")
    found: Samples = {}
    for lineup, span, packed in rows:
        for key, sample in zip(lineups[lineup], spans.unpacked(bytes(packed)), strict=True):
            found.setdefault(key, []).append((float(span * length_s), sample))
    return found


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
