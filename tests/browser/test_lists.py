"""The pages of lists: Workloads, Waiting and Search, live and by keyboard."""

import time

import msgspec
from playwright.sync_api import expect

from fleet.domain.picture import PodRow
from tests.browser import demo, demo_rollouts


def test_workloads_follow_and_do_not_move_under_the_pointer(visit, shown):
    visitor = visit()
    visitor.enter()
    page = visitor.open("workloads/")
    rows = page.locator("[data-live-rows=workloads] tbody tr")
    expect(rows.first).to_contain_text("ocr-api")
    expect(page.locator(".live")).to_have_attribute("data-live", "live")
    page.wait_for_timeout(400)
    rows.nth(3).hover()
    before, key = shown.snapshot, "Deployment/ml/llm-chat"
    short = msgspec.structs.replace(before.workloads[key], available=2, ready=2, gpus=16)
    shown.show(demo.replaced(before, workloads={**before.workloads, key: short}))
    row = page.locator(f"tr[data-key='{key}']")
    expect(row).to_have_attribute("data-level", "warn")
    expect(row.locator("[data-c=state]")).to_contain_text("lacks 2 pods")
    expect(page.locator("[data-live-told=workloads]")).to_contain_text("GPUs held")
    assert rows.nth(0).get_attribute("data-key") == "Deployment/ml/ocr-api"
    page.mouse.move(5, 5)
    expect(rows.nth(0)).to_have_attribute("data-key", key)
    page.locator("select[name=namespace]").select_option("ml")
    page.wait_for_url("**namespace=ml**")
    expect(rows.first).to_have_attribute("data-key", key)


def test_no_row_moves_while_somebody_reads_on_a_phone(visit, shown):
    """A finger leaves no pointer behind: who has scrolled into the list keeps the place, and finds the order right at the top."""
    visitor = visit()
    visitor.enter()
    page = visitor.open("workloads/")
    page.set_viewport_size({"width": 390, "height": 640})
    expect(page.locator(".live")).to_have_attribute("data-live", "live")
    rows = page.locator("[data-live-rows=workloads] tbody tr")
    first = rows.nth(0).get_attribute("data-key")
    assert "" not in rows.locator("td[data-kept] :is(a, span)").all_inner_texts(), (
        "rows are the server's, script or not"
    )
    page.evaluate(
        "scrollTo(0, document.querySelector('[data-live-rows=workloads] tbody').getBoundingClientRect().top + scrollY + 80)"
    )
    before, key = shown.snapshot, "Deployment/ml/llm-chat"
    short = msgspec.structs.replace(before.workloads[key], available=2, ready=2, gpus=16)
    shown.show(demo.replaced(before, workloads={**before.workloads, key: short}))
    expect(page.locator(f"tr[data-key='{key}']")).to_have_attribute("data-level", "warn")
    assert rows.nth(0).get_attribute("data-key") == first != key
    page.evaluate("scrollTo(0, 0)")
    expect(rows.nth(0)).to_have_attribute("data-key", key)


def test_waiting_pods_come_and_go(visit, shown):
    visitor = visit()
    visitor.enter()
    page = visitor.open("waiting/")
    rows = page.locator("[data-live-rows=waiting] tbody tr")
    expect(rows).to_have_count(4)
    page.wait_for_timeout(400)
    before = shown.snapshot
    bound = msgspec.structs.replace(before.pods["ml/rl-policy-0"], node="node-05")
    new = PodRow("n", "ml", "late-0", gpus=1, resources=(("nvidia.com/gpu", 1),), created_at=time.time())
    shown.show(demo.replaced(before, pods={**before.pods, "ml/rl-policy-0": bound, "ml/late-0": new}))
    expect(rows.last).to_contain_text("late-0")
    expect(rows.last).to_contain_text("now on node-05")
    expect(rows).to_have_count(4)
    expect(page.locator("[data-live-told=waiting]")).to_have_text("4 pods · 25 GPUs")
    bound_pods = {key: pod for key, pod in before.pods.items() if pod.node}
    shown.show(demo.replaced(before, pods=bound_pods))
    expect(page.get_by_text("No pod waits for GPUs.")).to_be_visible()


def test_a_rollout_begins_moves_and_is_held_up_before_the_eyes(visit, shown):
    """From the list to one of them: a new pod comes, slots change their kind, and the reason appears, without a reload."""
    held, now = demo_rollouts.HELD, time.time()
    story = demo_rollouts.shown(shown.snapshot, now)
    row, pods = story.rollouts[held], demo_rollouts.pods(now)
    calm = msgspec.structs.replace(
        row,
        verdict="done",
        step="",
        holdups=(),
        new=10,
        old=0,
        terminating=0,
        was="",
        old_stages=(),
        new_stages=(("ready", 10),),
    )
    shown.show(demo.replaced(story, rollouts={**story.rollouts, held: calm}))
    visitor = visit()
    visitor.enter("viewer")
    page = visitor.open("rollouts/")
    listed = page.locator(f"[data-live-rows=rollouts] tr[data-key='{held}']")
    expect(listed.locator("[data-c=state]")).to_contain_text("done")
    expect(page.locator(".live")).to_have_attribute("data-live", "live")
    page.wait_for_timeout(400)
    rolling = msgspec.structs.replace(calm, verdict="rolling", step="updated", new=0, old=10, old_stages=(("ready", 10),),
                                      new_stages=(), was="41", started_at=now)  # fmt: skip
    shown.show(demo.replaced(shown.snapshot, rollouts={**story.rollouts, held: rolling}))
    expect(listed.locator("[data-c=state]")).to_contain_text("in progress")
    expect(listed.locator("[data-c=version]")).to_have_text("41 → 42")
    listed.get_by_role("link").click()
    slots = page.locator(".limits .slot")
    expect(page.locator("h1")).to_contain_text("In progress")
    expect(page.locator(".limits .slot[data-p=old]")).to_have_count(10)
    expect(page.locator(".live")).to_have_attribute("data-live", "live")
    page.wait_for_timeout(600)
    page.evaluate("window.slots = [...document.querySelectorAll('.limits .slot')]; window.shifts.length = 0")
    warm = msgspec.structs.replace(rolling, new=1, old=9, old_stages=(("ready", 9),), new_stages=(("warming-up", 1),))
    shown.show(demo.replaced(shown.snapshot, rollouts={**story.rollouts, held: warm}))
    expect(page.locator(".limits .slot[data-p=warm]")).to_have_count(1)
    assert page.evaluate("[...document.querySelectorAll('.limits .slot')].every((slot, i) => slot === window.slots[i])")
    assert visitor.shifts() == []
    shown.show(demo.replaced(shown.snapshot, rollouts={**story.rollouts, held: row}, pods={**story.pods, **pods}))
    expect(page.locator("h1 .tag")).to_contain_text("Held up for")
    expect(page.locator(".holdup h3")).to_contain_text("3 new pods need 8 GPUs each on one node")
    expect(slots.nth(12)).to_have_attribute("data-p", "none")
    expect(page.locator(".headline .do .why")).to_contain_text("role")


def test_a_slash_searches_and_arrows_walk_the_results(visit, shown):
    page = visit().enter()
    page.wait_for_timeout(400)
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("node-1")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=node-1")
    expect(page.locator("h1")).to_have_text("Search for “node-1”")
    page.keyboard.press("/")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("[data-results] a").nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("node-11")
