"""Runs the rehearsal cluster: a Kubernetes API with a living GPU fleet behind it, on loopback, until it is told to stop."""

import asyncio
import gc
import signal
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import BaseCommand

from fleet.simulation.clock import RealClock
from fleet.simulation.rehearsal import Rehearsal, listening
from fleet.simulation.scenarios.stage import StageError


class Command(BaseCommand):
    help = "Run the rehearsal cluster. Prints 'ready URL' when it serves; its kubeconfig is HOME/kubeconfig."
    requires_system_checks: list[str] = []  # noqa: RUF012 -- as Django declares it

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--home", type=Path, required=True, help="folder for the kubeconfig and what trainers save (claims/)"
        )
        parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any free one)")
        parser.add_argument("--page-port", type=int, default=0, help="port of its page (default: any free one)")
        parser.add_argument("--nodes", type=int, default=24, help="GPU nodes of 8 GPUs each")
        parser.add_argument("--pods", type=int, default=None, help="fill up with small servers to so many pods")
        parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same fleet")
        parser.add_argument("--churn", type=float, default=0.0, help="changes a second on top (needs --pods)")
        parser.add_argument(
            "--readings-to", default="", metavar="URL", help="where the agents on its nodes post readings"
        )
        parser.add_argument(
            "--objects", default="", metavar="URL", help="S3 server that trainers save to, where they name a bucket"
        )
        parser.add_argument("--story", action="append", default=[], metavar="NAME", help="scenario to begin with")
        parser.add_argument("--speed", type=float, default=1.0, help="how much faster than the wall clock")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        if options["nodes"] < 1 or options["speed"] <= 0:
            self._refuse("--nodes must be at least 1 and --speed above 0")
        try:
            asyncio.run(self._serve(**options))
        except OSError as error:
            self._refuse(_explained(error, options["home"]))
        except (ValueError, StageError) as error:
            self._refuse(str(error))

    def _refuse(self, why: str) -> NoReturn:
        self.stderr.write(f"rehearsal: {why}")
        raise SystemExit(2)

    async def _serve(self, home: Path, port: int, nodes: int, seed: int, speed: float, **more: Any) -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        gc.disable()  # what is made until then stays: collecting in between only takes time
        rehearsal = Rehearsal(seed, RealClock(speed), nodes, more["pods"], churn=more["churn"])
        if rehearsal.trainings is not None:
            rehearsal.trainings.places.objects = more["objects"]
        gc.freeze()  # the seeded fleet lives as long as the process: never search it for garbage
        gc.enable()
        async with listening(rehearsal, home, port, more["page_port"], more["readings_to"]) as ports:
            for story in more["story"]:
                await ports.stage.start(story)
            self.stdout.write(f"ready {ports.server.url}")
            self.stdout.write(f"page {ports.page.link()}")
            self.stdout.flush()
            await stopping.wait()


def _explained(error: OSError, home: Path) -> str:
    """One line that says what to change."""
    if error.filename is None:
        return f"cannot listen on 127.0.0.1 at the port that was asked for: {error.strerror}"
    return f"cannot write in {home}: {error.strerror}"
