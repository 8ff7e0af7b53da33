"""What a model server answers: health, its version, the model that it serves, completions, and metrics with vLLM's names.

Its load comes from nobody in particular: so many requests a second while it is ready, drained when it is to stop. Must not
touch the store; what it counts, it forgets with its container.
"""

import hashlib
import json
import math
from typing import Any

from fleet.simulation import podstatus
from fleet.simulation.clock import parse_stamp
from fleet.simulation.programs import Answer, Call, Container, Line, PlainProgram, Programs

Object = dict[str, Any]

IMAGES = ("llm-server", "embedding-server", "rerank-server", "ocr-server", "search-server")
REQUESTS_PER_S = 3.2  # to one replica, on average
REQUEST_S = 2.5  # how long one takes
PROMPT_TOKENS, ANSWER_TOKENS = 420, 96  # of one, on average
SWING_S = 600.0  # load rises and falls by a half in so long
REPORT_EVERY_S = 10.0
LATEST_REPORTS = 200
JSON = "application/json"
WORDS = ("the", "watch", "of", "a", "quiet", "fleet", "is", "kept", "by", "many", "small", "lamps")


class ModelServer(PlainProgram):
    """One image; calls that came through the API are counted on top of the load."""

    def __init__(self) -> None:
        self._answered: dict[tuple[str, float], tuple[int, int]] = {}  # container → requests, tokens

    async def page(self, container: Container, call: Call) -> Answer:
        match call.method, call.path:
            case "GET", "/v1/models":
                return _unready() if not _is_up(container) else _json(self._models(container))
            case "GET", "/version":
                return _unready() if not _is_up(container) else _json({"version": version_of(container)})
            case "GET", "/load":
                return _json({"server_load": in_flight(container)})
            case "POST", "/v1/completions" | "/v1/chat/completions":
                return _unready() if not _is_up(container) else self._complete(container, call)
            case _:
                return await super().page(container, call)

    @staticmethod
    def _models(container: Container) -> Object:
        shown = {"id": model_of(container), "object": "model", "created": int(container.started_at), "owned_by": "vllm"}
        return {"object": "list", "data": [shown]}

    def _complete(self, container: Container, call: Call) -> Answer:
        try:
            asked = json.loads(call.body)
        except ValueError:
            return _error(400, "BadRequestError", "the body is not JSON")
        chat = call.path.startswith("/v1/chat")
        given = asked.get("messages" if chat else "prompt") if isinstance(asked, dict) else None
        if not given:
            return _error(400, "BadRequestError", f"{'messages' if chat else 'prompt'} is required")
        model = model_of(container)
        if asked.get("model", model) != model:
            return _error(404, "NotFoundError", f"The model `{asked['model']}` does not exist.")
        count = min(int(asked.get("max_tokens") or 16), ANSWER_TOKENS)
        prompt = json.dumps(given)
        text = _text(prompt, count)
        self._count(container, count)
        used = {"prompt_tokens": len(prompt.split()), "completion_tokens": count}
        said = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        body = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{hashlib.sha256(prompt.encode()).hexdigest()[:24]}",
            "object": "chat.completion" if chat else "text_completion",
            "created": int(container.now),
            "model": model,
            "choices": [{"index": 0, **said, "finish_reason": "length"}],
            "usage": {**used, "total_tokens": sum(used.values())},
        }
        return _json(body)

    def _count(self, container: Container, tokens: int) -> None:
        key = (container.pod["metadata"]["uid"], container.started_at)
        requests, before = self._answered.get(key, (0, 0))
        self._answered[key] = (requests + 1, before + tokens)

    def metrics(self, container: Container) -> str:
        calls, tokens = self._answered.get((container.pod["metadata"]["uid"], container.started_at), (0, 0))
        done = answered(container)
        running = in_flight(container)
        shown = (
            ("vllm:num_requests_running", "gauge", running),
            ("vllm:num_requests_waiting", "gauge", max(0, running - 8)),
            ("vllm:kv_cache_usage_perc", "gauge", round(min(1.0, running / 16), 4)),
            ("vllm:request_success_total", "counter", done + calls),
            ("vllm:prompt_tokens_total", "counter", done * PROMPT_TOKENS),
            ("vllm:generation_tokens_total", "counter", done * ANSWER_TOKENS + tokens),
        )
        label = f'{{model_name="{model_of(container)}"}}'
        lines = [f"# TYPE {name} {kind}\n{name}{label} {value}\n" for name, kind, value in shown]
        return super().metrics(container) + "".join(lines)

    def log(self, container: Container) -> list[Line]:
        """Its start, and a report every ten seconds while it is up."""
        begun, model = container.started_at, model_of(container)
        lines = [
            (begun, f"INFO Initializing an LLM engine: model={model!r}, tensor_parallel_size={_gpus(container)}"),
            (begun + 0.4, "INFO Starting to load model"),
        ]
        ready_at = _ready_at(container)
        if ready_at is None:
            return [line for line in lines if line[0] <= container.now]
        lines += [
            (ready_at - 0.2, f"INFO Model loading took {max(0.0, ready_at - begun):.1f} seconds"),
            (ready_at, "INFO:     Application startup complete."),
        ]
        count = int((container.now - ready_at) // REPORT_EVERY_S)
        for i in range(max(1, count - LATEST_REPORTS), count + 1):
            at = ready_at + i * REPORT_EVERY_S
            running = round(_load(container, at) * REQUEST_S)
            speed = _load(container, at) * ANSWER_TOKENS
            lines.append(
                (at, f"INFO Avg generation throughput: {speed:.1f} tokens/s, Running: {running} reqs, Waiting: 0 reqs")
            )
        return lines


def model_of(container: Container) -> str:
    labels = container.pod["metadata"].get("labels") or {}
    return str(labels.get("app", container.spec["name"]))


def version_of(container: Container) -> str:
    """The tag of its image."""
    return str(container.spec["image"]).rpartition("/")[2].partition(":")[2] or "latest"


def in_flight(container: Container) -> int:
    """Requests that it works on now; one that is to stop gets no new ones and ends those that it has."""
    since = _ready_at(container)
    if since is None:
        return 0
    asked_at = _asked_to_stop_at(container)
    if asked_at is None:
        return round(_load(container, container.now) * REQUEST_S)
    left = max(0.0, 1.0 - (container.now - asked_at) / REQUEST_S)
    return round(_load(container, asked_at) * REQUEST_S * left)


def answered(container: Container) -> int:
    """Requests answered since it was up."""
    since = _ready_at(container)
    until = _asked_to_stop_at(container) or container.now
    return 0 if since is None else max(0, int((until - since) * REQUESTS_PER_S))


def _load(container: Container, at: float) -> float:
    """Requests a second."""
    return REQUESTS_PER_S * 1.5 * load_share(container.pod, at)


def load_share(pod: Object, at: float) -> float:
    """Its load as a share of the highest that it ever has: each server's swings have their own phase."""
    lot = int(pod["metadata"]["uid"][:8], 16) / 0xFFFFFFFF
    return (1 + 0.5 * math.sin(2 * math.pi * (at / SWING_S + lot))) / 1.5


def _is_up(container: Container) -> bool:
    return podstatus.is_ready(container.pod) or podstatus.is_terminating(container.pod)


def _ready_at(container: Container) -> float | None:
    """Since when it serves; one that is to stop has served until it was asked."""
    found = podstatus.condition(container.pod["status"], "Ready")
    if found is None:
        return None
    if found["status"] == "True":
        return max(container.started_at, parse_stamp(found["lastTransitionTime"]))
    return container.started_at if podstatus.is_terminating(container.pod) else None


def _asked_to_stop_at(container: Container) -> float | None:
    metadata = container.pod["metadata"]
    if "deletionTimestamp" not in metadata:
        return None
    return parse_stamp(metadata["deletionTimestamp"]) - float(metadata.get("deletionGracePeriodSeconds", 0))


def _gpus(container: Container) -> int:
    return int((container.spec.get("resources") or {}).get("limits", {}).get("nvidia.com/gpu", 1))


def _text(prompt: str, tokens: int) -> str:
    digest = hashlib.sha256(prompt.encode()).digest()
    return " ".join(WORDS[digest[i % len(digest)] % len(WORDS)] for i in range(tokens))


def _json(body: Object, status: int = 200) -> Answer:
    return Answer(status, json.dumps(body).encode(), JSON)


def _error(status: int, kind: str, message: str) -> Answer:
    return _json({"error": {"message": message, "type": kind, "code": status}}, status)


def _unready() -> Answer:
    return Answer(503, b"warming up")


def register(programs: Programs) -> None:
    for image in IMAGES:
        programs.register(image, ModelServer())
