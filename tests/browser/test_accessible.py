"""Nothing that axe-core finds, on any page, in either theme; and no page that scrolls sideways."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from fleet.domain.picture import EMPTY
from tests.browser import demo_gpus, demo_ledger, demo_rollouts
from tests.browser.conftest import Visitor
from tests.browser.demo_gpus import uuid
from tests.browser.demo_ledger import GONE
from tests.browser.demo_rollouts import HELD

AXE = Path(__file__).resolve().parent.parent.parent / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# A walk of each: on a busy machine axe needs seconds for a page, and a test has two minutes.
WALKS = {
    "fleet": ("/login/", "/c/{}/", "/c/{}/?zoom=dense", "/c/{}/?zoom=groups", "/c/{}/?state=failed&product=L4"),
    "nodes": ("/c/{}/nodes/node-07/", "/c/{}/nodes/nobody/", "/c/{}/nodes/node-12/"),
    "lists": ("/c/{}/workloads/", "/c/{}/workloads/?q=nothing", "/c/{}/waiting/"),
    "rollouts": ("/c/{}/rollouts/", f"/c/{{}}/rollouts/{HELD}/", "/c/{}/rollouts/Deployment/ml/nobody/"),
    "search": ("/c/{}/search/", "/c/{}/search/?q=llm", "/c/{}/search/?q=gpu-0c"),
    "gpus": tuple(f"/c/{{}}/gpus/{uuid('node-12', i)}/" for i in (0, 5, 6, 7)),
    "past": (f"/c/{{}}/gpus/{uuid('node-14', 0)}/?span=24h", f"/c/{{}}/gpus/{GONE}/", "/c/{}/gpus/nobody/"),
    "availability": ("/c/{}/availability/", "/c/{}/availability/?by=gpu&window=90d"),
    "cadence": (
        "/c/{}/cadence/", "/c/{}/cadence/?save_cost=3m&mtbf=24h&interval=30m+2h&horizon=40h&grace=60s",
        "/c/{}/cadence/?save_cost=20s&write=10m&interval=5m&gpus=64", "/c/{}/cadence/?save_cost=3&gpus=x",
    ),
    "others": ("/all/", "/account/", "/help/", "/wall/?cluster={}", "/nowhere/"),
}  # fmt: skip
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def violations(page: Page, only: list[str] | None = None) -> list[str]:
    """Every violation with the elements that it is about. The cells of the map are hidden from those whom axe speaks for."""
    run = {"type": "rule", "values": only} if only else {"type": "tag", "values": RULES}
    found = page.evaluate(
        "run => axe.run({ exclude: [['.gpus']] }, { runOnly: run, resultTypes: ['violations'] })", run
    )
    return [
        f"{one['id']}: {node['target']} {node.get('failureSummary', '')[:400]}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


def faults(page: Page) -> list[str]:
    """What is wrong with the page as it stands: in the dark, in the light, and on narrow and wide screens."""
    page.emulate_media(color_scheme="dark")
    found = violations(page)
    page.emulate_media(color_scheme="light")
    found += violations(page, ["color-contrast"])
    for width in (390, 1920, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        if (over := page.evaluate(SIDEWAYS)) > 0:
            found.append(f"{over} px too wide at {width}")
        if width == 390:
            found += violations(page, ["color-contrast", "target-size", "label", "link-name", "button-name"])
    return found


@pytest.fixture
def opened(visit, shown) -> Iterator[Visitor]:
    """A window of an approver with axe-core at hand as an extension has it: outside the page's policy."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci in frontend/")
    visitor = visit(reduced_motion="reduce")
    visitor.context.add_init_script(AXE.read_text())
    visitor.enter("approver")
    yield visitor
    visitor.errors[:] = [error for error in visitor.errors if "404" not in error]


def walked(visitor: Visitor, paths: Iterable[str]) -> dict[str, list[str]]:
    found = {}
    for path in paths:
        visitor.page.goto(visitor.served.url + path.format(visitor.served.cluster))
        visitor.page.wait_for_timeout(200)
        if told := faults(visitor.page):
            found[path] = told
    return found


@pytest.mark.parametrize("walk", WALKS)
def test_nothing_is_wrong_on_any_page(opened, shown, walk):
    shown.show(demo_rollouts.shown(demo_gpus.attentive(shown.snapshot, time.time()), time.time()))
    demo_ledger.write(shown.cluster, shown.snapshot, time.time())
    assert walked(opened, WALKS[walk]) == {}


@pytest.mark.timeout(400)
def test_nothing_is_wrong_on_the_page_of_the_api(opened):
    """Apart from the others: it is long, and axe needs a minute for it on a busy machine."""
    assert walked(opened, ("/api/v1/docs",)) == {}


def test_nothing_is_wrong_where_data_is_lost(opened, shown):
    shown.trouble = (("server", "refused", 9.0),)
    shown.pulse()
    assert walked(opened, ("/c/{}/", "/wall/?cluster={}", "/all/")) == {}


def test_nothing_is_wrong_where_there_is_nothing(opened, shown):
    shown.show(EMPTY)
    assert walked(opened, ("/c/{}/", "/c/{}/workloads/", "/c/{}/waiting/", "/wall/?cluster={}")) == {}
