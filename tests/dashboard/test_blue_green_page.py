"""The pages about blue/green, against the rehearsal: every pair; one of them that serves, waits, is switched, is refused."""

import time

import pytest
from django.utils import translation
from msgspec.structs import replace

from dashboard import blue_green, targets
from dashboard.panels import pair as panel
from dashboard.panels import pair_tests, words
from fleet import wiring
from fleet.act.sides import Sides
from fleet.domain import revisions, switching
from fleet.domain.picture import EMPTY
from fleet.domain.plans import ActionState, StepKind, StepState
from fleet.domain.releases import ON_SERVICE
from fleet.domain.smoke import Fault
from fleet.models import Action
from fleet.simulation.clock import RealClock
from fleet.simulation.rehearsal import Rehearsal, serving
from fleet.simulation.scenarios.stage import State
from tests.dashboard.pictures import well_read
from tests.dashboard.test_actions_pages import text
from tests.fleet.clusters import wait_for

pytestmark = [pytest.mark.django_db(transaction=True)]

LIST = "/c/rehearsal/blue-green/"
HERE = f"{LIST}serving/search/"
SWITCH = "/c/rehearsal/releases/Service/serving/search/do/switch/"
GREEN = ("Deployment", "serving", "search-green")


@pytest.fixture(scope="module")
def cluster():
    with serving(Rehearsal(clock=RealClock(20.0), pace=0)) as found:
        found.run(found.stage.start("blue-green"))
        wait_for(lambda: found.stage.performance("blue-green").state is State.STANDING, 60)
        yield found


@pytest.fixture
def site(cluster, settings):
    settings.VIGIE_KUBECONFIG, settings.VIGIE_CONTEXTS = str(cluster.kubeconfig), ()
    settings.VIGIE_ACTIONS = frozenset({"rehearsal"})
    wiring.site.cache_clear()
    wiring.sides.cache_clear()
    found = wiring.site("rehearsal")
    with well_read("rehearsal", []):
        yield found
    found.cluster.close()
    wiring.site.cache_clear()
    wiring.sides.cache_clear()


@pytest.fixture
def look(as_person, site):
    """The page as it is now, whatever was shown a moment ago."""

    def page(address: str = HERE, person: str = "operator"):
        wiring.sides.cache_clear()
        return as_person(person).get(address)

    return page


def html(response) -> str:
    return response.content.decode()


def button(response, kind: str) -> str:
    """The markup of one button."""
    found = html(response)
    start = found.index(f"do/{kind}/")
    return found[start : found.index("</a>", start)]


@pytest.fixture
def switched(site):
    """To green, by hand, `keep_s` ago or less."""
    service = site.changer.read_service("serving", "search")
    was = dict(service.spec.selector)
    now = {**was, "colour": "green"}
    changed = site.changer.select(service, now, switching.note(was, now, time.time() - 5.0, "M-0001"))
    yield was
    site.changer.select(changed, was, {switching.WAY_BACK: None})


def scaled(site, replicas: int) -> None:
    found = site.changer.read_workload(*GREEN)
    site.changer.change_workload(found, revisions.scale(found, replicas))
    wait_for(lambda: len(ready(site)) == replicas, 30)


def ready(site) -> list[object]:
    found = site.changer.read_workload(*GREEN)
    return [found] * int((found.raw.get("status") or {}).get("readyReplicas", 0))


def test_the_list_leads_to_each_pair_and_is_read_once_for_many(look, site, as_person):
    shown = look(LIST)
    said = text(shown)
    assert "search-blue serves" in said
    assert said.count("Ready 2 of 2") == 2
    assert f'href="{HERE}"' in html(shown)
    assert text(as_person("viewer").get(LIST)).count("Read from the cluster") == 1
    asked = Counting(site)
    sides = Sides(lambda _: asked, lambda: 100.0)
    assert [sides.listed("a"), sides.opened("a", "serving", "search")].count(None) == 0
    before = asked.reads
    sides.listed("a")
    sides.opened("a", "serving", "search")
    assert asked.reads == before > 5


