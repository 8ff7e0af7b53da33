"""The embedded default: web, workers and beat in one process, on an in-memory broker, with nothing to install.

Owns the order of starting and stopping. Everything that runs here is the same code as deployed; only settings differ.
"""

import argparse
import asyncio
import os
import signal
import sys
import threading
from types import FrameType

import uvicorn

# A page sends a few words; the default would let anybody make us hold 16 MB for each socket.
WS_MAX_BYTES = 65_536


def proxied() -> bool:
    """Believe X-Forwarded-For only where a TLS proxy stands before us; else anybody could choose the address that is counted."""
    return os.environ.get("VIGIE_SECURE") == "1"


class Server(uvicorn.Server):
    """A web server that tells every waiting task to stop before it begins to stop itself."""

    def __init__(self, config: uvicorn.Config, stopping: threading.Event) -> None:
        super().__init__(config)
        self.stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stopping.set()
        super().handle_exit(sig, frame)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="dashboard.embedded")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args(argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    import django

    django.setup()
    asyncio.run(serve(options.host, options.port))
    return 0


async def serve(host: str, port: int) -> None:
    """Until SIGTERM or SIGINT."""
    from dashboard import celery
    from fleet import live

    config = uvicorn.Config(
        "dashboard.asgi:application",
        host=host,
        port=port,
        log_config=None,  # our own handlers take its words too, so that no secret of an address is among them
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=proxied(),
        timeout_graceful_shutdown=2,
        ws_max_size=WS_MAX_BYTES,
    )
    live.attach(asyncio.get_running_loop())
    background = celery.Background()
    # uvicorn raises the signal again when it has finished; by then our own ending is all that is left to do.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: background.stopping.set())
    background.start()
    try:
        await Server(config, background.stopping).serve()
    finally:
        await asyncio.to_thread(background.stop)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
