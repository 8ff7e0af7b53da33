"""Pages that stay true: what changes is patched in place, nothing moves, nothing is lost, old data looks old."""

import re
import time

import msgspec
import pytest
from playwright.sync_api import Page, expect

from fleet.domain.picture import AttentionRow, NodeRow
from tests.browser import demo

# Counts how often each element was marked as changed, and whether a node's card was ever replaced.
WITNESS = """() => {
  window.flashes = [];
  window.cards = new Set(document.querySelectorAll(".node"));
  new MutationObserver((changes) => {
    for (const change of changes) {
      if (change.target.hasAttribute("data-changed")) window.flashes.push(change.target.className || change.target.tagName);
    }
  }).observe(document.body, { subtree: true, attributes: true, attributeFilter: ["data-changed"] });
}"""


def card(page: Page, name: str):
    return page.locator(f"[data-node='{name}']")


def states(page: Page, name: str) -> list[str]:
    return card(page, name).locator(".gpu").evaluate_all("cells => cells.map(cell => cell.dataset.s)")


@pytest.fixture
def fleet(visit, shown):
    """The Fleet page, connected."""
    visitor = visit()
    page = visitor.enter()
    expect(page.locator(".live")).to_have_attribute("data-live", "live")
    page.wait_for_timeout(300)
    page.evaluate(WITNESS)
    return visitor


def changed(row: NodeRow, **fields) -> NodeRow:
    return msgspec.structs.replace(row, **fields)


def test_one_cell_changes_and_nothing_else_moves(fleet, shown):
    page, before = fleet.page, shown.snapshot
    row = before.nodes["node-05"]
    resources = (changed(row.resources[0], allocated=5, free=3),)
    began = time.monotonic()
    shown.show(demo.with_node(before, changed(row, cells="bbbbbfff", resources=resources)))
    expect(card(page, "node-05").locator(".gpu").nth(4)).to_have_attribute("data-s", "busy")
    assert time.monotonic() - began < 5
    assert states(page, "node-05") == ["busy"] * 5 + ["free"] * 3
    expect(card(page, "node-05").locator(".free")).to_have_text("3 free")
    expect(card(page, "node-05").locator(".vh")).to_have_text(". 8 GPUs: 5 busy · 3 free.")
    expect(page.locator("[id='g-train/par1-a'] header p")).to_contain_text("4 free")
    page.wait_for_timeout(2_200)  # the flash is over, and ages have ticked
    assert fleet.shifts() == []
    flashes = page.evaluate("window.flashes")
    assert flashes.count("gpu") == 1
    assert set(flashes) <= {"gpu", "free", "P"}
    assert page.evaluate("[...document.querySelectorAll('.node')].every(node => window.cards.has(node))")
    assert page.locator("[data-changed]").count() == 0


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
def test_words_about_age_have_their_room_from_the_start(visit, shown, locale):
    """A page believes the newest pulse, so that a picture can only get younger: from late to live, which is the same way."""
    shown.at_offset_s = 57
    shown.pulse()
    visitor = visit(locale=locale)
    live = visitor.enter().locator(".live")
    for offset_s, state, age in ((57, "late", "5"), (12, "late", "1"), (0, "live", "0")):
        shown.at_offset_s = offset_s
        shown.pulse()
        expect(live).to_have_attribute("data-live", state)
        expect(live.locator("span:not(.vh)").last).to_have_text(re.compile(rf"\b{age}"))
    visitor.page.wait_for_timeout(300)
    assert visitor.shifts() == []


def test_an_unchanged_fleet_neither_flashes_nor_moves(fleet, shown):
    fleet.page.wait_for_timeout(3_500)
    assert fleet.page.evaluate("window.flashes") == []
    assert fleet.shifts() == []
    expect(fleet.page.locator(".live > span:not(.vh)").last).to_have_text("data 0 s old")


def test_level_reason_and_numbers_follow(fleet, shown):
    page, before = fleet.page, shown.snapshot
    row = changed(
        before.nodes["node-01"],
        level="off",
        reasons=("cordoned",),
        unschedulable=True,
        usable=False,
        cordoned_at=time.time() - 65,
    )
    total = msgspec.structs.replace(
        before.fleet["fleet"], free=0, largest_hole=0, waiting_pods=0, cells=(("busy", 1_147), ("idle", 3))
    )
    shown.show(demo.replaced(demo.with_node(before, row), fleet={"fleet": total}))
    node = card(page, "node-01")
    expect(node.locator(".node")).to_have_attribute("data-level", "off")
    expect(node.locator(".say")).to_contain_text("Cordoned 1 min")
    expect(node.locator(".say use")).to_have_attribute("href", "#s-off")
    expect(page.locator("[data-number=free] .v")).to_have_text("0")
    expect(page.locator("[data-number=largest] .s")).to_have_text("nothing is free")
    assert page.locator("[data-number=largest] a").get_attribute("href") is None
    expect(page.locator("[data-number=waiting] .ico")).to_be_hidden()
    expect(page.locator("[data-state=busy] b")).to_have_text("1,147")
    expect(page.locator("[data-state=idle]")).to_be_visible()


