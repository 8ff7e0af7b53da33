"""Many people with the Fleet page open: sockets that read whatever comes, in a process of their own.

    python -m tests.bench.viewers ADDRESS COOKIE CLUSTER COUNT NODE

Prints "open" when every socket has its snapshot, goes on until its standard input is closed, and then prints one line of JSON:
how many frames and characters came in how many seconds, how many sockets were closed on, and per socket when others came to hold
the GPUs of NODE, as [seconds since 1970, their names].
"""

import asyncio
import functools
import json
import resource
import sys
import time
from dataclasses import dataclass, field

import msgspec
from websockets.asyncio.client import connect

AT_ONCE = 20  # handshakes


@dataclass
class Viewer:
    """One socket and what it heard."""

    node: str
    seen: list[tuple[float, list[str]]] = field(default_factory=list)
    frames: int = 0
    characters: int = 0
    closed: bool = False
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def look(self, address: str, cookie: str, hello: str) -> None:
        """Read until cancelled; `opened` is set with the first frame, which is the snapshot."""
        origin, headers = address.replace("ws", "http", 1).removesuffix("/ws/"), {"cookie": cookie}
        try:
            async with connect(
                address, origin=origin, additional_headers=headers, max_size=None, open_timeout=60, proxy=None
            ) as socket:
                await socket.send(hello)
                async for text in socket:
                    self._hear(str(text))
        finally:
            self.closed = True
            self.opened.set()

    def _hear(self, text: str) -> None:
        self.opened.set()
        self.frames += 1
        self.characters += len(text)
        holders = holders_of(text, self.node)
        if holders is not None:
            self.seen.append((time.time(), holders))


@functools.lru_cache(maxsize=64)
def holders_of(text: str, node: str) -> list[str] | None:
    """Who holds the node's GPUs, where a frame tells it. Everybody gets the same frames, so each is looked into once."""
    if node not in text:
        return None
    nodes = msgspec.json.decode(text)["tables"].get("nodes", {})
    for group in nodes.get("groups", ()):
        if node in group["ids"] and "gpu_workloads" in group["set"]:
            return list(group["set"]["gpu_workloads"][group["ids"].index(node)])
    return None


async def main(address: str, cookie: str, cluster: str, count: int, node: str) -> None:
    hello, turn = json.dumps({"cluster": cluster, "view": {"screen": "fleet"}}), asyncio.Semaphore(AT_ONCE)
    viewers = [Viewer(node) for _ in range(count)]
    looking: list[asyncio.Task[None]] = []

    async def enter(viewer: Viewer) -> None:
        async with turn:
            looking.append(asyncio.create_task(viewer.look(address, cookie, hello)))
            await viewer.opened.wait()

    await asyncio.gather(*map(enter, viewers))
    frames, characters = sum(v.frames for v in viewers), sum(v.characters for v in viewers)
    began = time.time()
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    heard = {
        "seconds": time.time() - began,
        "frames": sum(v.frames for v in viewers) - frames,
        "characters": sum(v.characters for v in viewers) - characters,
        "closed": sum(v.closed for v in viewers),
        "seen": [v.seen for v in viewers],
    }
    for task in looking:
        task.cancel()
    await asyncio.gather(*looking, return_exceptions=True)
    print(json.dumps(heard), flush=True)


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    address, cookie, cluster, count, node = sys.argv[1:]
    asyncio.run(main(address, cookie, cluster, int(count), node))
