"""Maintenance at 3 a.m.: a whole drain by keyboard on a phone, seen alike by two people, on the product as started."""

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect

from tests import product
from tests.browser.conftest import WATCH
from tests.browser.test_accessible import AXE, SIDEWAYS, faults

pytestmark = [pytest.mark.browser, pytest.mark.timeout(420)]

HERE = "/c/rehearsal/"
# What the browser itself says of a refusal, and of a test that takes it offline.
EXPECTED = re.compile("status of 4|ERR_INTERNET_DISCONNECTED")


@pytest.fixture(scope="module")
def vigie(tmp_path_factory):
    with product.running(tmp_path_factory.mktemp("state")) as running:
        yield running


@pytest.fixture
def person(vigie, chromium: Browser) -> Iterator:
    """`person(name, width)` is somebody signed in, in a window of their own, in which nothing may go wrong."""
    windows: list[tuple[BrowserContext, list[str]]] = []

    def enter(name: str, width: int = 1440, **options) -> Page:
        context = chromium.new_context(viewport={"width": width, "height": 844}, **options)
        context.add_init_script(WATCH)
        if AXE.exists():
            context.add_init_script(AXE.read_text())
        page, errors = context.new_page(), []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console", lambda m: errors.append(m.text) if m.type == "error" and not EXPECTED.search(m.text) else None
        )
        windows.append((context, errors))
        page.goto(f"{vigie.url}/login/")
        page.fill("#u", name)
        page.fill("#p", name)
        page.press("#p", "Enter")
        page.wait_for_url("**/c/**")
        return page

    yield enter
    for context, _ in windows:
        context.close()
    assert [errors for _, errors in windows if errors] == []


def reach(page: Page, selector: str, most: int = 120) -> None:
    """By Tab alone."""
    wanted = page.locator(selector).first
    for _ in range(most):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            return
    pytest.fail(f"Tab does not lead to {selector}")


def planned(page: Page, vigie, kind: str = "drain", *, safe: bool = True) -> str:
    """The node of a plan that can run (or that cannot), which the page then shows."""
    for number in range(24, 0, -1):
        name = f"node-{number:02}"
        page.goto(f"{vigie.url}{HERE}nodes/{name}/do/{kind}/")
        page.fill("#why-page", "row remap")
        page.click("main form button[type=submit]")
        page.wait_for_url("**/actions/*/")
        if (page.locator(".verdict").get_attribute("data-level") == "ok") is safe:
            return name
    pytest.fail("the rehearsal has no such node")


def confirm(page: Page, name: str) -> None:
    """Type the name and press; a plan that is not true any more is computed again."""
    for _ in range(4):
        page.fill("#confirm", name)
        page.click("#confirm-form button")
        expect(page.locator("[data-follow=run], [role=alert]")).to_have_count(1)
        if page.locator("[data-follow=run]").count():
            return
        page.click("[data-again]")
        page.wait_for_url(re.compile(r"/actions/\d+/$"))
    pytest.fail("no plan stayed true")


def pct(page: Page) -> int:
    """100 also on the page that takes the run's place, and between the two. One question: asked twice, it may have come."""
    try:
        return int(page.evaluate("document.querySelector('.pct span')?.textContent ?? 100"))
    except Error:  # it was being replaced
        return 100


def test_a_drain_by_keyboard_on_a_phone_that_two_people_follow(person, vigie):
    page = person("operator", 390)
    name = planned(page, vigie)
    page.goto(f"{vigie.url}{HERE}nodes/{name}/")
    reach(page, "[data-kind=drain]")
    page.keyboard.press("Enter")
    page.wait_for_url("**/do/drain/")
    reach(page, "#why-page")
    page.keyboard.type("new power supply")
    page.keyboard.press("Enter")
    page.wait_for_url("**/actions/*/")
    viewer = person("viewer", reduced_motion="reduce")
    confirm_by_keyboard(page, name, viewer)
    expect(viewer.locator("[data-follow=run]")).to_have_count(1)  # by itself
    assert viewer.get_by_role("button", name=re.compile("Stop")).count() == 0
    moved = follow_to_the_end(page, viewer)
    for what in moved.values():  # a line of one lane that takes another row is 0.0001; 0.1 is what counts as unsteady
        assert sum(score for score, *_ in what) < 0.001, moved
    for window in (page, viewer):
        expect(window.get_by_role("heading", level=1)).to_contain_text(f"{name} is empty")
    first = page.locator("main").inner_text()
    page.reload()
    assert page.locator("main").inner_text() == first
    assert page.evaluate(SIDEWAYS) <= 0


def confirm_by_keyboard(page: Page, name: str, viewer: Page) -> None:
    """Jobs of the rehearsal come and go: a plan that is not true any more is computed again, as a person would."""
    for _ in range(4):
        button = page.locator("#confirm-form button")
        expect(button).to_have_attribute("aria-disabled", "true")
        reach(page, "#confirm")
        page.keyboard.type("node-")
        page.keyboard.press("Enter")  # the name is not complete: nothing is sent
        assert page.locator("[data-follow^=plan]").count() == 1
        page.keyboard.type(name.removeprefix("node-"))
        expect(button).not_to_have_attribute("aria-disabled", "true")
        viewer.goto(page.url)
        assert viewer.locator("#confirm-form button").get_attribute("aria-disabled") == "true"
        page.keyboard.press("Enter")
        expect(page.locator("[data-follow=run], [role=alert]")).to_have_count(1)
        if page.locator("[data-follow=run]").count():
            return
        reach(page, "[data-again]")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"/actions/\d+/$"))
    pytest.fail(f"no plan stayed true: {page.locator('[role=alert]').all_inner_texts()}")