def test_nodes_come_and_go_in_their_place(fleet, shown):
    page, before = fleet.page, shown.snapshot
    new = changed(before.nodes["node-02"], name="node-002")
    other = changed(before.nodes["node-02"], name="alone", pool="batch", zone="")
    after = demo.without_node(demo.with_node(demo.with_node(before, new), other), "node-01")
    shown.show(after)
    expect(card(page, "node-002")).to_be_visible()
    names = page.locator("[id='g-train/par1-a'] .name").all_inner_texts()
    assert names == ["node-002", "node-02", "node-03", "node-04", "node-05", "node-06"]
    assert page.locator(".group[id] h3").all_inner_texts()[0] == "batch"
    assert card(page, "alone").locator("a").get_attribute("href") == f"/c/{shown.cluster}/nodes/alone/"
    expect(card(page, "node-01")).to_have_count(0)
    shown.show(demo.without_node(after, "alone"))
    expect(page.locator("[id='g-batch/']")).to_have_count(0)


def test_the_focus_survives_a_change_of_its_node_and_finds_a_place_when_the_node_goes(fleet, shown):
    page, before = fleet.page, shown.snapshot
    card(page, "node-05").locator("a").focus()
    row = changed(before.nodes["node-05"], cells="bbbbbbbb", gpu_workloads=("other",))
    after = demo.with_node(before, row)
    shown.show(after)
    expect(card(page, "node-05").locator(".say")).to_contain_text("other")
    expect(card(page, "node-05").locator("a")).to_be_focused()
    shown.show(demo.without_node(after, "node-05"))
    expect(page.locator("#map-h")).to_be_focused()


def fallen(name: str) -> tuple[str, AttentionRow]:
    facts = (("pods", 1), ("gpus", 8), ("reason", None), ("message", None))
    return f"node-unreachable:{name}", AttentionRow("node-unreachable", "bad", 0, name, name, time.time() - 30, facts)


def test_the_attention_list_takes_in_what_is_new(fleet, shown):
    page, before = fleet.page, shown.snapshot
    page.mouse.move(5, 5)
    shown.show(demo.replaced(before, attention=dict([*before.attention.items(), fallen("node-01")])))
    expect(page.locator(".att h3").nth(1)).to_have_text("node-01 is silent")
    expect(page.locator("#att-h small")).to_have_text("8")
    expect(page.locator("[data-live-attention] [role=alert]")).to_have_text("New: node-01 is silent")
    shown.show(demo.replaced(before, attention={}))
    expect(page.get_by_text("Nothing needs attention.")).to_be_visible()


@pytest.mark.parametrize("hold", ["focus", "pointer"])
def test_the_attention_list_does_not_move_under_focus_or_pointer(fleet, shown, hold):
    page, before = fleet.page, shown.snapshot
    first = page.locator(".att .btn").first
    first.focus() if hold == "focus" else first.hover()
    titles = page.locator(".att h3").all_inner_texts()
    rows = dict([*list(before.attention.items())[1:], fallen("node-01"), fallen("node-02")])
    shown.show(demo.replaced(before, attention=rows))
    show = page.get_by_role("button", name="2 new, show")
    expect(show).to_be_visible()
    assert page.locator(".att h3").all_inner_texts() == titles
    assert fleet.shifts() == []
    show.click()
    expect(page.locator(".att h3").first).to_have_text("node-01 is silent")
    expect(page.locator("#att-h")).to_be_focused()
    expect(page.locator(".att")).to_have_count(8)
    expect(show).to_be_hidden()


def test_looking_away_brings_the_list_up_to_date(fleet, shown):
    page, before = fleet.page, shown.snapshot
    page.locator(".att .btn").first.focus()
    shown.show(demo.replaced(before, attention=dict([fallen("node-01")])))
    expect(page.get_by_role("button", name="1 new, show")).to_be_visible()
    card(page, "node-01").locator("a").focus()
    expect(page.locator(".att h3")).to_have_text(["node-01 is silent"])


def test_a_broken_stream_is_named_and_goes_away(fleet, shown):
    page = fleet.page
    shown.trouble = (("pods", "the server answers 500", 4.0),)
    shown.pulse()
    expect(page.locator(".att h3").first).to_have_text("Changes of pods do not arrive")
    expect(page.locator(".att .since").first).to_contain_text("s")
    shown.trouble = ()
    shown.pulse()
    expect(page.locator(".att h3").first).to_have_text("node-22 is silent")


