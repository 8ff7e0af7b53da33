"""Pages as the server sends them: right without script, strict, well formed, cheap, in both languages."""

import re
import time
from collections import Counter
from html.parser import HTMLParser
from types import SimpleNamespace

import msgspec
import pytest

from dashboard import pages
from fleet import live
from fleet.domain.picture import EMPTY, FleetRow
from tests.browser import demo
from tests.dashboard.pictures import Writer

pytestmark = pytest.mark.django_db

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
SESSION_USER_GROUPS = 3  # what a page may ask the database: who is this, and what may they do


class Page(HTMLParser):
    """What a page consists of; raises when a tag is closed that is not the last one opened."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: Counter[str] = Counter()
        self.references: set[str] = set()
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.attributes.append((tag, given))
        if tag not in VOID:
            self.open.append(tag)
        if "template" not in self.open:
            self.ids.update([given["id"]] if given.get("id") else [])
            for name in ("for", "aria-labelledby", "aria-describedby", "form"):
                self.references.update((given.get(name) or "").split())
            if (given.get("href") or "").startswith("#"):
                self.references.add((given["href"] or "")[1:])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"


@pytest.fixture
def shown(clusters) -> Writer:
    writer = Writer(clusters[0])
    writer.publish(demo.now())
    return writer


@pytest.fixture
def get(as_person, shown):
    """The response for a path within the first cluster, as an operator."""
    client = as_person("operator")

    def get(path: str = "", language: str = "en", **extra):
        return client.get(f"/c/{shown.cluster}/{path}", headers={"accept-language": language}, **extra)

    return get


PATHS = [
    "",
    "?state=free&product=L4",
    "?state=%3Cb%3E&product=%22",
    "nodes/node-07/",
    "nodes/node-22/",
    "nodes/nobody/",
]


@pytest.mark.parametrize("language", ["en", "fr"])
@pytest.mark.parametrize("path", PATHS)
def test_pages_are_well_formed_and_hold_no_inline_script_or_style(get, path, language):
    html = get(path, language).content.decode()
    page = Page(html)
    assert page.open == []
    assert [found for found, count in page.ids.items() if count > 1] == []
    assert {found for found in page.references if found not in page.ids and found != ""} == set()
    for tag, given in page.attributes:
        assert tag != "style"
        assert not [name for name in given if name == "style" or name.startswith("on")]
        if tag == "script":
            assert given.get("src", "").startswith("/static/") or given.get("type") == "application/json"
    assert f'<html lang="{language}">' in html
    assert not re.search(r"\{\{|\{%|\{\w+\}", re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL))


@pytest.mark.parametrize("path", PATHS)
def test_pages_ask_the_database_only_who_is_asking(get, django_assert_max_num_queries, path):
    with django_assert_max_num_queries(SESSION_USER_GROUPS):
        get(path)


def test_the_database_is_asked_no_more_for_a_large_fleet(get, shown, django_assert_max_num_queries):
    base = demo.now()
    many = {f"n-{i}": msgspec.structs.replace(base.nodes["node-01"], name=f"n-{i}") for i in range(1_000)}
    shown.publish(demo.replaced(base, nodes=many))
    with django_assert_max_num_queries(SESSION_USER_GROUPS):
        assert get().content.count(b'class="node"') == 1_001  # and one for new nodes


def test_the_fleet_page_says_what_is_there(get):
    html = get().content.decode()
    assert html.count("data-node=") == 25
    for words in (
        "24 nodes, 192 GPUs",
        "health not measured",
        "node-22 is silent",
        "6 nodes × 8 H100",
        "infer / par1-a",
    ):
        assert words in html, words
    assert "s-ok" not in re.sub(
        r"<symbol.*?</symbol>", "", html, flags=re.DOTALL
    )  # nothing measures health: no healthy tick
    assert "<noscript>" in html


def test_the_fleet_page_speaks_french(get):
    html = get(language="fr-CH,fr;q=0.9").content.decode()
    for words in (
        "24 nœuds, 192 GPU",
        "santé non mesurée",
        "node-22 est muet",
        "6 nœuds × 8 H100",
        "Plus grand bloc libre",
    ):
        assert words in html, words


def test_a_broken_stream_leads_the_attention_list(get, shown):
    shown.pulse(trouble=(("pods", "the server answers 500", 125.0),))
    html = get().content.decode()
    first = html.split('class="att"')[1]
    assert "Changes of pods do not arrive" in first
    assert ">2 min</time>" in first


def test_an_empty_cluster_is_a_page_too(get, shown):
    shown.publish(msgspec.structs.replace(EMPTY, fleet={"fleet": FleetRow()}))
    html = get().content.decode()
    assert "No nodes in this cluster." in html
    assert "Nothing needs attention." in html
    assert Page(html).open == []


def test_filters_work_without_script(get):
    html = get("?state=free&product=L4").content.decode()
    shown = re.findall(r'<li data-node="([^"~]+)">', html)
    assert shown == ["node-19", "node-21", "node-23", "node-24"]
    assert '<span data-map="shown">4 nodes shown</span>' in html
    assert html.count('aria-pressed="true"') == 5  # state, model, which nodes, zoom, language


def test_the_node_page_says_what_is_there(get):
    html = get("nodes/node-07/").content.decode()
    for words in (
        "diffusion-xl-ft-07",
        "nvidia.com/gpu",
        "Cordoned <time",
        "5 busy · 3 cordoned",
        "KubeletReady",
        "10.20.0.7",
    ):
        assert words in html, words


def test_an_unknown_node_is_told_apart_from_an_unknown_cluster(get, as_person):
    response = get("nodes/nobody/")
    assert response.status_code == 404
    assert "There is no node nobody" in response.content.decode()
    assert as_person("viewer").get("/c/nowhere/nodes/nobody/").status_code == 404
    assert as_person("viewer").get("/c/nowhere/").status_code == 404


@pytest.mark.parametrize("path", ["", "nodes/node-01/"])
def test_before_the_first_list_the_page_waits(as_person, clusters, path):
    response = as_person("viewer").get(f"/c/{clusters[1]}/{path}")
    html = response.content.decode()
    assert response.status_code == 200
    assert "The first list of nodes and pods is being read." in html
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in html
    assert Page(html).open == []


class Unreachable:
    """A store that cannot be reached."""

    def read(self, cluster: str):
        raise live.PictureError(cluster)


@pytest.mark.parametrize("path", ["", "nodes/node-01/"])
def test_a_store_that_cannot_be_reached_is_said(get, monkeypatch, path):
    monkeypatch.setattr(pages, "live", SimpleNamespace(picture=Unreachable, PictureError=live.PictureError))
    response = get(path)
    assert response.status_code == 503
    assert "The picture cannot be read" in response.content.decode()


def test_home_leads_to_the_first_cluster(as_person, clusters):
    assert as_person("viewer").get("/").headers["Location"] == f"/c/{clusters[0]}/"


def test_home_without_clusters_says_how_to_add_one(as_person, settings):
    settings.VIGIE_KUBECONFIG = ""
    html = as_person("viewer").get("/").content.decode()
    assert "make up KUBECONFIG=path" in html
    assert Page(html).open == []


def test_several_clusters_get_a_picker(get, clusters):
    html = get().content.decode()
    assert f'<a href="/c/{clusters[0]}/" aria-current="true">' in html
    assert f'<a href="/c/{clusters[1]}/">' in html


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "Asia%2FTokyo"])
def test_times_of_events_are_in_the_readers_zone(as_person, shown, zone):
    at = shown.snapshot.nodes["node-07"].created_at
    client = as_person("viewer")
    found = []
    for cookie in ("", zone):
        client.cookies[pages.ZONE_COOKIE] = cookie
        html = client.get(f"/c/{shown.cluster}/nodes/node-07/").content.decode()
        found.append(re.search(r'data-key="created">.*? (\d\d:\d\d)</time>', html, re.DOTALL)[1])
    assert found == [time.strftime("%H:%M", time.gmtime(at + offset_s)) for offset_s in (0, 9 * 3_600)]


@pytest.mark.parametrize("zone", ["", "Nowhere/Land", "../../etc/passwd", "/etc/passwd", "a\x00b", "%00", "x" * 5_000])
def test_a_zone_that_is_none_is_ignored(zone):
    assert pages.zone(SimpleNamespace(COOKIES={pages.ZONE_COOKIE: zone})) is None
