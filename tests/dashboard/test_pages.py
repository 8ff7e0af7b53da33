"""Pages as the server sends them: right without script, strict, well formed, cheap, in both languages."""

import gzip
import re
import time
from collections import Counter
from html.parser import HTMLParser
from types import SimpleNamespace

import msgspec
import pytest
from django.test import Client

from dashboard import pages, sessions, tokens, wall
from fleet import live
from fleet.domain.picture import EMPTY, AttentionRow, FleetRow
from tests.browser import demo, demo_gpus, demo_rollouts
from tests.dashboard.pictures import Writer

pytestmark = pytest.mark.django_db

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
SESSION_USER_GROUPS = 4  # what a page may ask the database: who is this, what may they do, and how many actions run


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
    "nodes/node-12/",
    *(f"gpus/{demo_gpus.uuid('node-12', index)}/" for index in (0, 4, 5, 6, 7)),
    f"gpus/{demo_gpus.uuid('node-14', 0)}/",
    "gpus/GPU-nobody/",
    "?zoom=groups&group=g-train/par1-a",
    "rollouts/",
    "rollouts/?of=held&q=%3Cb%3E",
    *(f"rollouts/{key}/" for key in demo_rollouts.rollouts(demo.NOW)),
    "rollouts/Deployment/ml/llm-chat/?gpus=1",
    "rollouts/Deployment/ml/nobody/",
    "workloads/",
    "workloads/?of=all&sort=name&q=%3Cb%3E",
    "waiting/",
    "search/",
    "search/?q=llm",
    "search/?q=%3Cb%3E",
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


@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith("gpus/")])
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


def test_what_concerns_no_node_leads_to_its_page(get):
    html = get().content.decode()
    for subject, page in (("rl-policy", "waiting"), ("ocr-api", "rollouts/Deployment/ml/ocr-api")):
        entry = next(part for part in html.split('class="att"') if f"/ml/{subject}" in part.split("</li>")[0])
        link = re.search(r'<a class="btn" href="([^"]+)">', entry.split("</li>")[0])
        assert link
        assert link[1].endswith(f"/{page}/")


def test_what_concerns_checkpoints_leads_to_those_of_the_workload(get, shown):
    row = AttentionRow("checkpoint-stale", "warn", 6, "Job/ml/llm", facts=(("step", 7), ("at", 1.0), ("target", "5m")))
    shown.publish(
        msgspec.structs.replace(EMPTY, fleet={"fleet": FleetRow()}, attention={"checkpoint-stale:Job/ml/llm": row})
    )
    html = get().content.decode()
    assert '/checkpoints/Job/ml/llm/">Open llm</a>' in html


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
        "Readiness probe failed",
        "GPU 5 waits for a row remap",
        "20 labels",
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
    assert '<meta http-equiv="refresh" content="5">' in html
    assert Page(html).open == []


def test_before_the_first_list_the_page_says_what_stands_in_the_way(as_person, clusters, monkeypatch):
    """A wrong token, a refused connection: as the last pulse tells it, each cause once."""
    trouble = (("nodes", "Unauthorized", 3.0), ("pods", "Unauthorized", 3.0), ("server", "refused", 2.0))
    silent = SimpleNamespace(read=lambda _: None, last_pulse=lambda _: live.Pulse(0.0, trouble, 1.0))
    monkeypatch.setattr(pages, "live", SimpleNamespace(picture=lambda: silent, PictureError=live.PictureError))
    html = as_person("viewer").get(f"/c/{clusters[1]}/").content.decode()
    assert "The first list cannot be read." in html
    assert html.count("Unauthorized") == 1
    assert "nodes, pods" in html
    assert "refused" in html
    assert "is being read" not in html


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
    assert "make up KUBECONFIG=~/.kube/config" in html
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


def texts(html: str, attribute: str) -> list[str]:
    return re.findall(rf'{attribute}="([^"~]+)"', html)