RUN = """(since) => document.querySelector("[data-follow=run]") === null ? null
  : window.shifts.filter(([at]) => at > since).map(([, ...what]) => what)"""


def follow_to_the_end(page: Page, viewer: Page) -> dict[str, list]:
    """Neither window's progress runs backwards; gives what has moved in each of them once it had loaded."""
    windows = {"390": page, "1440": viewer}
    for window in windows.values():
        window.wait_for_load_state("networkidle")
    since = {name: window.evaluate("performance.now()") for name, window in windows.items()}
    moved: dict[str, list] = {name: [] for name in windows}
    seen, until = [0], time.monotonic() + 400  # about 30 s on a machine that does nothing else
    while page.locator("[data-follow=run]").count() and time.monotonic() < until:
        now = pct(page)
        assert now >= seen[-1], seen
        seen.append(now)
        for name, window in windows.items():
            moved[name] = shifts(window, since[name]) or moved[name]
        page.wait_for_timeout(500)
    assert len(set(seen)) > 2
    expect(viewer.locator("[data-follow=run]")).to_have_count(0)
    return moved


def shifts(window: Page, since: float) -> list:
    """What has moved on the run page; nothing on the page that follows it, which counts from its own start."""
    try:
        return window.evaluate(RUN, since) or []
    except Error:  # it was being replaced by the next page
        return []


def test_a_cordon_is_a_short_question_and_escape_leaves_it(person, vigie):
    page = person("operator")
    page.goto(f"{vigie.url}{HERE}nodes/node-05/")
    reach(page, "[data-kind=cordon]")
    page.keyboard.press("Enter")
    dialog = page.locator("dialog[open]")
    expect(dialog).to_have_count(1)
    assert page.evaluate("document.activeElement.textContent").strip() == "Leave node-05 as it is"
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # the harmless button has the focus
    expect(dialog).to_have_count(0)
    page.locator("[data-kind=cordon]").click()
    page.fill("#why-cordon", "row remap")
    page.keyboard.press("Enter")
    page.wait_for_url("**/actions/*/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("node-05 is cordoned")
    page.goto(f"{vigie.url}{HERE}nodes/node-05/")
    expect(page.locator(".cordon")).to_contain_text("Reason: row remap")
    expect(page.locator("[data-kind=uncordon]")).to_be_visible()
    expect(page.locator("[data-kind=cordon]")).to_be_hidden()


def test_without_script_the_same_forms_work(person, vigie):
    page = person("operator", java_script_enabled=False)
    page.goto(f"{vigie.url}{HERE}nodes/node-06/")
    page.locator("[data-kind=cordon]").click()
    page.fill("#why-page", "row remap")
    page.click("main form button[type=submit]")
    page.wait_for_url("**/actions/*/")
    assert "node-06" in page.locator("h1").inner_text()


def test_a_stop_leaves_the_node_as_it_says(person, vigie):
    page = person("approver")
    name = planned(page, vigie)
    confirm(page, name)
    page.get_by_role("button", name=f"Stop draining {name}").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Stopped", timeout=60_000)
    expect(page.locator(".headline .sub")).to_contain_text("approver has stopped it.")


def test_a_plan_that_hears_nothing_says_so_aloud(person, vigie):
    page = person("operator")
    planned(page, vigie)
    page.clock.install()
    page.reload()
    aloud = page.locator("[data-follows] [role=status]")
    page.context.set_offline(True)
    page.clock.fast_forward(12_000)
    expect(aloud).to_have_text("Not connected")
    page.context.set_offline(False)
    page.clock.fast_forward(3_000)
    expect(aloud).to_have_text("Live")


def test_nothing_is_wrong_on_the_pages_of_maintenance(person, vigie):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci in frontend/")
    page = person("approver", reduced_motion="reduce")
    found: dict[str, list[str]] = {}
    planned(page, vigie, safe=False)
    found["a blocked plan"] = faults(page)
    name = planned(page, vigie)
    found["a plan"] = faults(page)
    page.route("**/*part=live", lambda route: route.fulfill(body=""))  # it stays as it is while it is looked at
    confirm(page, name)
    found["a run"] = faults(page)
    page.unroute("**/*part=live")
    expect(page.locator("[data-follow=run]")).to_have_count(0, timeout=180_000)
    expect(page.locator("h1")).to_be_visible()
    found["its end"] = faults(page)
    for path in (
        "actions/",
        "actions/?check=1",
        "actions/?q=nothing-like-it",
        "nodes/node-07/",
        "nodes/node-07/do/drain/",
    ):
        page.goto(f"{vigie.url}{HERE}{path}")
        found[path] = faults(page)
    page.goto(f"{vigie.url}{HERE}nodes/node-07/")
    page.locator("[data-kind=cordon]").click()
    found["the dialog"] = faults(page)
    assert {where: told for where, told in found.items() if told} == {}
