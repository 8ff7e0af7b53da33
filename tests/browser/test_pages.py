"""The pages in a real browser: keyboard, filters, narrow screens, both languages, no script, hostile names."""

import time

import msgspec
import pytest
from playwright.sync_api import expect

from fleet.domain.picture import EventRow, LabelsRow, PodRow
from tests.browser import demo

FOCUSED = """() => {
  const at = document.activeElement;
  return at.closest("[data-node]")?.dataset.node ?? at.closest(".att")?.dataset.key ?? at.id ?? at.className;
}"""


def test_the_keyboard_path_is_skip_link_top_bar_attention_map(visit, shown):
    page = visit().enter()
    page.wait_for_timeout(200)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    expect(page.get_by_text("Skip to content")).to_be_in_viewport()
    regions = []
    for _ in range(60):
        page.keyboard.press("Tab")
        region = page.evaluate(
            "[...['.top', '.kpis', '[data-live-attention]', '[data-live-map]']].find(r => document.activeElement.closest(r))"
        )
        if region and region not in regions:
            regions.append(region)
        if page.evaluate("document.activeElement === document.body"):
            break  # once around
        ring = page.evaluate(
            "(e => getComputedStyle(e).outlineStyle + ' ' + getComputedStyle(e.closest('.kpi, label') ?? e).outlineStyle)"
            "(document.activeElement)"
        )
        assert "solid" in ring, page.evaluate(FOCUSED)
    assert regions == [".top", ".kpis", "[data-live-attention]", "[data-live-map]"]


def test_the_skip_link_skips(visit, shown):
    page = visit().enter()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.kpis') !== null")


def visible(page) -> list[str]:
    return page.locator("[data-node]:visible").evaluate_all("items => items.map(item => item.dataset.node)")


def test_filters_narrow_the_map_and_stay_in_the_address(visit, shown):
    page = visit().enter()
    free = page.locator("[data-state=free]")
    free.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="L4").click()
    expect(page.locator("[data-map=shown]")).to_have_text("4 nodes shown")
    assert visible(page) == ["node-19", "node-21", "node-23", "node-24"]
    assert free.get_attribute("aria-pressed") == "true"
    assert page.locator(".group[id]:visible").count() == 1
    assert page.url.endswith("?state=free&product=L4")
    page.reload()
    assert visible(page) == ["node-19", "node-21", "node-23", "node-24"]
    row = shown.snapshot.nodes["node-20"]
    shown.show(demo.with_node(shown.snapshot, msgspec.structs.replace(row, cells="bbbbbbbf")))
    expect(page.locator("[data-map=shown]")).to_have_text("5 nodes shown")
    free.click()
    assert len(visible(page)) == 6
    page.get_by_role("button", name="All", exact=True).click()
    assert len(visible(page)) == 24
    expect(page.locator("[data-map=shown]")).to_be_hidden()
    assert page.url.endswith(f"/c/{shown.cluster}/")


def test_a_filter_that_nothing_passes_offers_the_way_back(visit, shown):
    visitor = visit()
    visitor.enter()
    page = visitor.open("?state=failed&product=L4")
    expect(page.get_by_text("No node matches.")).to_be_visible()
    page.get_by_role("link", name="Show all nodes").click()
    expect(page.locator("[data-node]:visible")).to_have_count(24)


def test_without_script_pages_can_be_read_and_filtered(visit, shown):
    visitor = visit(java_script_enabled=False)
    page = visitor.enter()
    page.locator("[data-state=failed]").click()
    assert visible(page) == ["node-11", "node-12"]
    expect(page.locator("[data-map=shown]")).to_have_text("2 nodes shown")
    page.get_by_role("button", name="L4").click()
    assert "state=failed" in page.url
    assert "product=L4" in page.url
    page.locator("[data-state=failed]").click()
    assert len(visible(page)) == 6
    page.get_by_text("OP", exact=True).click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("h1")).to_have_text("Sign in")


SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CLIPPED = """[...document.querySelectorAll('.kpi, .btn, .tag, .bar h2')].filter(e => e.scrollWidth > e.clientWidth + 1)
  .map(e => e.textContent.trim())"""


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
def test_no_page_scrolls_sideways(visit, shown, locale):
    """Loaded on the narrowest screen, and looked at on each."""
    visitor = visit(width=320, locale=locale)
    page = visitor.page
    page.goto(f"{shown.url}/login/")
    assert sideways(page) == {}
    visitor.enter()
    for path in ("", "nodes/node-07/", "nodes/node-22/"):
        page.set_viewport_size({"width": 320, "height": 900})
        visitor.open(path)
        expect(page.locator(".live > span").nth(1)).not_to_be_empty()
        assert sideways(page) == {}, path


def sideways(page) -> dict[int, tuple[int, list[str]]]:
    """By the screen's width: by how much the page is too wide, and what is cut off."""
    found = {}
    for width in (320, 390, 820, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        over, clipped = page.evaluate(SIDEWAYS), page.evaluate(CLIPPED)
        if over > 0 or clipped:
            found[width] = over, clipped
    return found


def test_the_node_page_follows_its_pods_and_its_conditions(visit, shown):
    visitor = visit()
    visitor.enter()
    page = visitor.open("nodes/node-07/")
    pods = page.locator("[data-live-rows=pods] tbody tr")
    expect(pods).to_have_count(4)
    expect(page.locator("h1")).to_contain_text("health not measured")
    page.wait_for_timeout(400)
    before, key = shown.snapshot, "ml/diffusion-xl-ft-07"
    running = msgspec.structs.replace(before.pods[key], status="CrashLoopBackOff", level="bad", restarts=5)
    new = PodRow("u", "ml", "a-new-one", "node-07", "Pending", gpus=8, grace_s=None, created_at=time.time())
    rows = {**before.pods, key: running, "ml/a-new-one": new}
    del rows["kube-system/kube-proxy-07"]
    shown.show(demo.replaced(before, pods=rows))
    expect(pods.first).to_contain_text("a-new-one")
    expect(pods).to_have_count(4)
    crashing = page.locator(f"tr[data-key='{key}']")
    expect(crashing).to_have_attribute("data-level", "bad")
    expect(crashing.locator("[data-c=restarts]")).to_have_text("5")
    expect(pods.first.locator("[data-c=grace]")).to_have_text("unknown")
    expect(page.locator("[data-live-told=people]")).to_have_text("3 pods")


def test_the_node_page_follows_its_events_and_labels(visit, shown):
    visitor = visit()
    visitor.enter()
    page = visitor.open("nodes/node-07/")
    events, labels = (page.locator(f"[data-live-rows={name}] tbody tr") for name in ("events", "labels"))
    expect(events).to_have_count(3)
    expect(events.nth(0)).to_contain_text("Readiness probe failed")
    expect(labels.nth(0)).to_be_hidden()
    page.locator(".folded summary").click()
    expect(labels.nth(0)).to_contain_text("beta.kubernetes.io/arch")
    annotations = page.locator("[data-live-rows=annotations]")
    expect(annotations).to_contain_text("GPU 5 waits for a row remap")
    before = shown.snapshot
    started = EventRow(
        "node-07", "Pod", "ml", "new-0", "Normal", "Pulled", "<b>Image</b> is here", 1, time.time(), "kubelet"
    )
    elsewhere = msgspec.structs.replace(started, node="node-08")
    happened = {**before.events, "ml/new-0.1": started, "ml/new-1.1": elsewhere}
    told = LabelsRow((("rack", "r" * 63),))
    shown.show(demo.replaced(before, events=happened, labels={**before.labels, "node-07": told}))
    expect(events).to_have_count(4)
    expect(events.nth(0)).to_contain_text("<b>Image</b> is here")
    expect(labels).to_have_count(1)
    expect(labels).to_contain_text("r" * 63)
    expect(page.locator("[data-live-told=labels]")).to_have_text("1 label")
    expect(annotations).to_be_hidden()
    shown.show(demo.replaced(shown.snapshot, events={"ml/new-1.1": elsewhere}))
    expect(page.get_by_text("No event that Vigie can read.")).to_be_visible()


def test_the_node_page_says_when_its_node_has_gone(visit, shown):
    visitor = visit()
    visitor.enter()
    page = visitor.open("nodes/node-07/")
    page.wait_for_timeout(400)
    before = shown.snapshot
    shown.show(demo.without_node(before, "node-07"))
    expect(page.get_by_text("node-07 is no longer in the cluster")).to_be_visible()
    shown.show(before)
    expect(page.get_by_text("node-07 is no longer in the cluster")).to_be_hidden()


def test_names_from_a_cluster_are_text_and_nothing_else(visit, served):
    hostile = '<img src=x onerror="window.hit=1">\'"&{age}'
    base = demo.now()
    row = msgspec.structs.replace(base.nodes["node-01"], gpu_workloads=(hostile,), pool=hostile, product=hostile)
    served.show(demo.with_node(base, row))
    visitor = visit()
    page = visitor.enter()
    expect(page.locator("[data-node=node-01] .say")).to_contain_text(hostile)
    page.wait_for_timeout(300)
    other = msgspec.structs.replace(row, gpu_workloads=(hostile, "2"), zone=hostile, taints=(hostile,))
    served.show(demo.with_node(base, other))
    expect(page.locator("[data-node=node-01] .say")).to_contain_text(f"{hostile}, 2")
    visitor.open("nodes/node-01/")
    expect(page.locator("[data-key=taints] dd")).to_have_text(hostile)
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0


def test_event_times_are_in_the_readers_zone(visit, shown):
    visitor = visit(timezone_id="Asia/Tokyo")
    visitor.enter()
    page = visitor.open("nodes/node-01/")
    time_element = page.locator("[data-key=created] time")
    from_script = time_element.inner_text()
    at = time_element.get_attribute("data-live-clock")
    expected = page.evaluate(
        "at => new Date(at * 1000).toLocaleTimeString('en-GB', {hour: '2-digit', minute: '2-digit', timeZone: 'Asia/Tokyo'})",
        float(at),
    )
    assert expected in from_script
    served = visitor.context.request.get(page.url).text()
    assert f">{from_script}</time>" in served, "the server renders the same, so nothing jumps when script starts"


def test_on_a_phone_numbers_keep_their_reference_and_pods_say_only_what_there_is(visit, shown):
    visitor = visit(width=390)
    page = visitor.enter()
    for number, unit in (("available", "/ 192"), ("room", "with 8 GPUs"), ("fragmentation", "for 8")):
        expect(page.locator(f"[data-number={number}] .v small")).to_be_visible()
        expect(page.locator(f"[data-number={number}] .v small")).to_have_text(unit)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    boxes = page.locator(".kpi dd.v").evaluate_all("all => all.map(e => e.scrollWidth <= e.clientWidth + 1)")
    assert all(boxes)
    quiet = PodRow("u1", "ml", "quiet", "node-07", "Running", "ok", 1, 1)
    busy = PodRow("u2", "ml", "busy", "node-07", "Running", "ok", 1, 1, 3, gpus=1, budgets=("b",), empty_dir=True)
    shown.show(demo.replaced(shown.snapshot, pods={"ml/quiet": quiet, "ml/busy": busy}))
    visitor.open("nodes/node-07/")
    told = "row => [...row.cells].filter(cell => cell.checkVisibility()).map(cell => cell.dataset.c)"
    always = ["pod", "status", "ready", "grace", "age"]
    every = ["pod", "gpus", "status", "ready", "restarts", "grace", "budget", "empty-dir", "age"]
    row = "[data-live-rows=pods] tr[data-key='ml/{}']"
    assert page.locator(row.format("quiet")).evaluate(told) == always
    assert page.locator(row.format("busy")).evaluate(told) == every
    shown.show(
        demo.replaced(shown.snapshot, pods={"ml/quiet": msgspec.structs.replace(quiet, restarts=1), "ml/busy": busy})
    )
    expect(page.locator(row.format("quiet") + " [data-c=restarts]")).to_be_visible()
    assert visitor.errors == []