def test_workloads_are_filtered_and_sorted_without_script(get):
    keys = texts(get("workloads/").content.decode(), "data-key")
    assert keys[:3] == ["Deployment/ml/ocr-api", "StatefulSet/ml/rl-policy", "Deployment/ml/embed-api"]
    assert "DaemonSet/kube-system/dcgm-exporter" not in keys
    found = texts(get("workloads/?of=all&namespace=kube-system").content.decode(), "data-key")
    assert found == ["DaemonSet/kube-system/dcgm-exporter"]
    named = texts(get("workloads/?q=LLM&sort=name").content.decode(), "data-key")
    assert named == ["Deployment/ml/llm-chat"]
    assert "No workload matches." in get("workloads/?q=nobody").content.decode()


def test_waiting_pods_are_told_with_the_hole_that_they_need(get):
    html = get("waiting/").content.decode()
    assert texts(html, "data-key") == [f"ml/rl-policy-{k}" for k in range(4)]
    for words in ("8 H100", "nowhere now", "if emptied: node-05 (4 GPUs to move)", "Insufficient nvidia.com/gpu"):
        assert words in html, words


def test_a_search_is_grouped_and_leads_to_pages(get, shown):
    html = get("search/?q=llm-chat").content.decode()
    assert [word for word in ("s-nodes", "s-workloads", "s-pods", "s-namespaces") if f'id="{word}"' in html] == [
        "s-workloads",
        "s-pods",
    ]
    assert f'href="/c/{shown.cluster}/nodes/node-13/"' in html
    assert "Nothing in" in get("search/?q=nothing+like+it").content.decode()
    assert "GPU-0c05f087-3c5e" in get("search/?q=gpu-0c05").content.decode()
    waiting = get("search/?q=rl-policy-0").content.decode()
    assert f'href="/c/{shown.cluster}/waiting/"' in waiting


def test_the_zoom_is_remembered_without_script(as_person, shown):
    client = as_person("viewer")
    for query, zoom in (("", "cards"), ("?zoom=dense", "dense"), ("", "dense"), ("?zoom=nonsense", "cards")):
        html = client.get(f"/c/{shown.cluster}/{query}").content.decode()
        assert f'data-zoom="{zoom}"' in html, query


def test_a_fleet_of_thousands_is_groups_and_opens_one(as_person, clusters):
    writer = Writer(clusters[0])
    writer.publish(demo.large(2_010))
    client = as_person("viewer")
    html = client.get(f"/c/{clusters[0]}/").content.decode()
    assert 'data-zoom="groups"' in html
    assert texts(html, "data-node") == []
    opened = client.get(f"/c/{clusters[0]}/?group=g-train/eun1-a").content.decode()
    assert 300 < len(texts(opened, "data-node")) < 400


def test_eight_thousand_gpus_with_real_names_are_small_on_the_wire(as_person, clusters):
    writer = Writer(clusters[0])
    writer.publish(demo.large(1_000))
    sent = as_person("viewer").get(f"/c/{clusters[0]}/", headers={"accept-encoding": "gzip"})
    assert sent.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(sent.content).count(b'<i class="gpu" data-s=') >= 8_000
    assert len(sent.content) < 100_000


OTHER_PATHS = ["/all/", "/account/", "/help/", "/wall/", "/wall/?cluster={cluster}"]


@pytest.mark.parametrize("language", ["en", "fr"])
@pytest.mark.parametrize("path", OTHER_PATHS)
def test_pages_beside_the_clusters_are_well_formed_too(as_person, shown, path, language):
    address = path.format(cluster=shown.cluster)
    html = as_person("approver").get(address, headers={"accept-language": language}).content.decode()
    page = Page(html)
    assert page.open == []
    assert [found for found, count in page.ids.items() if count > 1] == []
    assert {found for found in page.references if found not in page.ids and found != ""} == set()
    assert f'<html lang="{language}">' in html
    assert not re.search(r"\{\{|\{%|\{\w+\}", re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL))


