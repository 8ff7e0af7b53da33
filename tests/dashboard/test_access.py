"""Who may do what: every address and socket × role, and the origin of sockets."""

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from dashboard import access, accounts, tokens, urls
from dashboard.access import PUBLIC, Role
from dashboard.models import Scope
from tests.dashboard.handshakes import Handshake

pytestmark = pytest.mark.db

# Every address and socket: least role, and a request that it answers. Whoever adds one says here who may use it.
TABLE = {
    "healthz": (PUBLIC, "GET", "/healthz"),
    "readyz": (PUBLIC, "GET", "/readyz"),
    "sign-in": (PUBLIC, "GET", "/login/"),
    "sign-out": (PUBLIC, "POST", "/logout/"),
    "welcome": (PUBLIC, "GET", "/welcome/some-token/"),
    "set_language": (PUBLIC, "POST", "/language/"),
    "wall-open": (PUBLIC, "GET", "/wall/some-secret/"),
    "metrics": (Role.VIEWER, "GET", "/metrics"),
    "home": (Role.VIEWER, "GET", "/"),
    "fleet": (Role.VIEWER, "GET", "/c/{cluster}/"),
    "node": (Role.VIEWER, "GET", "/c/{cluster}/nodes/node-01/"),
    "propose": (Role.OPERATOR, "GET", "/c/{cluster}/nodes/node-01/do/drain/"),
    "propose-release": (Role.OPERATOR, "GET", "/c/{cluster}/releases/Deployment/chat/llm/do/restart/"),
    "actions": (Role.VIEWER, "GET", "/c/{cluster}/actions/"),
    "actions-export": (Role.VIEWER, "GET", "/c/{cluster}/actions/export.csv"),
    "action": (Role.VIEWER, "GET", "/c/{cluster}/actions/1/"),
    "action-confirm": (Role.OPERATOR, "POST", "/c/{cluster}/actions/1/confirm/"),
    "action-approve": (Role.APPROVER, "POST", "/c/{cluster}/actions/1/approve/"),
    "action-stop": (Role.OPERATOR, "POST", "/c/{cluster}/actions/1/stop/"),
    "gpu": (Role.VIEWER, "GET", "/c/{cluster}/gpus/GPU-01/"),
    "availability": (Role.VIEWER, "GET", "/c/{cluster}/availability/"),
    "cadence": (Role.VIEWER, "GET", "/c/{cluster}/cadence/"),
    "checkpoints": (Role.VIEWER, "GET", "/c/{cluster}/checkpoints/"),
    "checkpoint": (Role.VIEWER, "GET", "/c/{cluster}/checkpoints/Job/ml/llm/"),
    "checkpoint-check": (Role.OPERATOR, "POST", "/c/{cluster}/checkpoints/Job/ml/llm/check/"),
    "checkpoint-note": (Role.OPERATOR, "POST", "/c/{cluster}/checkpoints/Job/ml/llm/note/"),
    "readiness": (Role.VIEWER, "GET", "/c/{cluster}/readiness/"),
    "readiness-workload": (Role.VIEWER, "GET", "/c/{cluster}/readiness/Deployment/chat/llm/"),
    "blue-green": (Role.VIEWER, "GET", "/c/{cluster}/blue-green/"),
    "blue-green-pair": (Role.VIEWER, "GET", "/c/{cluster}/blue-green/chat/llm/"),
    "rollouts": (Role.VIEWER, "GET", "/c/{cluster}/rollouts/"),
    "rollout": (Role.VIEWER, "GET", "/c/{cluster}/rollouts/Deployment/chat/llm/"),
    "workloads": (Role.VIEWER, "GET", "/c/{cluster}/workloads/"),
    "waiting": (Role.VIEWER, "GET", "/c/{cluster}/waiting/"),
    "search": (Role.VIEWER, "GET", "/c/{cluster}/search/"),
    "clusters": (Role.VIEWER, "GET", "/all/"),
    "account": (Role.VIEWER, "GET", "/account/"),
    "help": (Role.VIEWER, "GET", "/help/"),
    "wall": (Role.VIEWER, "GET", "/wall/"),
    "api-v1:snapshot": (Role.VIEWER, "GET", "/api/v1/snapshot"),
    "api-v1:nodes": (Role.VIEWER, "GET", "/api/v1/nodes"),
    "api-v1:node": (Role.VIEWER, "GET", "/api/v1/nodes/node-01"),
    "api-v1:clusters": (Role.VIEWER, "GET", "/api/v1/clusters"),
    "api-v1:node-pods": (Role.VIEWER, "GET", "/api/v1/nodes/node-01/pods"),
    "api-v1:workloads": (Role.VIEWER, "GET", "/api/v1/workloads"),
    "api-v1:waiting": (Role.VIEWER, "GET", "/api/v1/waiting"),
    "api-v1:gpus": (Role.VIEWER, "GET", "/api/v1/gpus"),
    "api-v1:gpu": (Role.VIEWER, "GET", "/api/v1/gpus/GPU-01"),
    "api-v1:gpu-history": (Role.VIEWER, "GET", "/api/v1/gpus/GPU-01/history"),
    "api-v1:transitions": (Role.VIEWER, "GET", "/api/v1/transitions"),
    "api-v1:availability": (Role.VIEWER, "GET", "/api/v1/availability"),
    "api-v1:cadence": (Role.VIEWER, "GET", "/api/v1/cadence?save_cost_s=300&mtbf_s=86400"),
    "api-v1:checkpoints": (Role.VIEWER, "GET", "/api/v1/checkpoints"),
    "api-v1:checkpoint": (Role.VIEWER, "GET", "/api/v1/checkpoints/Job/ml/llm"),
    "api-v1:readiness": (Role.VIEWER, "GET", "/api/v1/readiness"),
    "api-v1:plans": (Role.OPERATOR, "POST", "/api/v1/plans"),
    "api-v1:plan": (Role.VIEWER, "GET", "/api/v1/plans/1"),
    "api-v1:plan-confirm": (Role.OPERATOR, "POST", "/api/v1/plans/1/confirm"),
    "api-v1:plan-approve": (Role.APPROVER, "POST", "/api/v1/plans/1/approve"),
    "api-v1:actions": (Role.VIEWER, "GET", "/api/v1/actions"),
    "api-v1:action": (Role.VIEWER, "GET", "/api/v1/actions/1"),
    "api-v1:action-events": (Role.VIEWER, "GET", "/api/v1/actions/1/events"),
    "api-v1:action-stop": (Role.OPERATOR, "POST", "/api/v1/actions/1/stop"),
    "api-v1:audit": (Role.VIEWER, "GET", "/api/v1/audit"),
    "api-v1:events": (Role.VIEWER, "GET", "/api/v1/events"),
    "api-v1:docs": (Role.VIEWER, "GET", "/api/v1/docs"),
    "api-v1:openapi-json": (Role.VIEWER, "GET", "/api/v1/openapi.json"),
    "api-v1:api-root": (Role.VIEWER, "GET", "/api/v1/"),
    "socket": (Role.VIEWER, "WEBSOCKET", "/ws/"),
    "wall-socket": (Role.VIEWER, "WEBSOCKET", "/wall/ws/"),
}
# What changes something over the API takes a token; a session is refused, whoever has it.
BY_TOKEN = {"api-v1:plans", "api-v1:plan-confirm", "api-v1:plan-approve", "api-v1:action-stop"}
PEOPLE = (None, "nobody", *Role)
ROLE_OF = {None: None, "nobody": None, **{role.value: role for role in Role}}


