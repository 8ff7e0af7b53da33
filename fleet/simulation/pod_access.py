"""Ways into pods over HTTP: the proxy subresource of pods and services, and a container's log.

Owns finding the container, and what the API server says when nobody answers. Must not know what a program answers;
programs.py does. Commands in containers are pod_exec.py's.
"""

import random
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

from fleet.simulation.clock import Clock, micro_stamp, parse_stamp
from fleet.simulation.exchange import Reply, Request, Target
from fleet.simulation.programs import Call, Container, Line, Programs
from fleet.simulation.refusals import ApiError, bad_request, invalid, invalid_value
from fleet.simulation.store import Store

Object = dict[str, Any]

NAMED = re.compile(r"(?:(?P<scheme>https?):)?(?P<name>[^:]+)(?::(?P<port>[^:]*))?")
SILENT = "sim/down"  # annotation of a node that does not answer
DIAL_TIMEOUT_S = 30.0
FOLLOW_EVERY_S = 0.5
KUBELET_PORT = 10250
PLAIN = "text/plain"
# Headers of the caller that are for the API server alone.
OWN_HEADERS = frozenset({"authorization", "host", "content-length", "connection", "accept-encoding"})


class PodAccess:
    """Speaks with the containers of one cluster."""

    def __init__(self, store: Store, programs: Programs) -> None:
        self.store = store
        self.programs = programs
        self._rng = random.Random(1)  # noqa: S311 -- for picking an endpoint

    @property
    def clock(self) -> Clock:
        return self.store.clock

    # Proxy

    async def proxy(self, request: Request, target: Target) -> Reply:
        """Pass the request on to a pod, or to a ready pod of a service; ApiError 400, 404, 503."""
        path = request.path.partition("/proxy")[2]
        if not path and request.method in {"GET", "HEAD"}:
            query = f"?{urlencode(request.query)}" if request.query else ""
            return Reply(301, b"", PLAIN, {"location": f"{request.path}/{query}"})
        found = NAMED.fullmatch(target.name)
        if found is None:
            raise bad_request(f'invalid {target.resource.singular} request "{target.name}"')
        name, port = found["name"], found["port"] or ""
        if target.plural == "services":
            pod, number = self._endpoint(target.namespace, name, port, target.name)
        else:
            pod = self.store.get("pods", target.namespace, name)
            number = _pod_port(pod, port)
        return await self._ask(pod, number, request, path or "/")

    def _endpoint(self, namespace: str, name: str, port: str, asked: str) -> tuple[Object, int]:
        """A ready pod behind the service and the port there."""
        service = self.store.get("services", namespace, name)
        if port.isdigit():
            named = [p.get("name", "") for p in service["spec"].get("ports") or () if p["port"] == int(port)]
            if not named:
                raise _unavailable(f'no service port {port} found for service "{name}"')
            port = named[0]
        slices = self.store.list("endpointslices", namespace, {"kubernetes.io/service-name": name})
        if not any(s.get("endpoints") for s in slices):
            raise _unavailable(f'no endpoints available for service "{name}"')
        for found in slices:
            ready = [e for e in found.get("endpoints") or () if e["conditions"].get("ready")]
            number = next((p["port"] for p in found.get("ports") or () if p.get("name", "") == port), None)
            if ready and number is not None:
                chosen = self._rng.choice(ready)["targetRef"]
                return self.store.get("pods", namespace, chosen["name"]), number
        raise _unavailable(f'no endpoints available for service "{asked}"')

    async def _ask(self, pod: Object, port: int, request: Request, path: str) -> Reply:
        ip = pod["status"].get("podIP")
        if not ip:
            raise bad_request("address not allowed")
        if self._is_down(pod):
            await self.clock.sleep(DIAL_TIMEOUT_S)
            raise _unavailable(f"error trying to reach service: dial tcp {ip}:{port}: i/o timeout")
        headers = {k: v for k, v in request.headers.items() if k not in OWN_HEADERS}
        call = Call(request.method, path, urlencode(request.query), headers, request.body)
        for spec in pod["spec"]["containers"]:
            container = self.running(pod, spec["name"])
            answer = await self.programs.of(spec).http(container, port, call) if container else None
            if answer is not None:
                return Reply(answer.status, answer.body, answer.content_type, answer.headers)
        raise _unavailable(f"error trying to reach service: dial tcp {ip}:{port}: connect: connection refused")

    def _is_down(self, pod: Object) -> bool:
        record = self.store.shelf("nodes").records.get(pod["spec"].get("nodeName", ""))
        annotations = (record.object["metadata"].get("annotations") or {}) if record else {}
        return annotations.get(SILENT) == "true"

    # Containers

    def running(self, pod: Object, name: str) -> Container | None:
        """The container while it runs."""
        state = _status_of(pod, name).get("state", {}).get("running")
        if state is None:
            return None
        spec = next(c for c in pod["spec"]["containers"] if c["name"] == name)
        return Container(pod, spec, parse_stamp(state["startedAt"]), self.clock.now())

    def check_reachable(self, pod: Object, path: str) -> None:
        """ApiError 500 when the kubelet of the pod's node does not answer."""
        if not self._is_down(pod):
            return
        address = f"{pod['status'].get('hostIP', '')}:{KUBELET_PORT}"
        why = f'Get "https://{address}/{path}": dial tcp {address}: connect: connection refused'
        raise ApiError(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})

    # Log

    def log(self, request: Request, target: Target) -> Reply:
        """A container's log; with `follow` until the container ends. ApiError 400, 404, 422, 500."""
        pod = self.store.get("pods", target.namespace, target.name)
        _check_log_options(request)
        name = chosen_container(pod, request.query.get("container", ""))
        if not pod["spec"].get("nodeName"):
            return Reply(204, b"", PLAIN)
        self.check_reachable(pod, f"containerLogs/{target.namespace}/{target.name}/{name}")
        if request.query.get("previous") and request.flag("previous"):
            return Reply(
                200,
                _limited(_written(_chosen(self._before(pod, name), request, self.clock.now()), request), request),
                PLAIN,
            )
        container = self.running(pod, name)
        if container is None:
            return self._silent_log(pod, name)
        lines = _chosen(self.programs.of(container.spec).log(container), request, container.now)
        follow = request.flag("follow") if "follow" in request.query else False
        body = _limited(_written(lines, request), request)
        more = self._follow(pod, name, request) if follow else None
        return Reply(200, body, PLAIN, more=more)

    def _before(self, pod: Object, name: str) -> list[Line]:
        """What the last run of a container wrote. ApiError 400 when it has had none."""
        status = _status_of(pod, name)
        ended = (status.get("lastState") or {}).get("terminated")
        if ended is None:
            raise bad_request(f'previous terminated container "{name}" in pod "{pod["metadata"]["name"]}" not found')
        spec = next(c for c in pod["spec"]["containers"] if c["name"] == name)
        end_at = parse_stamp(ended["finishedAt"])
        container = Container(pod, spec, parse_stamp(ended["startedAt"]), end_at)
        lines = [line for line in self.programs.of(spec).log(container) if line[0] <= end_at]
        return [*lines, (end_at, f"{name} ends with exit code {ended['exitCode']}")]

    @staticmethod
    def _silent_log(pod: Object, name: str) -> Reply:
        state = _status_of(pod, name).get("state", {})
        if "terminated" in state:
            return Reply(200, b"", PLAIN)
        why = state.get("waiting", {}).get("reason", "ContainerCreating")
        raise bad_request(f'container "{name}" in pod "{pod["metadata"]["name"]}" is waiting to start: {why}')

    async def _follow(self, pod: Object, name: str, request: Request) -> AsyncIterator[bytes]:
        """What is written from now on, while the container runs."""
        metadata = pod["metadata"]
        key, uid = f"{metadata['namespace']}/{metadata['name']}", metadata["uid"]
        container = self.running(pod, name)
        seen = len(self.programs.of(container.spec).log(container)) if container else 0
        while container is not None:
            await self.clock.sleep(FOLLOW_EVERY_S)
            record = self.store.shelf("pods").records.get(key)
            if record is None or record.object["metadata"]["uid"] != uid:
                return
            container = self.running(record.object, name)
            lines = self.programs.of(container.spec).log(container) if container else []
            if lines[seen:]:
                yield _written(lines[seen:], request)
                seen = len(lines)


