"""Ways into pods: through the proxy, to the log, with a command; and what is said when nobody is there."""

import asyncio
import json
import ssl
from typing import Any

import pytest
import websockets
from websockets.exceptions import InvalidStatus

from fleet.simulation.auth import User
from fleet.simulation.bootstrap_roles import AUTHENTICATED
from fleet.simulation.clock import RealClock
from fleet.simulation.programs import Answer, Call, Container, Line, PlainProgram
from fleet.simulation.server import ADMIN, ApiServer
from fleet.simulation.store import Store
from tests.simulation.http import Api
from tests.simulation.unrecorded import given

Object = dict[str, Any]

PODS = "/api/v1/namespaces/test/pods"
WEB: Object = {"kind": "Pod", "namespace": "test", "name": "web", "labels": {"app": "web"}, "ip": "10.1.2.3"}
SERVER = {"name": "server", "image": "sim.io/llm-server:v1", "ports": [{"name": "http", "containerPort": 8000}]}


class Counter(PlainProgram):
    """Says what it heard, and writes a line for every call."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def page(self, container: Container, call: Call) -> Answer:
        self.calls.append(call)
        return Answer(202, call.body or b"heard", "text/x-heard", {"x-seen": str(len(self.calls))})

    def log(self, container: Container) -> list[Line]:
        return [(container.started_at + i, f"line {i}") for i in range(3 + len(self.calls))]


@pytest.fixture
def api() -> Api:
    made = Api()
    made.namespace()
    made.node("gpu-node-00")
    place(made.store, {**WEB, "spec": {"containers": [SERVER]}})
    return made


def place(store: Store, *rows: Object) -> None:
    for plural, obj in given(list(rows)):
        store.restore(plural, obj)


def message(response: Any) -> str:
    found: str = response.json()["message"]
    return found


class TestProxy:
    async def test_what_a_server_says_comes_back_as_it_is(self, api: Api) -> None:
        counter = Counter()
        api.app.programs.register("llm-server", counter)
        answer = await api.call("POST", f"{PODS}/web/proxy/v1/run/", b"hello", kind="text/plain", deep="yes")
        assert (answer.status_code, answer.text) == (202, "hello")
        assert (answer.headers["content-type"], answer.headers["x-seen"]) == ("text/x-heard", "1")
        (call,) = counter.calls
        assert (call.method, call.path, call.query) == ("POST", "/v1/run/", "deep=yes")
        assert "authorization" not in call.headers

    async def test_a_model_server_tells_its_model_and_metrics(self, api: Api) -> None:
        models = await api.get(f"{PODS}/web:8000/proxy/v1/models")
        assert [m["id"] for m in models.json()["data"]] == ["web"]
        metrics = await api.get(f"{PODS}/http:web:8000/proxy/metrics")
        assert metrics.text.startswith("# TYPE process_start_time_seconds gauge")
        assert (await api.get(f"{PODS}/web/proxy/healthz")).text == "ok"
        assert (await api.get(f"{PODS}/web/proxy/nothing")).status_code == 404

    async def test_the_root_needs_a_slash(self, api: Api) -> None:
        answer = await api.get(f"{PODS}/web/proxy", a="b")
        assert (answer.status_code, answer.headers["location"]) == (301, f"{PODS}/web/proxy/?a=b")

    async def test_where_nothing_listens(self, api: Api) -> None:
        answer = await api.get(f"{PODS}/web:9/proxy/")
        assert (answer.status_code, answer.json()["reason"]) == (503, "ServiceUnavailable")
        assert message(answer) == "error trying to reach service: dial tcp 10.1.2.3:9: connect: connection refused"
        assert "unknown port" in message(await api.get(f"{PODS}/web:http/proxy/"))

    async def test_a_container_that_does_not_run(self, api: Api) -> None:
        pod = api.store.get("pods", "test", "web")
        waiting = [{"name": "server", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
        api.store.restore("pods", {**pod, "status": {**pod["status"], "containerStatuses": waiting}})
        assert message(await api.get(f"{PODS}/web/proxy/healthz")).endswith(":8000: connect: connection refused")

    async def test_a_pod_without_an_address(self, api: Api) -> None:
        api.pod("fresh", namespace="test")
        answer = await api.get(f"{PODS}/fresh/proxy/")
        assert (answer.status_code, message(answer)) == (400, "address not allowed")
        assert (await api.get(f"{PODS}/nobody/proxy/")).status_code == 404

    async def test_a_node_that_is_down_is_waited_for(self, api: Api) -> None:
        node = api.store.get("nodes", None, "gpu-node-00")
        api.store.restore("nodes", {**node, "metadata": {**node["metadata"], "annotations": {"sim/down": "true"}}})
        waiting = asyncio.ensure_future(api.get(f"{PODS}/web/proxy/"))
        await api.clock.advance(29)
        assert not waiting.done()
        await api.clock.advance(2)
        answer = await waiting
        assert (answer.status_code, message(answer)[-11:]) == (503, "i/o timeout")

    async def test_its_right_is_pods_proxy(self, api: Api) -> None:
        api.token = api.auth.issue(User("eve", (AUTHENTICATED,)))
        answer = await api.get(f"{PODS}/web:8000/proxy/metrics")
        assert answer.status_code == 403
        assert 'cannot get resource "pods/proxy"' in message(answer)
        posted = await api.call("POST", f"{PODS}/web/proxy/x")
        assert 'cannot create resource "pods/proxy"' in message(posted)


class TestServiceProxy:
    @pytest.fixture
    def service(self, api: Api) -> str:
        place(
            api.store,
            {"kind": "Service", "namespace": "test", "name": "web", "spec": {"ports": [{"name": "http", "port": 80}]}},
        )
        return "/api/v1/namespaces/test/services"

    def endpoints(self, api: Api, *, ready: bool) -> None:
        endpoint = {"targetRef": {"kind": "Pod", "name": "web"}, "conditions": {"ready": ready}}
        row = {"kind": "EndpointSlice", "namespace": "test", "name": "web-1", "endpoints": [endpoint]}
        labels = {"kubernetes.io/service-name": "web"}
        place(api.store, {**row, "labels": labels, "ports": [{"name": "http", "port": 8000}]})

    @pytest.mark.parametrize("name", ["web:80", "web:http", "http:web:http"])
    async def test_a_ready_pod_answers(self, api: Api, service: str, name: str) -> None:
        self.endpoints(api, ready=True)
        assert (await api.get(f"{service}/{name}/proxy/healthz")).text == "ok"

    @pytest.mark.parametrize(
        ("name", "ready", "words"),
        [
            ("web:80", None, 'no endpoints available for service "web"'),
            ("web:80", False, 'no endpoints available for service "web:80"'),
            ("web", True, 'no endpoints available for service "web"'),
            ("web:81", True, 'no service port 81 found for service "web"'),
        ],
    )
    async def test_nobody_answers(self, api: Api, service: str, name: str, ready: bool | None, words: str) -> None:
        if ready is not None:
            self.endpoints(api, ready=ready)
        answer = await api.get(f"{service}/{name}/proxy/")
        assert (answer.status_code, message(answer)) == (503, words)


class TestLog:
    async def test_tail_stamps_and_limits(self, api: Api) -> None:
        api.app.programs.register("llm-server", Counter())
        path = f"{PODS}/web/log"
        assert (await api.get(path)).text == "line 0\nline 1\nline 2\n"
        assert (await api.get(path, tailLines="2")).text == "line 1\nline 2\n"
        assert (await api.get(path, tailLines="0")).text == ""
        assert (await api.get(path, tailLines="1", timestamps="true")).text.endswith("Z line 2\n")
        assert (await api.get(path, limitBytes="4")).text == "line"
        assert (await api.get(path, tailLines="-1")).status_code == 422

    async def test_which_container(self, api: Api) -> None:
        assert message(await api.get(f"{PODS}/web/log", container="x")) == "container x is not valid for pod web"
        second = {**SERVER, "name": "sidecar"}
        place(api.store, {**WEB, "name": "two", "spec": {"containers": [SERVER, second]}})
        assert message(await api.get(f"{PODS}/two/log")) == (
            "a container name must be specified for pod two, choose one of: [server sidecar]"
        )

    async def test_before_it_starts(self, api: Api) -> None:
        api.pod("fresh", namespace="test")
        assert (await api.get(f"{PODS}/fresh/log")).status_code == 204
        api.pod("bound", "gpu-node-00", namespace="test")
        assert message(await api.get(f"{PODS}/bound/log")) == (
            'container "main" in pod "bound" is waiting to start: ContainerCreating'
        )

    async def test_the_run_before_is_told_up_to_its_end(self, api: Api) -> None:
        api.app.programs.register("llm-server", Counter())
        refused = await api.get(f"{PODS}/web/log", previous="true")
        assert (refused.status_code, message(refused)) == (
            400,
            'previous terminated container "server" in pod "web" not found',
        )
        ended = {"startedAt": "2026-12-01T19:00:00Z", "finishedAt": "2026-12-01T19:00:01Z", "exitCode": 3}

        def crashed(pod: Object) -> None:
            (status,) = pod["status"]["containerStatuses"]
            status["lastState"] = {"terminated": ended}

        api.store.mutate("pods", "test", "web", crashed, manager="test", subresource="status")
        told = await api.get(f"{PODS}/web/log", previous="true", tailLines="2")
        assert told.text == "line 1\nserver ends with exit code 3\n"

    async def test_following_ends_with_the_pod(self, api: Api) -> None:
        counter = Counter()
        api.app.programs.register("llm-server", counter)
        following = asyncio.ensure_future(api.get(f"{PODS}/web/log", follow="true", tailLines="1"))
        await api.clock.advance(1)
        await api.get(f"{PODS}/web/proxy/x")
        await api.clock.advance(1)
        api.store.delete("pods", "test", "web", grace_s=0)
        await api.clock.advance(1)
        assert (await following).text == "line 2\nline 3\n"

    async def test_a_lost_kubelet_tells_nothing(self, api: Api) -> None:
        node = api.store.get("nodes", None, "gpu-node-00")
        api.store.restore("nodes", {**node, "metadata": {**node["metadata"], "annotations": {"sim/down": "true"}}})
        answer = await api.get(f"{PODS}/web/log")
        assert answer.status_code == 500
        assert message(answer).endswith(":10250: connect: connection refused")


class TestExec:
    async def run(
        self, query: str, *sent: bytes, protocol: str = "v5.channel.k8s.io", user: User = ADMIN
    ) -> dict[int, bytes]:
        """Channel → what came over it."""
        store = Store(RealClock(), seed=1)
        store.create("namespaces", {"metadata": {"name": "test"}}, manager="test")
        place(store, {**WEB, "spec": {"containers": [SERVER]}})
        server = ApiServer(store)
        url = (await server.start()).replace("https", "wss")
        found: dict[int, bytes] = {}
        try:
            context = ssl.create_default_context(cadata=server.ca_pem.decode())
            headers = {"authorization": f"Bearer {server.auth.issue(user)}"}
            address = f"{url}{PODS}/web/exec?{query}"
            subprotocols = [websockets.Subprotocol(protocol)]
            async with websockets.connect(
                address, ssl=context, additional_headers=headers, subprotocols=subprotocols
            ) as socket:
                for frame in sent:
                    await socket.send(frame)
                async for frame in socket:
                    assert isinstance(frame, bytes)
                    found[frame[0]] = found.get(frame[0], b"") + frame[1:]
        finally:
            await server.stop()
        return found

    async def test_a_command_answers_and_ends_well(self) -> None:
        got = await self.run("command=echo&command=hello&command=you&stdout=true&stderr=true")
        assert got[1] == b"hello you\n"
        assert json.loads(got[3]) == {"metadata": {}, "status": "Success"}

    async def test_input_until_it_is_closed(self) -> None:
        got = await self.run("command=cat&stdin=true&stdout=true", b"\x00one ", b"\x00two", b"\xff\x00")
        assert got[1] == b"one two"

    async def test_a_failure_tells_its_code(self) -> None:
        got = await self.run("command=sh&command=-c&command=cat+/nowhere&stdout=true&stderr=true")
        status = json.loads(got[3])
        assert got[2] == b"cat: /nowhere: No such file or directory\n"
        assert (status["reason"], status["details"]["causes"]) == (
            "NonZeroExitCode",
            [{"reason": "ExitCode", "message": "1"}],
        )

    async def test_an_unknown_command(self) -> None:
        status = json.loads((await self.run("command=nope&stdout=true"))[3])
        assert status["reason"] == "InternalError"
        assert 'exec: "nope": executable file not found in $PATH' in status["message"]

    @pytest.mark.parametrize(
        ("query", "protocol", "user", "status"),
        [
            ("stdout=true", "v5.channel.k8s.io", ADMIN, 400),
            ("command=true&container=x", "v5.channel.k8s.io", ADMIN, 400),
            ("command=true", "channel.k8s.io", ADMIN, 400),
            ("command=true", "v5.channel.k8s.io", User("eve"), 403),
        ],
    )
    async def test_refused_before_it_begins(self, query: str, protocol: str, user: User, status: int) -> None:
        with pytest.raises(InvalidStatus) as refused:
            await self.run(query, protocol=protocol, user=user)
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body or b"")["code"] == status

    async def test_without_an_upgrade(self, api: Api) -> None:
        answer = await api.call("POST", f"{PODS}/web/exec", command="true")
        assert (answer.status_code, message(answer)) == (400, "Upgrade request required")
