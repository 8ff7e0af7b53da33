"""Roles per cluster: every address and socket × where somebody holds a role. A cluster without a role does not exist for them."""

import json
import re
from urllib.parse import parse_qsl

import msgspec
import pytest

from dashboard import access, accounts, consumers, tokens
from dashboard.roles import Role, Roles, from_groups, group_name, parsed
from fleet.domain.rollout_picture import RolloutRow
from fleet.domain.save_picture import CheckpointRow
from tests.dashboard.conftest import PASSWORD
from tests.dashboard.handshakes import Handshake, cookie_of
from tests.dashboard.pictures import Writer, nodes
from tests.dashboard.test_access import TABLE

pytestmark = [pytest.mark.db]

PAGES = [name for name, (_, _, path) in TABLE.items() if "{cluster}" in path]
# What changes something, or asks for an action by its number, has tests of its own; here is what everybody may look at.
PAGES = [name for name in PAGES if TABLE[name][0] is Role.VIEWER and name != "action"]
API = [name for name in TABLE if name.startswith("api-v1:") and name not in {"api-v1:openapi-json", "api-v1:api-root"}]
API = [name for name in API if name not in {"api-v1:docs", "api-v1:clusters"}]
API = [name for name in API if TABLE[name][0] is Role.VIEWER and "/1" not in TABLE[name][2].removeprefix("/api/v1")]


@pytest.mark.parametrize(
    ("groups", "here", "elsewhere"),
    [
        ([], None, None),
        (["rehearsal", "viewers", "viewer:"], None, None),
        (["viewer"], Role.VIEWER, Role.VIEWER),
        (["operator:paris"], Role.OPERATOR, None),
        (["viewer", "operator:paris"], Role.OPERATOR, Role.VIEWER),
        (["approver", "viewer:paris"], Role.APPROVER, Role.APPROVER),
        (["viewer:paris", "operator:paris"], Role.OPERATOR, None),
        (["admin:paris"], None, None),
    ],
)
def test_what_groups_give(groups, here, elsewhere):
    held = from_groups(groups)
    assert (held.on("paris"), held.on("rome")) == (here, elsewhere)
    assert held.highest is here


@pytest.mark.parametrize("cluster", ["", "paris", "arn:aws:eks:eu-north-1:1:cluster/helsinki"])
def test_a_groups_name_reads_back(cluster):
    assert parsed(group_name(Role.OPERATOR, cluster)) == (Role.OPERATOR, cluster)


def test_roles_in_words():
    assert (
        str(Roles(Role.VIEWER, {"rome": Role.OPERATOR, "paris": Role.APPROVER}))
        == "viewer, approver on paris, operator on rome"
    )
    assert str(Roles()) == ""


@pytest.fixture
def both(clusters, db) -> tuple[str, str]:
    """Two clusters with pictures, and an account that may look at the second one alone."""
    for name in clusters:
        trains = {"Job/ml/llm": CheckpointRow("Job/ml/llm", "ml")}
        rolls = {"Deployment/chat/llm": RolloutRow("Deployment")}
        Writer(name).publish(msgspec.structs.replace(nodes(2), checkpoints=trains, rollouts=rolls))
    accounts.add("rita", Role.VIEWER, PASSWORD, cluster=clusters[1])
    return clusters


@pytest.fixture
def rita(both, client):
    client.force_login(accounts.find("rita"))
    return client


@pytest.mark.parametrize("name", PAGES)
def test_pages(name, rita, both):
    _, method, path = TABLE[name]
    statuses = [rita.generic(method, path.format(cluster=cluster)).status_code for cluster in both]
    unknown = rita.generic(method, path.format(cluster="elsewhere"))
    assert statuses == [404, 200]
    assert unknown.status_code == 404


def test_one_that_is_not_theirs_looks_like_one_that_is_not_there(rita, both):
    hidden, missing = (rita.get(f"/c/{name}/").content.decode() for name in (both[0], "elsewhere"))
    main = [page.partition("<main")[2].partition("</main>")[0] for page in (hidden, missing)]
    main = [
        re.sub(r"<dd[^>]*>(\w{12}|[-\d: ]+ UTC)</dd>", "", page) for page in main
    ]  # each request's own name and moment
    assert main[0] == main[1]
    assert both[0] not in main[0]
    assert hidden.count(both[0]) == missing.count("elsewhere"), "nothing but its own address names it"


def test_a_role_that_is_too_low_here_is_refused(both, client, monkeypatch):
    accounts.set_role(accounts.find("rita"), Role.OPERATOR, both[0])
    monkeypatch.setattr(access, "EXPOSED", {**access.EXPOSED, "fleet": Role.OPERATOR})
    client.force_login(accounts.find("rita"))
    assert [client.get(f"/c/{cluster}/").status_code for cluster in both] == [200, 403]