def _pod_port(pod: Object, asked: str) -> int:
    """As asked, else the first port that the pod declares, else 80."""
    if asked and not asked.isdigit():
        raise _unavailable(f"error trying to reach service: dial tcp: lookup tcp/{asked}: unknown port")
    if asked:
        return int(asked)
    declared = [p["containerPort"] for c in pod["spec"]["containers"] for p in c.get("ports") or ()]
    return declared[0] if declared else 80


def _status_of(pod: Object, name: str) -> Object:
    statuses = pod["status"].get("containerStatuses") or ()
    found: Object = next((s for s in statuses if s["name"] == name), {})
    return found


def chosen_container(pod: Object, asked: str) -> str:
    """The container that is meant; ApiError 400 when there is none of that name, or several and none was named."""
    names = [c["name"] for c in pod["spec"]["containers"]]
    pod_name = pod["metadata"]["name"]
    if asked and asked not in names:
        raise bad_request(f"container {asked} is not valid for pod {pod_name}")
    if not asked and len(names) > 1:
        listed = " ".join(names)
        raise bad_request(f"a container name must be specified for pod {pod_name}, choose one of: [{listed}]")
    return asked or names[0]


def _unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)


def _check_log_options(request: Request) -> None:
    causes = []
    for option, least in (("tailLines", 0), ("sinceSeconds", 1), ("limitBytes", 1)):
        value = request.number(option)
        if value is not None and value < least:
            causes.append(invalid_value(option, value, f"must be greater than {'or equal to ' if not least else ''}0"))
    if causes:
        raise invalid("PodLogOptions", "", causes)


def _chosen(lines: list[Line], request: Request, now: float) -> list[Line]:
    since, tail = request.number("sinceSeconds"), request.number("tailLines")
    if since is not None:
        lines = [line for line in lines if line[0] >= now - since]
    return lines if tail is None else lines[len(lines) - tail if tail < len(lines) else 0 :]


def _written(lines: list[Line], request: Request) -> bytes:
    stamped = request.flag("timestamps") if "timestamps" in request.query else False
    return "".join(f"{micro_stamp(at)} {text}\n" if stamped else f"{text}\n" for at, text in lines).encode()


def _limited(body: bytes, request: Request) -> bytes:
    most = request.number("limitBytes")
    return body if most is None else body[:most]
