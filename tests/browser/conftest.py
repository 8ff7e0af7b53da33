"""Chromium, a signed-in person, and a Vigie whose picture the test writes."""

import itertools
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from dashboard import accounts
from dashboard.access import Role
from tests import machine
from tests.browser import demo
from tests.browser.served import Served, kubeconfig

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars"]  # fmt: skip
WATCH = """
addEventListener("securitypolicyviolation", (e) => console.error("CSP: " + e.violatedDirective + " " + e.blockedURI));
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const moved = entry.sources.map(({ node }) => node?.outerHTML?.slice(0, 120) ?? node?.textContent);
    window.shifts.push([entry.startTime, entry.value, ...moved]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""
STEPS = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker(pytest.mark.browser)


expect.set_options(timeout=20_000)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One browser for this folder. Playwright's loop runs in this thread: Django must be told that its ORM may be used here."""
    path = machine.find("chromium")
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def cluster() -> str:
    """A name of its own, since the picture store outlives a test."""
    return f"paris-{uuid.uuid4().hex[:6]}"


@pytest.fixture
def served(transactional_db, settings, tmp_path, cluster, chromium) -> Iterator[Served]:
    """Vigie with one cluster that has no picture yet, and an account per role."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.VIGIE_KUBECONFIG = str(kubeconfig(tmp_path, cluster))
    settings.VIGIE_CONTEXTS = ()
    for role in Role:
        accounts.add(role.value, role, role.value, rehearsal=True)
    found = Served(cluster)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def shown(served: Served) -> Served:
    """The demo fleet is published."""
    served.show(demo.now())
    return served


class Visitor:
    """A browser window and what went wrong in it."""

    def __init__(self, context: BrowserContext, served: Served) -> None:
        self.context, self.served = context, served
        self.page = context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self._console(message.type, message.text))

    def _console(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and "closed before the connection is established" not in text:  # we left
            self.errors.append(text)

    def enter(self, name: str = "operator") -> Page:
        """The Fleet page for somebody who is signed in already."""
        client = Client()
        client.force_login(User.objects.get(username=name))
        cookies = [
            {"name": key, "value": morsel.value, "url": self.served.url} for key, morsel in client.cookies.items()
        ]
        self.context.add_cookies(cookies)
        return self.open()

    def sign_in(self, name: str = "operator") -> Page:
        """Through the sign-in page."""
        self.page.goto(f"{self.served.url}/login/")
        self.page.fill("#u", name)
        self.page.fill("#p", name)
        self.page.press("#p", "Enter")
        self.page.wait_for_url("**/c/**")
        return self.page

    def open(self, path: str = "") -> Page:
        self.page.goto(f"{self.served.url}/c/{self.served.cluster}/{path}")
        return self.page

    def shifts(self) -> list[list[Any]]:
        """Every layout shift since the page was loaded (before, its end may not have arrived yet): when, how much, what moved."""
        loaded = self.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        found: list[list[Any]] = self.page.evaluate("window.shifts")
        return [shift for shift in found if shift[0] > loaded]


@pytest.fixture
def visit(chromium, served) -> Iterator:
    """`visit(width=…, locale=…)` opens a window; at the end none of them may have seen an error or a policy violation."""
    visitors: list[Visitor] = []

    def visit(width: int = 1440, height: int = 900, **options) -> Visitor:
        context = chromium.new_context(viewport={"width": width, "height": height}, **{"locale": "en-GB"} | options)
        context.add_init_script(WATCH)
        context.set_default_timeout(30_000)  # both cores may be busy with other tests
        visitors.append(Visitor(context, served))
        return visitors[-1]

    yield visit
    for visitor in visitors:
        visitor.context.close()
    assert [visitor.errors for visitor in visitors if visitor.errors] == []