class Counting:
    """A site whose reads are counted."""

    def __init__(self, site) -> None:
        self._site, self.reads = site, 0

    def __getattr__(self, name: str):
        if name == "changer":
            return self
        if hasattr(self._site, name):
            return getattr(self._site, name)
        self.reads += name.startswith("read_")
        return getattr(self._site.changer, name)


def test_a_pair_that_may_be_switched(look):
    shown = look()
    said = text(shown)
    assert "search-blue serves" in said
    assert "2 of 2 endpoints" in said
    assert "0 of 2 endpoints" in said
    assert "par-prod/search-server:2.9" in said
    assert "+ 2 " in said
    assert "4 instead of 2" in said
    assert "GET /version" in said
    assert "declared on the Service" in said
    assert "It has not been asked for a switch yet" in said
    assert "Way back" not in said
    assert f"{SWITCH}?side=search-green" in html(shown)
    assert "aria-disabled" not in button(shown, "switch")
    assert "aria-disabled" not in button(shown, "create-green")
    assert "/rollouts/Deployment/serving/search-green/" in html(shown)
    part = look(f"{HERE}?part=live")
    assert html(part).lstrip().startswith('<div class="stack pair" data-live-rollout')


def test_a_side_that_is_not_ready_is_refused_with_a_way_out(look, site):
    scaled(site, 0)
    try:
        shown = look()
        said = text(shown)
        assert "Scaled to 0" in said
        assert "No Ready pod would be left behind the Service." in said
        assert "Scale that side up and wait until all of it is Ready." in said
        assert 'aria-disabled="true"' in button(shown, "switch")
        assert "do/retire/" not in html(shown)
        assert "/releases/Deployment/serving/search-green/do/scale/?replicas=2" in html(shown)
        assert "do/scale/" not in html(look(person="viewer"))
    finally:
        scaled(site, 2)


def test_after_a_switch_there_is_a_way_back_for_a_while(look, switched):
    shown = look()
    said = text(shown)
    assert "search-green serves" in said
    assert "Way back is open" in said
    assert "search-blue may not be retired before" in said
    assert "0:2" in said
    assert "colour=blue, vigie.dev/service=search" in said
    assert "aria-disabled" not in button(shown, "way-back")
    assert "The way back is promised for" in said
    assert 'aria-disabled="true"' in button(shown, "retire")
    assert "An approver may lift this." in said
    assert "aria-disabled" not in button(look(person="approver"), "retire")


def test_a_service_of_argo_rollouts_is_shown_and_refused(look, site):
    service = site.changer.read_service("serving", "search")
    mark = {"argo-rollouts.argoproj.io/managed-by-rollouts": "search"}
    changed = site.changer.select(service, service.spec.selector, mark)
    try:
        shown = look()
        assert "Argo Rollouts is in charge of this Service" in text(shown)
        assert "Promote it with the tool that is in charge." in text(shown)
        assert "/releases/" not in html(shown)
        assert "search-green" in text(shown)
        assert "Switched by Argo Rollouts" in text(look(LIST))
    finally:
        site.changer.select(changed, service.spec.selector, dict.fromkeys(mark))


@pytest.mark.parametrize(
    ("where", "why"),
    [("inference/llm-chat", "This Service has no sides"), ("serving/nobody", "No Service of this name")],
)
def test_what_is_no_pair_has_no_page_but_says_how_to_make_one(look, where, why):
    shown = look(f"{LIST}{where}/")
    assert shown.status_code == 404
    assert why in text(shown)


def test_a_viewer_is_told_why_not(look):
    shown = look(person="viewer")
    assert "Your role only looks" in text(shown) or "role" in text(shown)
    assert 'aria-disabled="true"' in button(shown, "switch")
    assert 'aria-disabled="true"' in button(shown, "create-green")


def test_a_cluster_that_does_not_answer(as_person, writer):
    for address in ("", "chat/llm/"):
        shown = text(as_person("viewer").get(f"/c/{writer.cluster}/blue-green/{address}"))
        assert "The cluster does not answer" in shown
        assert "reads Services, workloads and pods" in shown
        assert "No Service has two sides" not in shown
    assert blue_green.service_of(writer.cluster, "Deployment/chat/llm") == "", (
        "and the page of a rollout comes without the link"
    )