def url_names(resolver: URLResolver, namespace: str = "") -> list[str]:
    found = []
    for entry in resolver.url_patterns:
        if isinstance(entry, URLPattern):
            assert entry.name, f"{entry.pattern} has no name, so nothing says who may use it"
            found.append(namespace + entry.name)
        else:
            found += url_names(entry, f"{namespace}{entry.namespace}:" if entry.namespace else namespace)
    return found


def test_every_address_and_socket_is_in_both_tables():
    existing = url_names(get_resolver()) + [socket.name for socket in urls.sockets]
    assert sorted(set(existing)) == sorted(TABLE), "one of several methods has one name"
    assert dict(access.EXPOSED) == {name: least for name, (least, _, _) in TABLE.items()}


@pytest.mark.parametrize("person", PEOPLE)
@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if entry[1] != "WEBSOCKET"])
def test_address_by_role(name, person, people, as_person, writer, settings):
    settings.VIGIE_METRICS_FROM = ()
    least, method, path = TABLE[name]
    client = as_person(person)
    if name in BY_TOKEN and person is not None:
        assert client.generic(method, path).status_code in {401, 403}
        text, _ = tokens.issue(people[person], "test", 1, scope=Scope.ACT)
        client = Client(headers={"authorization": f"Bearer {text}"})
    response = client.generic(method, path.format(cluster=writer.cluster))
    role = ROLE_OF[person]
    if least == PUBLIC or (role is not None and role.includes(least)):
        assert response.status_code not in {401, 403}
        assert not response.get("Location", "").startswith("/login/?")
    elif person is not None:
        assert response.status_code == 403
    elif path.startswith(("/api/", "/metrics")) and name != "api-v1:docs":
        assert response.status_code == 401
    else:
        assert response.headers["Location"] == f"/login/?next={path.format(cluster=writer.cluster)}"