# --- Age -----------------------------------------------------------------------------------------------------------------------
def test_old_data_looks_old(fleet, shown):
    page = fleet.page
    page.route_web_socket("**/ws/", lambda route: route.close(code=1013))
    page.clock.install()
    page.reload()
    expect(page.locator(".live b")).to_have_text("Live")
    page.clock.run_for(5_000)
    expect(page.locator(".live")).to_have_attribute("data-live", "lost")
    page.clock.run_for(61_000)
    expect(page.locator(".live")).to_have_attribute("data-live", "lost")
    assert page.locator("main").get_attribute("data-stale") == ""
    expect(page.locator(".asof")).to_have_count(8)
    expect(page.locator(".asof").first).to_contain_text("as of ")
    expect(page.get_by_text("Needed attention")).to_be_visible()
    banner = page.locator(".lost")
    expect(banner).to_contain_text("No data since")
    expect(banner).to_contain_text("1 min ago.")
    expect(banner.get_by_role("button", name="Try now")).to_be_visible()
    expect(page.locator(".live [role=status]")).to_have_text("Not connected")
    card(page, "node-05").locator("a").click(trial=True)  # links still work


def test_a_picture_that_gets_old_is_late_before_it_is_lost(fleet, shown):
    shown.at_offset_s = 20
    shown.pulse()
    fleet.page.reload()
    expect(fleet.page.locator(".live b")).to_have_text("Late")
    assert fleet.page.locator("main").get_attribute("data-stale") is None


def test_a_known_loss_needs_no_age(fleet, shown):
    shown.trouble = (("server", "connection refused", 3.0),)
    shown.pulse()
    expect(fleet.page.locator(".lost")).to_contain_text("The cluster’s API server does not answer.")
    expect(fleet.page.locator(".live b")).to_have_text("No new data")
    shown.trouble = ()
    shown.pulse()
    expect(fleet.page.locator(".live b")).to_have_text("Live")


def test_an_old_picture_is_old_from_the_first_second(visit, served):
    served.at_offset_s = 100
    served.show(demo.now())
    page = visit().enter()
    expect(page.locator(".live b")).to_have_text("No new data")
    expect(page.locator(".lost")).to_contain_text("Connected, but nothing new comes from the cluster.")
    served.at_offset_s = 0
    served.pulse()
    expect(page.locator(".live b")).to_have_text("Live")
    expect(page.locator(".lost")).to_be_hidden()
    assert page.locator("main").get_attribute("data-stale") is None
    expect(page.locator(".asof")).to_have_count(0)


# --- Connection ----------------------------------------------------------------------------------------------------------------
def test_a_lost_message_makes_the_page_fetch_everything(visit, shown):
    visitor = visit()
    dropped, asked = [], []

    def between(route):
        server = route.connect_to_server()

        def to_page(message):
            if '"t":"delta"' in message and not dropped:
                dropped.append(message)
            else:
                route.send(message)

        def to_server(message):
            if "refetch" in message:
                asked.append(message)
            server.send(message)

        server.on_message(to_page)
        route.on_message(to_server)

    visitor.page.route_web_socket("**/ws/", between)
    page = visitor.enter()
    expect(page.locator(".live")).to_have_attribute("data-live", "live")
    page.wait_for_timeout(300)
    before = shown.snapshot
    first = demo.with_node(before, changed(before.nodes["node-01"], gpu_workloads=("first",)))
    shown.show(first)
    shown.show(demo.with_node(first, changed(first.nodes["node-02"], gpu_workloads=("second",))))
    expect(card(page, "node-02").locator(".say")).to_contain_text("second")
    expect(card(page, "node-01").locator(".say")).to_contain_text("first")
    assert len(dropped) == 1
    assert len(asked) == 1


def test_a_broken_socket_is_opened_again_by_itself(visit, shown):
    visitor = visit()
    routes = []

    def between(route):
        route.connect_to_server()
        routes.append(route)

    visitor.page.route_web_socket("**/ws/", between)
    page = visitor.enter()
    page.wait_for_timeout(500)
    routes[0].close(code=1012)
    before = shown.snapshot
    shown.show(demo.with_node(before, changed(before.nodes["node-01"], gpu_workloads=("afterwards",))))
    expect(card(page, "node-01").locator(".say")).to_contain_text("afterwards")
    assert len(routes) == 2


def test_the_page_that_waits_for_the_first_list_continues_by_itself(visit, served):
    page = visit().enter()
    expect(page.get_by_role("status")).to_have_text("The first list of nodes and pods is being read.")
    served.show(demo.now())
    expect(page.locator("[data-live-map]")).to_be_visible()
    expect(page.locator(".node")).to_have_count(24)
