"""The dense map: tiles, one tab stop per group, the lens, and a thousand nodes."""

import msgspec
import pytest
from playwright.sync_api import expect

from tests.browser import demo

MARKED = "() => document.activeElement.closest('[data-node]')?.dataset.node"


@pytest.fixture
def dense(visit, shown):
    visitor = visit()
    visitor.enter()
    page = visitor.open("?zoom=dense")
    expect(page.locator(".live")).to_have_attribute("data-live", "live")
    page.wait_for_timeout(300)
    return visitor


def test_zoom_is_chosen_in_place_and_remembered(dense, shown):
    page = dense.page
    assert page.locator("[data-live-map]").get_attribute("data-zoom") == "dense"
    page.get_by_role("button", name="Cards").click()
    expect(page.locator("[data-live-map]")).to_have_attribute("data-zoom", "cards")
    expect(page.locator("[data-lens]")).to_be_hidden()
    dense.open()
    assert page.locator("[data-live-map]").get_attribute("data-zoom") == "cards"
    dense.open("?zoom=groups")
    page.get_by_role("link", name="Show nodes train / par1-b").click()
    expect(page.locator("[data-node]:visible")).to_have_count(6)
    expect(page.locator(".group[id]:visible")).to_have_count(4)
    row = msgspec.structs.replace(shown.snapshot.nodes["node-13"], cells="bbbbbxxx")
    shown.show(demo.with_node(shown.snapshot, row))
    expect(page.locator("[id='g-infer/par1-a'] .tag[data-tag=failed]")).to_contain_text("3 failed")
    expect(page.locator("[data-node]")).to_have_count(6)


def test_arrows_move_within_a_group_which_is_one_tab_stop(dense):
    page = dense.page
    page.locator("#map-h").focus()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate(MARKED):
            break
    assert page.evaluate(MARKED) == "node-13"
    for key, expected in (("ArrowRight", "node-14"), ("End", "node-18"), ("ArrowLeft", "node-17"), ("Home", "node-13")):
        page.keyboard.press(key)
        assert page.evaluate(MARKED) == expected
    page.keyboard.press("ArrowRight")
    expect(page.locator(".lens .name")).to_have_text("node-14")
    page.keyboard.press("Tab")
    assert page.evaluate(MARKED) == "node-19"
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(MARKED) == "node-14"
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("node-14")


def test_the_lens_shows_the_node_under_the_pointer_and_follows_it(dense, shown):
    page = dense.page
    page.locator("[data-node=node-11] .node").hover()
    lens = page.locator("[data-lens]")
    expect(lens).to_contain_text("1 GPU withdrawn")
    row = msgspec.structs.replace(shown.snapshot.nodes["node-11"], level="", reasons=(), gpu_workloads=("repaired",))
    shown.show(demo.with_node(shown.snapshot, row))
    expect(lens).to_contain_text("repaired")
    assert dense.shifts() == []


def test_trouble_and_pool_narrow_the_map(dense):
    page = dense.page
    page.get_by_role("button", name="Not normal only").click()
    expect(page.locator("[data-map=shown]")).to_have_text("4 nodes shown")
    page.locator("select[name=pool]").select_option("infer")
    expect(page.locator("[data-map=shown]")).to_have_text("2 nodes shown")
    assert "only=trouble&pool=infer" in page.url
    page.reload()
    expect(page.locator("[data-node]:visible")).to_have_count(2)


def test_a_thousand_nodes_are_dense_and_quick(visit, served):
    large = demo.large()
    served.show(large)
    visitor = visit()
    page = visitor.enter()
    expect(page.locator("[data-live-map]")).to_have_attribute("data-zoom", "dense")
    page.wait_for_timeout(1_000)
    rows = dict(large.nodes)
    normal = [name for name, row in rows.items() if not row.level]
    for name in normal[::10]:
        rows[name] = msgspec.structs.replace(rows[name], cells="ffffffff")
    page.evaluate(
        """() => new PerformanceObserver((list) => { window.longest = Math.max(window.longest ?? 0, ...list.getEntries()
        .map((entry) => entry.duration)); }).observe({ type: 'longtask' })"""
    )
    served.show(demo.replaced(large, nodes=rows))
    name = normal[-1 - (len(normal) - 1) % 10]
    expect(page.locator(f"[data-node='{name}'] .gpu").first).to_have_attribute("data-s", "free")
    page.wait_for_timeout(300)
    assert page.evaluate("window.longest ?? 0") < 2_000, "100 changed nodes never block the page for long"
    assert sum(shift[1] for shift in visitor.shifts()) < 0.01, "a group's sentence may wrap; nothing else moves"