def test_every_section_of_help_is_in_its_contents(as_person, shown):
    html = as_person("viewer").get("/help/").content.decode()
    listed = re.findall(r'<li><a href="#(on-[^"]+)">[^<]+<', html)
    assert listed == re.findall(r'<section class="card" id="(on-[^"]+)"', html)
    assert len(listed) > 10


def test_the_wall_has_no_controls_and_names_nobody(as_person, shown):
    html = as_person("viewer").get(f"/wall/?cluster={shown.cluster}").content.decode()
    assert "l.moreau" in as_person("viewer").get(f"/c/{shown.cluster}/").content.decode()
    for absent in ("l.moreau", "kubectl-cordon", '<a class="btn', "<button", "<nav", "<form", "<input"):
        assert absent not in html.replace("</button", ""), absent
    assert 'data-alarm="on"' in html
    assert "node-22 is silent" in html
    assert '"socket": "/wall/ws/"' in html
    assert as_person("viewer").get("/wall/?cluster=nowhere").status_code == 404


def test_every_cluster_has_a_card_whether_or_not_it_is_read(as_person, shown, clusters):
    html = as_person("viewer").get("/all/").content.decode()
    assert texts(html, "data-live-cluster") == list(clusters)
    assert texts(html, "data-loss") == ["no-picture"]
    assert "7 need attention" in html


def test_somebody_ends_their_own_session_and_token_only(as_person, people, shown):
    client = Client()
    client.post(
        "/login/",
        {"username": "operator", "password": "correct horse battery"},
        headers={"user-agent": "Firefox/1 Linux"},
    )
    _, mine = tokens.issue(people["operator"], "laptop", 9)
    _, other = tokens.issue(people["viewer"], "theirs", 9)
    html = client.get("/account/").content.decode()
    assert "laptop" in html
    assert "theirs" not in html
    for token in (mine, other):
        assert client.post("/account/", {"do": "revoke-token", "id": token.pk}).status_code == 302
        token.refresh_from_db()
    assert (mine.revoked_at is None, other.revoked_at is None) == (False, True)
    (entry,) = sessions.entries(people["operator"])
    for wrong in ("", "x", "-1", "9" * 30, "²"):
        assert client.post("/account/", {"do": "end-session", "id": wrong}).status_code == 302
    client.post("/account/", {"do": "end-session", "id": entry.id})
    assert client.get("/account/").status_code == 302, "signed out"


def test_an_approver_makes_and_revokes_addresses_of_walls(as_person, shown):
    approver, made = as_person("approver"), {"do": "new-wall", "cluster": shown.cluster, "days": "7", "name": "hall"}
    html = approver.post("/account/", made).content.decode()
    (path,) = re.findall(r"http://testserver(/wall/[^<]+/)</pre>", html)
    assert path not in approver.get("/account/").content.decode(), "shown once"
    screen = Client()
    assert screen.get(path).headers["Location"] == "/wall/"
    assert "node-22 is silent" in screen.get("/wall/").content.decode()
    assert screen.get(f"/c/{shown.cluster}/").status_code == 302
    (address,) = wall.addresses([shown.cluster])
    approver.post("/account/", {"do": "revoke-wall", "id": address.pk})
    assert screen.get("/wall/").status_code == 302


@pytest.mark.parametrize(
    ("person", "change"),
    [
        ("operator", {}),
        ("approver", {"cluster": "nowhere"}),
        ("approver", {"days": "4000"}),
        ("approver", {"days": "x"}),
    ],
)
def test_nobody_else_makes_an_address(as_person, shown, person, change):
    asked = {"do": "new-wall", "cluster": shown.cluster, "days": "7", "name": ""} | change
    assert "/wall/" not in re.sub(
        r"/wall/(ws/|\?cluster)", "", as_person(person).post("/account/", asked).content.decode()
    )
    assert wall.addresses([shown.cluster]) == []
