"""Signing in and out, the account menu, language and theme."""

import re

import pytest
from playwright.sync_api import expect


def test_a_wrong_password_says_so_and_a_right_one_opens_the_fleet(visit, shown):
    visitor = visit()
    page = visitor.page
    page.goto(f"{shown.url}/c/{shown.cluster}/?state=free")
    expect(page.locator("h1")).to_have_text("Sign in")
    expect(page.locator("#u")).to_be_focused()
    page.fill("#u", "viewer")
    page.fill("#p", "wrong")
    page.press("#p", "Enter")
    expect(page.get_by_role("alert")).to_contain_text("User name or password is wrong.")
    assert page.locator("#p").get_attribute("aria-describedby") == "p-e"
    page.fill("#p", "viewer")
    page.press("#p", "Enter")
    expect(page.locator("[data-live-map]")).to_be_visible()
    assert page.url.endswith("?state=free")


def test_the_account_menu_names_the_person_and_signs_out(visit, shown):
    page = visit().sign_in("approver")
    page.locator("summary", has_text="Account: approver").click()
    expect(page.locator(".account")).to_contain_text("approver")
    expect(page.locator(".account small")).to_have_text("Approver")
    page.keyboard.press("Escape")
    expect(page.locator(".account")).to_be_hidden()
    expect(page.locator("summary", has_text="Account: approver")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("h1")).to_have_text("Sign in")


def test_menus_close_when_something_else_is_pressed(visit, shown):
    page = visit().sign_in()
    page.locator("summary", has_text="Account: operator").click()
    page.locator("#map-h").click()
    expect(page.locator(".account")).to_be_hidden()


def test_the_page_speaks_the_browsers_language_until_another_is_chosen(visit, shown):
    visitor = visit(locale="fr-FR")
    visitor.page.goto(f"{shown.url}/login/")
    expect(visitor.page.locator("h1")).to_have_text("Connexion")
    page = visitor.sign_in()
    expect(page.locator("html")).to_have_attribute("lang", "fr")
    expect(page.locator("#map-h")).to_contain_text("Carte du parc 24 nœuds, 192 GPU")
    expect(page.locator(".live b")).to_have_text("En direct")
    page.locator(".menu.end summary").click()
    page.get_by_role("button", name="English").click()
    expect(page.locator("#map-h")).to_contain_text("Fleet map 24 nodes, 192 GPUs")
    expect(page.locator(".live b")).to_have_text("Live")
    assert page.url.endswith(f"/c/{shown.cluster}/")


def test_on_a_phone_the_theme_is_chosen_in_the_account_menu(visit, shown):
    page = visit(width=390).enter()
    expect(page.locator("#theme-dark")).to_be_hidden()
    page.get_by_text("OP", exact=True).click()
    page.locator("#menu-theme-dark").check()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator("#theme-dark")).to_be_checked()


@pytest.mark.parametrize(("theme", "background"), [("light", "rgb(244, 245, 247)"), ("dark", "rgb(12, 15, 19)")])
def test_the_theme_is_remembered_and_there_before_the_first_paint(visit, shown, theme, background):
    page = visit(color_scheme="dark" if theme == "light" else "light").sign_in()
    page.locator(f".top #theme-{theme}").check()
    colour = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(colour) == background
    page.reload(wait_until="commit")
    page.wait_for_selector("body", state="attached")
    assert page.locator("html").get_attribute("data-theme") == theme
    expect(page.locator(f".top #theme-{theme}")).to_be_checked()
    assert page.evaluate(colour) == background
    page.locator(".top #theme-auto").check()
    assert page.locator("html").get_attribute("data-theme") is None


def test_a_page_whose_session_ends_goes_to_the_sign_in_page(visit, shown):
    visitor = visit()
    page = visitor.sign_in()
    expect(page.locator("[data-live-map]")).to_be_visible()
    visitor.context.clear_cookies(name="vigie")
    page.reload()
    expect(page.locator("h1")).to_have_text("Sign in")
    assert re.search(r"next=/c/", page.url)
