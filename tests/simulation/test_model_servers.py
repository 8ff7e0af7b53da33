"""What a model server answers, by itself and through the API."""

import json
from typing import Any

import pytest

from fleet.simulation.clock import stamp
from fleet.simulation.model_servers import ModelServer, in_flight
from fleet.simulation.programs import Answer, Call, Container

Object = dict[str, Any]

BEGAN = 1_790_000_000.0
PORT = 8000


def container(up_s: float | None = 100.0, stop_s: float | None = None, at_s: float = 200.0) -> Container:
    """A server that came up after `up_s` (None: never) and was asked to stop `stop_s` after its start."""
    ready: Object = {"type": "Ready", "status": "False", "lastTransitionTime": stamp(BEGAN)}
    if up_s is not None:
        ready |= {"status": "True", "lastTransitionTime": stamp(BEGAN + up_s)}
    metadata: Object = {"name": "chat-1", "namespace": "inference", "uid": "80000000-0000", "labels": {"app": "chat"}}
    if stop_s is not None:
        ready["status"] = "False"
        metadata |= {"deletionTimestamp": stamp(BEGAN + stop_s + 30), "deletionGracePeriodSeconds": 30}
    pod = {"metadata": metadata, "spec": {}, "status": {"conditions": [ready]}}
    limits = {"limits": {"nvidia.com/gpu": "4"}}
    server = {
        "name": "server",
        "image": "par-prod/search-server:2.9",
        "ports": [{"containerPort": PORT}],
        "resources": limits,
    }
    return Container(pod, server, BEGAN, BEGAN + at_s)


async def ask(server: ModelServer, of: Container, method: str, path: str, body: Any = None) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
    answer = await server.http(of, PORT, Call(method, path, body=content))
    assert answer is not None
    return answer


async def test_it_says_what_it_serves_once_it_is_up() -> None:
    server = ModelServer()
    assert (await ask(server, container(None), "GET", "/health")).status == 503
    assert (await ask(server, container(None), "GET", "/v1/models")).status == 503
    assert (await ask(server, container(None), "POST", "/v1/completions", {"prompt": "hello"})).status == 503
    assert (await ask(server, container(), "GET", "/health")).status == 200
    models = json.loads((await ask(server, container(), "GET", "/v1/models")).body)
    assert [m["id"] for m in models["data"]] == ["chat"]
    assert json.loads((await ask(server, container(), "GET", "/version")).body) == {"version": "2.9"}
    assert (await ask(server, container(None), "GET", "/version")).status == 503
    assert await server.http(container(), 9999, Call("GET", "/health")) is None


@pytest.mark.parametrize(
    ("path", "given", "text"),
    [
        ("/v1/completions", {"prompt": "who keeps watch?"}, lambda c: c["text"]),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "hello"}]},
            lambda c: c["message"]["content"],
        ),
    ],
)
async def test_it_completes(path: str, given: Object, text: Any) -> None:
    server = ModelServer()
    answer = await ask(server, container(), "POST", path, {"model": "chat", "max_tokens": 5, **given})
    body = json.loads(answer.body)
    assert answer.status == 200
    assert len(text(body["choices"][0]).split()) == body["usage"]["completion_tokens"] == 5
    again = json.loads((await ask(server, container(), "POST", path, {"max_tokens": 5, **given})).body)
    assert again["choices"] == body["choices"], "the same question has the same answer"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "not JSON"),
        ({"max_tokens": 3}, 400, "prompt is required"),
        ({"prompt": "x", "model": "other"}, 404, "The model `other` does not exist."),
    ],
)
async def test_it_refuses_what_it_cannot_answer(body: Any, status: int, said: str) -> None:
    answer = await ask(ModelServer(), container(), "POST", "/v1/completions", body)
    assert answer.status == status
    assert said in json.loads(answer.body)["error"]["message"]


def metrics(text: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name.partition("{")[0]: float(value) for name, _, value in lines}


async def test_its_metrics_tell_its_load_and_count_calls() -> None:
    server = ModelServer()
    before = metrics((await ask(server, container(), "GET", "/metrics")).body.decode())
    assert before["vllm:num_requests_running"] == in_flight(container()) > 0
    assert before["vllm:request_success_total"] == 320
    await ask(server, container(), "POST", "/v1/completions", {"prompt": "x", "max_tokens": 7})
    after = metrics((await ask(server, container(), "GET", "/metrics")).body.decode())
    assert after["vllm:request_success_total"] == 321
    assert after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"] == 7
    assert (
        metrics((await ask(server, container(None), "GET", "/metrics")).body.decode())["vllm:num_requests_running"] == 0
    )


def test_a_server_that_is_to_stop_works_off_what_it_has() -> None:
    flights = [in_flight(container(stop_s=200.0, at_s=at)) for at in (200.0, 201.0, 202.0, 203.0)]
    assert flights[0] == in_flight(container(at_s=200.0)) > 0
    assert flights == sorted(flights, reverse=True)
    assert flights[-1] == 0


def test_its_log_ends_with_the_latest_report() -> None:
    lines = ModelServer().log(container(at_s=161.0))
    assert lines[-1][0] == BEGAN + 160
    assert "Running:" in lines[-1][1]
    assert any("Application startup complete" in text for _, text in lines)
    assert lines == sorted(lines, key=lambda line: line[0])
    warming = ModelServer().log(container(None, at_s=30.0))
    assert [text.split()[1] for _, text in warming] == ["Initializing", "Starting"]
