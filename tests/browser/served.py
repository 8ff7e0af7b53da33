"""A running Vigie without a cluster: the real web server in a thread, over a picture that a test writes by hand.

python -m tests.browser.served HOME      serves the demo fleet until interrupted, for pictures and for looking around
"""

import asyncio
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import uvicorn

from fleet.domain.picture import Snapshot

HOLDER = "the test"


class Announcing(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[uvicorn.Server], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening(self)


class Served:
    """Vigie at `url`. `show` publishes a snapshot as the watch worker would; a pulse follows every second while `alive`."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.url = ""
        self.alive = True
        self.at_offset_s = 0.0  # how much older than now the pulses say that the picture is
        self.trouble: tuple[tuple[str, str, float], ...] = ()
        self._snapshot: Snapshot | None = None
        self._n = 0
        self._epoch = 0
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="served", daemon=True)
        self._thread.start()
        if not self._ready.wait(20):
            raise RuntimeError("the web server did not start")
        self.keep_fresh()

    def keep_fresh(self) -> None:
        """Without `start`: a further cluster of a server that runs already."""
        threading.Thread(target=self._beat, name="pulse", daemon=True).start()

    async def _serve(self) -> None:
        from dashboard.asgi import application
        from fleet import live

        live.attach(asyncio.get_running_loop())
        config = uvicorn.Config(
            application, host="127.0.0.1", port=0, log_level="warning", access_log=False, timeout_graceful_shutdown=1
        )
        self._server = Announcing(config, self._listening)
        await self._server.serve()

    def _listening(self, server: uvicorn.Server) -> None:
        self.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        self._ready.set()

    @property
    def snapshot(self) -> Snapshot:
        """What is shown."""
        assert self._snapshot is not None
        return self._snapshot

    def show(self, snapshot: Snapshot) -> None:
        from fleet import live
        from fleet.domain import changes
        from fleet.domain.changes import Version

        with self._lock:
            store = live.picture()
            if not self._epoch:
                lease = store.acquire(self.cluster, HOLDER, 1e6)
                assert lease is not None
                self._epoch = lease.epoch
            delta = None if self._snapshot is None else changes.diff(self._snapshot, snapshot)
            self._n += 1
            self._snapshot = snapshot
            assert store.publish(self.cluster, Version(self._epoch, self._n), delta, snapshot)
        self.pulse()

    def pulse(self) -> None:
        from fleet import live
        from fleet.domain.changes import Version
        from fleet.live import Pulse

        with self._lock:
            if self._snapshot is not None:
                now = time.time()
                pulse = Pulse(now - self.at_offset_s, self.trouble, now)
                live.picture().pulse(self.cluster, Version(self._epoch, self._n), pulse)

    def _beat(self) -> None:
        while not self._stop.wait(1.0):
            if self.alive:
                self.pulse()

    def stop(self) -> None:
        self._stop.set()
        assert self._server is not None
        self._server.should_exit = True
        self._thread.join(10)


def kubeconfig(folder: Path, *clusters: str) -> Path:
    path = folder / "kubeconfig"
    path.write_text("contexts: [" + ", ".join(f"{{name: {name}}}" for name in clusters) + "]\n")
    return path


def main(home: str) -> None:
    folder = Path(home)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "dashboard.settings",
        "VIGIE_HOME": home,
        "VIGIE_KUBECONFIG": str(kubeconfig(folder, "par-prod-1", "hel-train-2")),
    }
    import django

    django.setup()
    from django.core.management import call_command

    from dashboard import accounts
    from dashboard.access import Role
    from tests.browser import demo, demo_gpus, demo_ledger

    call_command("migrate", verbosity=0)
    try:
        accounts.add("operator", Role.OPERATOR, "operator", rehearsal=True)
    except accounts.AccountError:
        print("the account operator is there already", file=sys.stderr)
    served = Served(demo.CLUSTER)
    served.start()
    served.show(demo_gpus.attentive(demo.snapshot(time.time()), time.time()))
    demo_ledger.write(demo.CLUSTER, served.snapshot, time.time())
    large = Served("hel-train-2")
    large.show(demo.large(now=time.time()))
    large.keep_fresh()
    print(served.url, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
