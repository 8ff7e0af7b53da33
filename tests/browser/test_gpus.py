"""GPUs on their node and on their own page: numbers tick without moving anything, verdicts are read again, and lines go on."""

import re
import time

import msgspec
import pytest
from playwright.sync_api import expect

from fleet.domain.picture import GpuRow
from tests.browser import demo, demo_gpus, demo_ledger
from tests.browser.test_live import WITNESS

BUSY = demo_gpus.uuid("node-12", 0)
PENDING = demo_gpus.uuid("node-12", 5)


def with_gpu(shown, key: str, **fields) -> GpuRow:
    """The demo fleet with one GPU changed, as a reading that has just come."""
    row = msgspec.structs.replace(shown.snapshot.gpus[key], **{"read_at": float(int(time.time()))} | fields)
    shown.show(demo.replaced(shown.snapshot, gpus={**shown.snapshot.gpus, key: row}))
    return row


@pytest.fixture
def told(shown):
    """With a past."""
    demo_ledger.write(shown.cluster, shown.snapshot, time.time())
    return shown


def opened(visit, path: str, **options):
    visitor = visit(**options)
    visitor.enter()
    page = visitor.open(path)
    expect(page.locator(".live")).to_have_attribute("data-live", "live")
    page.wait_for_timeout(400)
    page.evaluate(WITNESS)
    return visitor, page


@pytest.mark.parametrize("width", [1440, 390])
def test_numbers_tick_and_nothing_moves_or_flashes(visit, told, width):
    visitor, page = opened(visit, "nodes/node-12/", width=width)
    row = page.locator(f"tr[data-key='{BUSY}']")
    expect(row.locator("[data-c=now]")).to_contain_text("97")
    with_gpu(told, BUSY)  # on a busy machine the first reading is ten seconds old by now, which is a digit more
    expect(page.locator("[data-live-read] time").first).to_have_text(re.compile(r"^\d s$"))
    page.wait_for_timeout(300)
    settled = visitor.shifts()
    before = row.locator(".spark").get_attribute("data-values").split(",")
    for utilization, power in ((41, 302), (8, 120), (100, 699), (9, 90)):
        with_gpu(told, BUSY, utilization_pct=utilization, power_w=power)
        expect(row.locator("[data-c=now] span")).to_have_text(f"{utilization}\u00a0%")
        expect(row.locator("[data-c=power] span")).to_have_text(f"{power} / 700\u00a0W")
    expect(row.locator("i.gpu")).to_have_attribute("data-u", "0")
    after = row.locator(".spark").get_attribute("data-values").split(",")
    assert (len(before), len(after), after[-1]) == (60, 60, "9")
    assert "M" in (row.locator(".spark .l").get_attribute("d") or "")
    assert visitor.shifts() == settled
    assert page.evaluate("window.flashes") == []


def test_a_verdict_changes_its_row_in_place(visit, told):
    _, page = opened(visit, "nodes/node-12/")
    row = page.locator(f"tr[data-key='{BUSY}']")
    with_gpu(told, BUSY, state="lost", reason="xid-79", level="bad", since_at=time.time() - 65, utilization_pct=None)
    expect(row).to_have_attribute("data-level", "bad")
    expect(row.locator("[data-c=gpu-state]")).to_have_text("LostXid 79 · for 1 min")
    expect(row.locator("i.gpu")).to_have_attribute("data-s", "failed")
    expect(row.locator("[data-c=now] span")).to_have_text("unknown")
    expect(row.locator("[data-c=now]")).not_to_contain_text("0")


def test_gpus_come_and_go_with_their_readings(visit, told):
    _, page = opened(visit, "nodes/node-12/")
    rows = page.locator("[data-live-rows=gpus] tbody tr")
    expect(rows).to_have_count(8)
    gpus = dict(told.snapshot.gpus)
    gpus.pop(BUSY)
    gpus["GPU-new"] = GpuRow("node-12", 8, "GPU-new", state="ok", pods=(), read_at=time.time(), utilization_pct=50)
    told.show(demo.replaced(told.snapshot, gpus=gpus))
    expect(rows.last.locator("a")).to_have_text("GPU 8")
    expect(rows).to_have_count(8)
    assert rows.last.locator(".spark").get_attribute("data-values").endswith("50")
    told.show(demo.replaced(told.snapshot, gpus={}))
    expect(page.locator("[data-live-measured]")).to_be_hidden()
    expect(page.locator("[data-live-slotted]")).to_be_visible()


def test_the_keyboard_leads_from_a_node_to_a_gpu_and_back(visit, told):
    _, page = opened(visit, "nodes/node-12/")
    page.locator(f"tr[data-key='{PENDING}'] a").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/gpus/{PENDING}/")
    expect(page.locator("h1")).to_contain_text("GPU 5 of node-12")
    page.locator(".crumb a", has_text="node-12").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/nodes/node-12/")


def test_a_gpus_page_ticks_and_reads_its_verdict_again(visit, told):
    visitor, page = opened(visit, f"gpus/{PENDING}/")
    expect(page.locator("[data-reread=action]")).to_contain_text("nvidia-smi --gpu-reset")
    with_gpu(told, PENDING, utilization_pct=33, power_w=111)
    expect(page.locator("[data-key=utilization] dd")).to_have_text("33\u00a0%")
    expect(page.locator("[data-plot=utilization_pct] .trace")).to_have_attribute("data-values", re.compile(r",33$"))
    assert visitor.shifts() == []
    assert page.evaluate("window.flashes") == []
    with_gpu(
        told, PENDING, state="ok", reason="", action="none", soft=False, level="", findings=(), since_at=time.time()
    )
    expect(page.locator("h1 .tag")).to_have_text("Healthy")
    expect(page.locator("[data-reread=action]")).to_contain_text("Nothing to do")
    expect(page.locator("[data-reread=findings]")).to_contain_text("Nothing speaks against this GPU.")


def test_what_somebody_is_in_is_not_replaced_under_them(visit, told):
    _, page = opened(visit, f"gpus/{PENDING}/")
    page.locator("[data-reread=action] pre").first.focus()
    with_gpu(
        told, PENDING, state="ok", reason="", action="none", soft=False, level="", findings=(), since_at=time.time()
    )
    expect(page.locator("h1 .tag")).to_have_text("Healthy")
    expect(page.locator("[data-reread=action]")).to_contain_text("nvidia-smi --gpu-reset")
    page.evaluate("document.activeElement.blur()")
    expect(page.locator("[data-reread=action]")).to_contain_text("Nothing to do")


def test_a_gpu_that_nothing_reports_any_more_says_so(visit, told):
    _, page = opened(visit, f"gpus/{PENDING}/")
    gpus = {key: row for key, row in told.snapshot.gpus.items() if key != PENDING}
    told.show(demo.replaced(told.snapshot, gpus=gpus))
    expect(page.get_by_text("Nothing reports this GPU any more")).to_be_visible()
    expect(page.locator("[data-key=uuid] dd")).to_have_text(PENDING)


def test_availability_follows_its_choices_without_a_button(visit, told):
    _, page = opened_still(visit, "availability/")
    page.select_option("select[name=by]", "gpu")
    page.wait_for_url("**by=gpu**")
    expect(page.locator("tbody").first).to_contain_text("GPU-0c03f087")
    page.select_option("select[name=window]", "90d")
    page.wait_for_url("**window=90d**")
    expect(page.locator("[data-number=availability]")).to_contain_text("last 90 d")


def opened_still(visit, path: str):
    visitor = visit()
    visitor.enter()
    return visitor, visitor.open(path)
