"""The wall and the page of all clusters, live; the wall fits its screen and has nothing to press."""

import msgspec
from playwright.sync_api import expect

from tests.browser import demo

SMALLEST_PX = 26
TEXTS = """() => [...document.querySelectorAll('.wall *')].filter(e => e.checkVisibility() && !e.closest('.vh, .gpus, svg')
  && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
  .map(e => [parseFloat(getComputedStyle(e).fontSize), e.textContent])"""
FITS = """() => [document.documentElement.scrollHeight <= innerHeight + 8, document.documentElement.scrollWidth <= innerWidth,
  [...document.querySelectorAll('.wall-map .rows')].every(e => e.scrollHeight <= e.clientHeight + 2)]"""


def test_the_wall_fits_is_large_and_follows(visit, shown):
    visitor = visit(width=1920, height=1080)
    visitor.enter("viewer")
    page = visitor.page
    page.goto(f"{shown.url}/wall/?cluster={shown.cluster}")
    expect(page.locator(".live")).to_have_attribute("data-live", "live")
    page.wait_for_timeout(400)
    sizes = page.evaluate(TEXTS)
    assert len(sizes) > 40
    assert [found for found in sizes if found[0] < SMALLEST_PX] == []
    assert page.evaluate(FITS) == [True, True, True]
    page.set_viewport_size({"width": 3840, "height": 2160})
    assert page.evaluate(FITS) == [True, True, True]
    assert page.locator("a:not(.skip), button, input, select").count() == 0
    before = shown.snapshot
    calm = {key: row for key, row in before.attention.items() if row.level != "bad"}
    row = msgspec.structs.replace(before.nodes["node-05"], level="off", reasons=("cordoned",), cells="cccccccc")
    shown.show(demo.replaced(demo.with_node(before, row), attention=calm))
    expect(page.locator(".alarm")).to_be_hidden()
    expect(page.locator("[data-node=node-05]")).to_have_attribute("data-level", "off")
    expect(page.locator("[data-node=node-05] .gpu").first).to_have_attribute("data-s", "cordoned")
    expect(page.locator(".wall-item h3").first).to_contain_text("ocr-api lacks 1 pod")
    shown.show(demo.without_node(before, "node-01"))
    expect(page.locator("[data-node=node-01]")).to_have_count(0)
    shown.trouble = (("server", "refused", 5.0),)
    shown.pulse()
    expect(page.locator(".lost")).to_contain_text("The cluster’s API server does not answer.")
    expect(page.locator(".alarm h2")).to_contain_text("node-22 is silent")
    page.set_viewport_size({"width": 1920, "height": 1080})
    assert page.evaluate(FITS) == [True, True, True]
    assert [found for found in page.evaluate(TEXTS) if found[0] < SMALLEST_PX] == []


def test_each_cluster_has_its_own_age_on_the_page_of_all(visit, shown):
    visitor = visit()
    visitor.enter("viewer")
    page = visitor.page
    page.goto(f"{shown.url}/all/")
    card = page.locator("[data-live-cluster]")
    expect(card.locator(".live b")).to_have_text("Live")
    page.wait_for_timeout(400)
    total = msgspec.structs.replace(shown.snapshot.fleet["fleet"], available=1_000, waiting_pods=0)
    shown.show(demo.replaced(shown.snapshot, fleet={"fleet": total}, attention={}))
    expect(card.locator("[data-number=available] .v")).to_contain_text("1,000")
    expect(card.locator(".needs")).to_have_text("Nothing needs attention.")
    shown.trouble = (("server", "refused", 5.0),)
    shown.pulse()
    expect(card.locator(".live b")).to_have_text("No new data")
    expect(card).to_have_attribute("data-stale", "")
