"""The page about blue/green, against the rehearsal: both sides with what they hold, the way on, and why a button is off."""

import pytest

from fleet import wiring
from fleet.domain import switching
from fleet.simulation.clock import RealClock
from fleet.simulation.rehearsal import Rehearsal, serving
from fleet.simulation.scenarios.stage import State
from tests.dashboard.pictures import well_read
from tests.dashboard.test_actions_pages import text
from tests.fleet.clusters import wait_for

pytestmark = [pytest.mark.django_db(transaction=True)]

HERE = "/c/rehearsal/blue-green/"
SWITCH = "/c/rehearsal/releases/Service/serving/search/do/switch/"


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
    found = wiring.site("rehearsal")
    with well_read("rehearsal", []):
        yield found
    found.cluster.close()
    wiring.site.cache_clear()


def test_a_pair_its_sides_and_what_may_be_done(as_person, site):
    shown = as_person("operator").get(HERE)
    said = text(shown)
    assert "search-blue serves." in said
    assert "found by labels" in said
    assert said.count("Ready 2 of 2") == 2
    assert f'href="{SWITCH}"' in shown.content.decode()
    assert "aria-disabled" not in shown.content.decode()
    assert "The way back is open since" not in said


def test_after_a_switch_the_way_back_is_offered(as_person, site):
    found = site.changer.read_service("serving", "search")
    was = dict(found.spec.selector)
    now = {**was, "colour": "green"}
    changed = site.changer.select(found, now, switching.note(was, now, 1_000.0, "1"))
    try:
        shown = as_person("operator").get(HERE)
        assert "search-green serves." in text(shown)
        assert "The way back is open since" in text(shown)
        assert SWITCH.replace("/switch/", "/way-back/") in shown.content.decode()
    finally:
        site.changer.select(changed, was, {switching.WAY_BACK: None})


def test_a_viewer_is_told_why_not(as_person, site):
    assert 'aria-disabled="true"' in as_person("viewer").get(HERE).content.decode()


def test_a_cluster_that_does_not_answer(as_person, writer):
    shown = text(as_person("viewer").get(f"/c/{writer.cluster}/blue-green/"))
    assert "The cluster does not answer" in shown
    assert "No Service has two sides" not in shown