@pytest.mark.broker
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("person", PEOPLE)
@pytest.mark.usefixtures("hub_ends")
async def test_socket_by_role(person, cookies, writer):
    socket = Handshake(cookies[person])
    assert await socket.accepted()
    await socket.say({"cluster": writer.cluster, "view": {"screen": "fleet"}})
    frame = await socket.hear()
    least = TABLE["socket"][0]
    role = ROLE_OF[person]
    if role is not None and role.includes(least):
        assert frame["t"] == "snapshot"
        await socket.leave()
    else:
        reason, code = ("signed-out", 4401) if person is None else ("forbidden", 4403)
        assert frame == {"t": "bye", "reason": reason}
        assert await socket.closed() == code


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (None, "localhost"),
        ("null", "localhost"),
        ("http://evil.example", "localhost"),
        ("http://localhost.evil.example", "localhost"),
        ("http://localhost:8001", "localhost:8000"),
        ("https://localhost", "localhost:80"),
        ("ftp://localhost", "localhost"),
        ("http://evil.example", "evil.example"),  # a name that somebody made point here
        ("http://localhost:no", "localhost"),
    ],
)
async def test_socket_of_another_origin_is_refused(origin, host):
    assert not await Handshake(origin=origin, host=host).accepted()


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8000", "localhost:8000"),
        ("http://localhost", "localhost:80"),
        ("http://LOCALHOST", "localhost"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("http://[::1]", "[::1]"),
    ],
)
def test_own_origin_is_known(origin, host):
    assert access.same_origin([(b"Host", host.encode()), (b"Origin", origin.encode())])


def test_outside_the_rehearsal_an_origin_without_tls_is_refused(settings):
    settings.VIGIE_SECURE = True
    settings.ALLOWED_HOSTS = ["vigie.example"]
    assert access.same_origin([(b"host", b"vigie.example"), (b"origin", b"https://vigie.example")])
    assert not access.same_origin([(b"host", b"vigie.example"), (b"origin", b"http://vigie.example")])


def test_a_name_that_the_table_lacks_is_refused_even_to_the_highest_role():
    assert not access.may(Role.APPROVER, "forgotten")


def test_roles_include_the_lower_ones():
    assert Role.APPROVER.includes(Role.OPERATOR)
    assert Role.OPERATOR.includes(Role.OPERATOR)
    assert not Role.VIEWER.includes(Role.OPERATOR)


def test_role_comes_from_groups_alone(people):
    people["nobody"].is_superuser = True
    people["nobody"].save()
    assert access.role_of(people["nobody"]) is None
    assert access.role_of(people["operator"]) is Role.OPERATOR
    accounts.set_role(people["operator"], Role.APPROVER)
    assert access.role_of(type(people["operator"]).objects.get(username="operator")) is Role.APPROVER


def test_who_is_behind_many_sessions_costs_three_queries(as_person, people, django_assert_num_queries):
    keys = [as_person(name).session.session_key for name in ("viewer", "operator", "approver", "nobody") * 3]
    with django_assert_num_queries(3):
        found = access.visitors([*keys, "unknown", ""])
    assert [found[key].role for key in keys[:4]] == [Role.VIEWER, Role.OPERATOR, Role.APPROVER, None]
    assert set(found) == set(keys)


def test_an_expired_session_is_nobody(as_person):
    key = as_person("viewer").session.session_key
    Session.objects.update(expire_date=timezone.now())
    assert access.visitors([key]) == {}


def test_a_disabled_account_has_no_role(people):
    accounts.disable(people["approver"])
    people["approver"].refresh_from_db()
    assert access.role_of(people["approver"]) is None
