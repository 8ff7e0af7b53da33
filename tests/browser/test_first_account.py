"""The link that a first start on a real cluster prints, used as a person uses it: in a browser."""

import re

import pytest

from tests import product

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


def test_the_first_link_makes_an_account_and_signs_in(chromium, tmp_path):
    with (
        product.running(tmp_path / "rehearsed") as rehearsed,
        product.running(tmp_path / "real", "--kubeconfig", str(rehearsed.kubeconfig)) as real,
    ):
        link = re.search(r"http://\S+/welcome/\S+", "\n".join(real.output)).group()
        context = chromium.new_context()
        page = context.new_page()
        page.goto(link)
        page.fill("input[name=username]", "rita")
        page.fill("input[name=password]", "correct horse battery staple")
        page.fill("input[name=again]", "correct horse battery staple")
        page.click("main form button[type=submit]:has-text('password')")
        page.wait_for_selector(".node", timeout=20_000)
        assert page.locator(".node").count() == 24
        assert page.goto(link).status == 410, "the link is used up"
        log = (real.state / "cluster" / "logs" / "vigie.log").read_text()
        assert link.rsplit("/", 2)[-2] not in log
        context.close()