def recorded(state: StepState, **evidence: object) -> Action:
    action = Action.objects.create(
        cluster="rehearsal", kind="switch", target="Service/serving/search", state=ActionState.FAILED, plan={},
        digest="", proposed_by="o", proposed_via="web", proposed_at=1.0, expires_at=2.0,
    )  # fmt: skip
    action.steps.create(
        position=0, kind=StepKind.SMOKE, subject=action.target, state=state, facts={"path": "/version"},
        evidence=evidence, started_at=1_000.0, done_at=1_001.0,
    )  # fmt: skip
    action.steps.create(
        position=1, kind=StepKind.SWITCH, subject=action.target, state=StepState.TODO, facts={"side": "/".join(GREEN)}
    )
    return action


def test_the_last_smoke_tests_are_told_from_the_ledger(look):
    recorded(StepState.DONE, pods=2, passed=2, slowest_s=0.041, faults=[])
    fault = {"pod": "search-green-1", "fault": "status", "status": 503, "found": "503"}
    failed = recorded(StepState.FAILED, pods=2, passed=1, slowest_s=0.05, faults=[fault])
    shown = look()
    said = text(shown)
    assert "1 of 2 failed" in said
    assert "search-green-1 answers /version with another status · It says 503." in said
    assert "41 ms" in said
    assert f"/c/rehearsal/actions/{failed.pk}/" in html(shown)


def test_every_fault_of_a_smoke_test_can_be_told():
    row = (
        recorded(
            StepState.FAILED,
            pods=1,
            passed=0,
            slowest_s=0.0,
            faults=[{"pod": "p", "fault": fault, "status": None, "found": "x"} for fault in (*Fault, "no-port")],
        )
        .steps.select_related("action")
        .first()
    )
    with translation.override("en"):
        said = [words.plain(fault, 0.0) for fault in pair_tests.tested([row])[0].faults]
    assert len(said) == len(Fault) + 1
    assert not [one for one in said if "{" in one]


def test_a_service_leads_to_its_page_and_a_side_to_its_pair(look, site):
    shown = targets.shown("rehearsal", "switch", "Service/serving/search")
    assert (shown["target_url"], shown["parent_url"]) == (HERE, LIST)
    wait_for(lambda: blue_green.service_of("rehearsal", "Deployment/serving/search-green") == "search", 20)
    assert wiring.sides().service_of("rehearsal", "Deployment/inference/llm-chat") == ""
    assert "Blue/green" in text(look(SWITCH))


def test_the_standing_of_a_side_is_never_better_than_its_pods(site):
    opened = wiring.sides().opened("rehearsal", "serving", "search")
    pair = opened.known.pair
    assert panel.head(pair).level == "ok"
    short = replace(pair, sides=tuple(replace(side, ready=1) for side in pair.sides))
    assert panel.head(short).level == "warn"
    assert panel.head(replace(pair, live=())).level == "bad"


def test_a_side_that_is_called_by_a_colour_has_it_and_no_place_changes_without_a_switch(site):
    opened = wiring.sides().opened("rehearsal", "serving", "search")
    pair = opened.known.pair
    blue, green = pair.sides
    teal = replace(blue, key="Deployment/serving/search-teal", name="search-teal", version="teal", ready=2)
    after = replace(pair, sides=(replace(blue, ready=0, replicas=0), green, teal), live=(green.key,))
    shown = panel.cards(
        replace(opened, known=replace(opened.known, pair=after)), EMPTY, None, dict.fromkeys(ON_SERVICE, "")
    )
    assert [(card.side.name, card.hue) for card in shown] == [
        ("search-blue", "blue"),
        ("search-green", "green"),
        ("search-teal", ""),
    ]
    moved = replace(after, sides=(green, teal), live=(teal.key,))
    shown = panel.cards(
        replace(opened, known=replace(opened.known, pair=moved)), EMPTY, None, dict.fromkeys(ON_SERVICE, "")
    )
    assert [(card.side.name, card.hue) for card in shown] == [("search-green", "green"), ("search-teal", "blue")]