def ask(client, name: str, cluster: str, **headers: str):
    path, _, given = TABLE[name][2].partition("?")
    return client.get(path, {**dict(parse_qsl(given)), "cluster": cluster}, headers=headers)


# These read the cluster itself, and none of these clusters answers.
AFRESH = {"api-v1:readiness": 503}


@pytest.mark.parametrize("name", API)
def test_api(name, rita, both):
    assert [ask(rita, name, cluster).status_code for cluster in both] == [404, AFRESH.get(name, 200)]
    assert rita.get(TABLE[name][2]).status_code == AFRESH.get(name, 200), "the first one is the first that they may see"


@pytest.mark.parametrize("name", API)
def test_a_token_for_one_cluster(name, both, client, people):
    text, _ = tokens.issue(people["approver"], "a script", 9, cluster=both[1])
    bearer = {"authorization": f"Bearer {text}"}
    assert [ask(client, name, cluster, **bearer).status_code for cluster in both] == [404, AFRESH.get(name, 200)]


def test_a_token_never_shows_more_than_its_owner_may_see(both, client):
    text, _ = tokens.issue(accounts.find("rita"), "a script", 9, cluster=both[0])
    assert ask(client, "api-v1:nodes", both[0], authorization=f"Bearer {text}").status_code == 404


def test_all_clusters_are_all_of_theirs(rita, both):
    assert [item["name"] for item in rita.get("/api/v1/clusters").json()["items"]] == [both[1]]
    assert rita.get("/").headers["Location"].startswith("/c/arn")


@pytest.fixture
def cookie(transactional_db, rita) -> str:
    return cookie_of(rita)


async def hello(cookie: str, frame: dict, application=consumers.live) -> tuple[Handshake, dict]:
    socket = Handshake(cookie, application=application)
    assert await socket.accepted()
    await socket.say(frame)
    frame = await socket.hear()
    while frame["t"] == "pulse":
        frame = await socket.hear()
    return socket, frame


@pytest.mark.broker
@pytest.mark.usefixtures("hub_ends")
@pytest.mark.parametrize("application", [consumers.live, consumers.wall])
async def test_sockets(cookie, both, application):
    for cluster, expected in zip((*both, "elsewhere"), ("bye", "snapshot", "bye"), strict=True):
        socket, frame = await hello(cookie, {"cluster": cluster, "view": {"screen": "wall"}}, application)
        assert frame["t"] == expected
        if expected == "bye":
            assert frame["reason"] == "unknown-cluster"
        await socket.leave()


@pytest.mark.broker
@pytest.mark.usefixtures("hub_ends")
async def test_the_socket_of_all_clusters(cookie, both):
    socket, frame = await hello(cookie, {"view": {"screen": "clusters"}})
    assert (frame["t"], frame["cluster"]) == ("snapshot", both[1])
    await socket.say({"t": "refetch", "cluster": both[1]})
    assert (await socket.hear_a("snapshot"))["cluster"] == both[1]
    await socket.leave()


@pytest.mark.broker
@pytest.mark.usefixtures("hub_ends")
async def test_the_socket_of_all_clusters_is_one_for_each_of_them(cookies, both):
    socket, frame = await hello(cookies["viewer"], {"view": {"screen": "clusters"}})
    found = {frame["cluster"], (await socket.hear_a("snapshot"))["cluster"]}
    assert found == set(both)
    await socket.say({"t": "refetch"})
    assert {(await socket.hear_a("snapshot"))["cluster"] for _ in both} == set(both)
    await socket.leave()


@pytest.mark.broker
@pytest.mark.usefixtures("hub_ends")
async def test_a_socket_for_programs_is_not_for_pages(cookies, both):
    socket = Handshake(cookies["viewer"])
    assert await socket.accepted()
    await socket.say({"cluster": both[0], "view": {"screen": "everything"}})
    assert await socket.closed() == 4400


def test_losing_the_role_on_one_cluster_ends_what_looks_at_it_alone(both, rita):
    accounts.set_role(accounts.find("rita"), Role.VIEWER, both[0])
    key = rita.session.session_key
    watchers = [consumers.Watcher(cluster, session=key) for cluster in both]
    assert consumers._ended(watchers) == {}
    accounts.set_role(accounts.find("rita"), None, both[1])
    assert consumers._ended(watchers) == {watchers[1]: "forbidden"}
    assert json.loads(consumers._ended(watchers)[watchers[1]].frame)["reason"] == "forbidden"


def test_a_cluster_whose_name_fits_no_group_is_said(people):
    with pytest.raises(accounts.AccountError, match="too long"):
        accounts.set_role(people["viewer"], Role.OPERATOR, "x" * 150)
