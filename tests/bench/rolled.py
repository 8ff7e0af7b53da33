"""Who watches many rollouts at once: the API server's own watch beside one socket of the Rollouts page, in a process of its own.

    python -m tests.bench.rolled KUBECONFIG ADDRESS COOKIE CLUSTER NAMESPACE

Prints "open" when both have their beginning, goes on until its standard input is closed, and then prints one line of JSON: per
rollout what the API server said of it and what the socket did, each as [seconds since 1970, its state].
"""

import asyncio
import json
import ssl
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import msgspec
import yaml
from websockets.asyncio.client import connect

from fleet.domain import kube
from fleet.domain.kube import Kind
from fleet.domain.objects import Deployment
from fleet.domain.rollouts import progress
from fleet.simulation.scenarios.hand import path

State = list[Any]  # verdict, step, have, want and available, as a row of the picture has them
FIELDS = ("verdict", "step", "have", "want", "available")
Heard = dict[str, list[tuple[float, State]]]


def state(found: Deployment) -> State:
    stands = progress(found)
    return [stands.verdict.value, stands.step.value, stands.have, stands.want, found.status.available_replicas]


def note(heard: Heard, key: str, at: float, news: State) -> None:
    entries = heard.setdefault(key, [])
    if not entries or entries[-1][1] != news:
        entries.append((at, news))


class Watch:
    """Of the Deployments of one namespace, straight from the API server."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        document = yaml.safe_load(Path(kubeconfig).read_text())
        self.server = document["clusters"][0]["cluster"]["server"]
        self.headers = {"authorization": f"Bearer {document['users'][0]['user']['token']}"}
        self.where = path("deployments", namespace)
        self.heard: Heard = {}

    async def follow(self, opened: asyncio.Event) -> None:
        insecure = ssl._create_unverified_context()
        async with httpx.AsyncClient(base_url=self.server, headers=self.headers, verify=insecure) as client:
            listed = kube.page(Kind.DEPLOYMENT, (await client.get(self.where)).content)
            for found in listed.objects:
                self._note(found)
            options = {"watch": "true", "resourceVersion": listed.resource_version, "timeoutSeconds": "600"}
            async with client.stream("GET", self.where, params=options, timeout=None) as stream:
                opened.set()
                async for line in stream.aiter_lines():
                    event = kube.watch_line(Kind.DEPLOYMENT, line.encode())
                    assert isinstance(event, kube.Changed), event
                    self._note(event.object)

    def _note(self, found: Any) -> None:
        note(self.heard, f"Deployment/{found.key}", time.time(), state(found))


class Page:
    """What the socket of the Rollouts page tells of one namespace."""

    def __init__(self, address: str, cookie: str, cluster: str, namespace: str) -> None:
        self.address, self.cookie, self.cluster = address, cookie, cluster
        self.prefix = f"Deployment/{namespace}/"
        self.known: dict[str, dict[str, Any]] = {}
        self.heard: Heard = {}
        self.frames = self.characters = 0

    async def follow(self, opened: asyncio.Event) -> None:
        origin = self.address.replace("ws", "http", 1).removesuffix("/ws/")
        headers = {"cookie": self.cookie}
        async with connect(
            self.address, origin=origin, additional_headers=headers, max_size=None, proxy=None
        ) as socket:
            await socket.send(json.dumps({"cluster": self.cluster, "view": {"screen": "rollouts"}}))
            async for text in socket:
                self._hear(str(text), time.time())
                opened.set()

    def _hear(self, text: str, at: float) -> None:
        self.frames, self.characters = self.frames + 1, self.characters + len(text)
        found = msgspec.json.decode(text).get("tables", {}).get("rollouts", {})
        changed = _columns(found["groups"]) if "groups" in found else found
        for key, row in changed.items():
            if key.startswith(self.prefix):
                mine = self.known.setdefault(key, {})
                mine.update(row)
                note(self.heard, key, at, [mine[field] for field in FIELDS])


def _columns(groups: Any) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for group in groups:
        for i, key in enumerate(group["ids"]):
            found.setdefault(key, {}).update({field: values[i] for field, values in group["set"].items()})
    return found


async def main(kubeconfig: str, address: str, cookie: str, cluster: str, namespace: str) -> None:
    watch, page = Watch(kubeconfig, namespace), Page(address, cookie, cluster, namespace)
    both = [asyncio.Event(), asyncio.Event()]
    following = [asyncio.create_task(one.follow(opened)) for one, opened in zip((watch, page), both, strict=True)]
    await asyncio.gather(*(opened.wait() for opened in both))
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    told = {"server": watch.heard, "page": page.heard, "frames": page.frames, "characters": page.characters}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
