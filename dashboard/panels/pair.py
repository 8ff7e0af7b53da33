"""One blue/green pair's page: who serves, both sides with what they hold, the way back, what a switch would do, and the buttons.

Owns which facts are shown and where each button stands. Must not hold wording (pair_patterns.py) or rules, nor the smoke test
(`pair_tests`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from dashboard.panels import checks, measures
from dashboard.panels.checks import Finding
from dashboard.panels.words import Clock, Text, say
from dashboard.roles import Role
from fleet.act.sides import Opened
from fleet.domain import strategy
from fleet.domain.blue_green import DECLARED, Live, Pair, Selector, Side
from fleet.domain.picture import Snapshot
from fleet.domain.plans import Check, Outcome
from fleet.domain.prospects import Prospect
from fleet.domain.strategy import Kind

HUES = ("blue", "green")


@dataclass(frozen=True, slots=True)
class Fact:
    name: Text
    value: Text
    note: Text = ""


@dataclass(frozen=True, slots=True)
class Do:
    """One button, and what stands against it. `off`: nothing that this person could lift would turn it on; `why`: that it is not
    for this person or this cluster at all; `first`: the one thing to do here; `scale`: a side that has to be scaled up before."""

    kind: str
    key: str
    title: Text
    means: Text
    query: str
    off: bool
    first: bool
    why: Text
    against: list[Finding]
    scale: "Scale | None"


@dataclass(frozen=True, slots=True)
class Scale:
    """A way out: the workload `kind`/`name` with so many replicas."""

    kind: str
    name: str
    title: Text
    replicas: int


@dataclass(frozen=True, slots=True)
class Card:
    """One side. `hue`: of its mark, which is square for the first and round for the second."""

    side: Side
    kind: str
    hue: str
    serves: bool
    level: str
    glyph: str
    tag: Text
    endpoints: int
    of: Text
    facts: list[Fact]
    does: list[Do]


# The head


@dataclass(frozen=True, slots=True)
class Head:
    level: str
    glyph: str
    tag: Text
    sentences: tuple[Text, ...]
    points: Text


def head(pair: Pair) -> Head:
    """`points`: where the Service sends requests."""
    serving = pair.serving
    if serving is not None:
        whole = serving.ready >= serving.replicas > 0
        level, glyph, tag = ("ok", "s-ok", "one") if whole else ("warn", "s-warn", "short")
        told, points = say(f"pair.tag.{tag}", side=serving.name), say("pair.points.one", side=serving.name)
    else:
        level, glyph = ("warn", "s-warn") if pair.state is Live.BOTH else ("bad", "s-bad")
        told, points = say(f"pair.tag.{pair.state}"), say(f"pair.points.{pair.state}")
    found = (
        say("pair.declared", annotation=DECLARED) if pair.declared else "",
        say("pair.by-label", label=", ".join(pair.labels)) if pair.labels and not pair.declared else "",
        say("pair.alone") if len(pair.sides) == 1 else "",
        say("pair.synced", by=pair.synced_by) if pair.synced_by else "",
    )
    return Head(level, glyph, told, tuple(one for one in found if one), points)


# Buttons


def dos(
    opened: Opened, role: Role | None, off: Mapping[str, Text], kinds: Iterable[str] = (), side: str | None = None
) -> list[Do]:
    """`off`: why a kind is not for this person or this cluster, "" for nothing that is known. `side`: its buttons alone."""
    wanted = set(kinds)
    return [
        _do(one, role, off[one.kind], first=_first(opened, one))
        for one in opened.prospects
        if one.kind in wanted and (side is None or (one.release.to is not None and one.release.to.name == side))
    ]


def _first(opened: Opened, one: Prospect) -> bool:
    """The way back, else the one switch that there is: no page has two first buttons."""
    kinds = [each.kind for each in opened.prospects]
    return one.kind == ("way-back" if "way-back" in kinds else "switch") and kinds.count(one.kind) == 1


def _do(one: Prospect, role: Role | None, why: Text, *, first: bool) -> Do:
    to = one.release.to.name if one.release.to else ""
    key = f"pair.do.{one.kind}" if to or one.kind != "way-back" else "pair.do.way-back.any"
    shut = bool(one.blocks) and not checks.all_liftable(one.checks, role)
    return Do(
        kind=one.kind,
        key=f"{one.kind}-{one.side}",
        title=say("act.more", do=say(key, side=to)),
        means=say(f"pair.means.{one.kind}", side=to) if one.kind in {"retire", "create-green"} else "",
        query=urlencode({"side": one.side}) if one.side else "",
        off=bool(why) or shut,
        first=first,
        why=why,
        against=sorted(map(checks.finding, one.checks), key=lambda found: found.level != "bad"),
        scale=_scale(one) if not why else None,
    )


def _scale(one: Prospect) -> Scale | None:
    """To what the other side has, where a side has fewer replicas and that is what stands in the way."""
    pair, to = one.release.pair, one.release.to
    if pair is None or to is None or not any(check.remedy == "scale-first" for check in one.blocks):
        return None
    wanted = max((side.replicas for side in pair.sides), default=0)
    if to.replicas >= wanted:
        return None
    title = say("act.more", do=say("pair.do.scale", side=to.name, n=wanted))
    return Scale(to.key.partition("/")[0], to.name, title, wanted)


def owned(pair: Pair) -> Finding | None:
    """Who else switches it."""
    if not pair.owned_by:
        return None
    return checks.finding(
        Check("owner", Outcome.BLOCK, "controller", pair.service, (("by", pair.owned_by),), "promote-there")
    )


# Sides


def cards(opened: Opened, snapshot: Snapshot, role: Role | None, off: Mapping[str, Text]) -> list[Card]:
    """The sides by name; of more than two, the one that serves is among the first. Nothing but a switch moves them."""
    pair = opened.known.pair
    if pair is None:
        return []
    order = sorted(pair.sides, key=lambda side: (side.key not in pair.live, side.name))
    first = sorted(order[:2], key=lambda side: side.name)
    found = _hues(first)
    return [_card(opened, pair, side, found.get(side.key, ""), snapshot, role, off) for side in (*first, *order[2:])]


def _hues(first: Sequence[Side]) -> Mapping[str, str]:
    """Those that are called by one have it; the others what is left."""
    found = {side.key: side.version for side in first if side.version in HUES}
    left = [hue for hue in HUES if hue not in found.values()]
    return {**dict(zip([side.key for side in first if side.key not in found], left, strict=False)), **found}


def _card(
    opened: Opened, pair: Pair, side: Side, hue: str, snapshot: Snapshot, role: Role | None, off: Mapping[str, Text]
) -> Card:
    serves = side.key in pair.live
    level, glyph, word = _standing(side, serves=serves)
    return Card(
        side=side,
        kind=side.key.partition("/")[0],
        hue=hue,
        serves=serves,
        level=level,
        glyph=glyph,
        tag=say(f"pair.side.{word}"),
        endpoints=len(opened.endpoints(side.key)),
        of=say("pair.endpoints", n=len(opened.served.ready) + opened.served.foreign),
        facts=list(_facts(opened, side, product(snapshot, side.key))),
        does=dos(opened, role, off, _kinds(opened, side), side.name),
    )


def _kinds(opened: Opened, side: Side) -> set[str]:
    """The way back leads to its side at once: a switch to the same selector would be a second button for it."""
    back = opened.known.way_back is not None and opened.known.way_back.was == side.selector
    return {"create-green"} if back else {"switch", "create-green"}


def _standing(side: Side, *, serves: bool) -> tuple[str, str, str]:
    whole = side.ready >= side.replicas > 0
    if serves:
        return ("ok", "s-ok", "serves") if whole else ("warn", "s-warn", "short")
    if not side.replicas:
        return "off", "s-off", "empty"
    return ("off", "s-wait", "ready") if whole else ("run", "s-run", "coming")


def _facts(opened: Opened, side: Side, kind: str) -> Iterable[Fact]:
    stopping = say("pair.stopping", n=side.terminating) if side.terminating else ""
    yield Fact(say("pair.fact.ready"), say("pair.of", have=side.ready, want=side.replicas), stopping)
    wants = say("pair.wants", gpus=gpus(side.wants_gpus, kind)) if side.wants_gpus != side.gpus else ""
    yield Fact(say("pair.fact.gpus"), gpus(side.gpus, kind), wants)
    labels = opened.known.pair.labels if opened.known.pair else ()
    if labels:
        yield Fact(say("pair.fact.version"), ", ".join(f"{label}={side.selector.get(label, '')}" for label in labels))
    workload = opened.workloads.get(side.key)
    images = workload.images if workload else {}
    for container, image in images.items():
        many = say("pair.fact.image-of", container=container)
        yield Fact(many if len(images) > 1 else say("pair.fact.image"), image)


def product(snapshot: Snapshot, workload: str) -> str:
    """The GPU model that all its pods are on, "" when there is not exactly one."""
    nodes = {pod.node for pod in snapshot.pods.values() if pod.workload == workload and pod.gpus}
    found = {snapshot.nodes[name].product for name in nodes if name in snapshot.nodes}
    return found.pop() if len(found) == 1 else ""


def gpus(count: int, kind: str) -> Text:
    """ "4 L4", or "4 GPUs" when nobody knows which."""
    return f"{count} {kind}" if kind and count else say("pair.gpus", n=count)


# The way back


@dataclass(frozen=True, slots=True)
class Back:
    """`left_s`: how long the old side is still promised; 0: it may be retired. `selector`: what going back writes."""

    title: Text
    left: Text
    left_s: int
    keep_s: int
    promise: Text
    in_all: Text
    selector: str
    do: Do


def back(opened: Opened, keep_s: float, role: Role | None, off: Mapping[str, Text]) -> Back | None:
    """None when there is none."""
    way, found = opened.known.way_back, dos(opened, role, off, {"way-back"})
    if way is None or not found:
        return None
    until, shut = way.at + keep_s, any(one.level == "bad" for one in found[0].against)
    left_s = max(0, int(until - opened.at))
    idle = next((one.release.to.name for one in opened.prospects if one.kind == "way-back" and one.release.to), "")
    return Back(
        title=say("pair.back.shut" if shut else "pair.back.open"),
        left=say("pair.back.left", min=left_s // 60, s=f"{left_s % 60:02}") if left_s else "",
        left_s=left_s,
        keep_s=max(1, int(keep_s)),
        promise=say("pair.back.until" if left_s else "pair.back.past", side=idle, time=Clock(float(int(until)))),
        in_all=say("pair.back.in-all", kept_s=measures.duration(keep_s)),
        selector=selector(way.was),
        do=found[0],
    )


def selector(found: Selector) -> str:
    """ "app=llm, color=blue"."""
    return ", ".join(f"{name}={value}" for name, value in sorted(found.items()))


# What a switch would do


@dataclass(frozen=True, slots=True)
class Turn:
    """One switch: endpoints of each workload afterwards, and the selector."""

    title: Text
    counts: list[int]
    selector: str
    unready: Text


@dataclass(frozen=True, slots=True)
class Turns:
    names: list[Text]
    now: list[int]
    selector: str
    version: Text
    turns: list[Turn]

    @property
    def rows(self) -> list[tuple[Text, int, list[tuple[Text, int]]]]:
        return [
            (name, now, [(turn.title, turn.counts[at]) for turn in self.turns])
            for at, (name, now) in enumerate(zip(self.names, self.now, strict=True))
        ]


def turns(opened: Opened) -> Turns | None:
    """None when there is nothing to switch to."""
    pair, service = opened.known.pair, opened.known.service
    found = [one for one in opened.prospects if one.kind == "switch" and one.release.preview is not None]
    if pair is None or service is None or not found:
        return None
    previews = [(one, one.release.preview) for one in found if one.release.preview is not None]
    before = previews[0][1].before
    keys = sorted(
        {side.key for side in pair.sides} | before.ready.keys() | {k for _, p in previews for k in p.after.ready}
    )
    return Turns(
        names=[key.rpartition("/")[2] or say("pair.nobody") for key in keys],
        now=[before.ready.get(key, 0) for key in keys],
        selector=selector(pair.selector),
        version=say("pair.version", version=service.metadata.resource_version),
        turns=[
            Turn(
                say("pair.after", side=one.side),
                [seen.after.ready.get(key, 0) for key in keys],
                selector(seen.selector),
                say("pair.unready", n=seen.after.unready) if seen.after.unready else "",
            )
            for one, seen in previews
        ],
    )


# The price


@dataclass(frozen=True, slots=True)
class Price:
    """What holding both costs. `more`: the GPUs that serve nobody."""

    more: Text
    instead: Text
    facts: list[Fact]
    does: list[Do]


def price(opened: Opened, snapshot: Snapshot, role: Role | None, off: Mapping[str, Text]) -> Price | None:
    pair = opened.known.pair
    if pair is None:
        return None
    kind = next(filter(None, (product(snapshot, side.key) for side in pair.sides)), "")
    spare = pair.spare_gpus
    one = max((side.gpus for side in pair.sides if side.key in pair.live), default=0)
    return Price(
        more=say("pair.price.more", gpus=gpus(spare, kind)) if spare else say("pair.price.none"),
        instead=say("pair.price.instead", all=pair.gpus, one=one) if spare else say("pair.price.spare"),
        facts=[*_market(snapshot, kind), *_room(snapshot, pair)],
        does=dos(opened, role, off, {"retire"}),
    )


def _market(snapshot: Snapshot, kind: str) -> Iterable[Fact]:
    """How many GPUs of that model are free, and who waits for one."""
    row = snapshot.products.get(kind)
    if row is None:
        return
    labelled = {node.product_name for node in snapshot.nodes.values() if node.product == kind}
    waiting = sum(pod.gpus > 0 and not pod.node and pod.product in {kind, *labelled} for pod in snapshot.pods.values())
    yield Fact(say("pair.free"), gpus(row.free, kind), say("pair.waiting", n=waiting, kind=kind))


def _room(snapshot: Snapshot, pair: Pair) -> Iterable[Fact]:
    ground = strategy.ground(snapshot, pair.serving.key) if pair.serving else None
    if ground is None or not ground.gpus:
        return
    copy = next(one for one in strategy.advise(ground).strategies if one.kind is Kind.BLUE_GREEN)
    yield Fact(say("pair.copy"), say("pair.copy.places", placed=copy.placed, n=ground.replicas))
