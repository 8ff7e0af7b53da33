"""Starts and stops the scenarios of the rehearsal cluster that runs here, and says how they stand."""

import base64
import json
import ssl
import urllib.error
import urllib.request
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml
from django.conf import settings
from django.core.management.base import BaseCommand

WITHIN_S = 60.0
Object = dict[str, Any]


class UnreachableError(Exception):
    """No rehearsal answers; the text says why."""


@dataclass(frozen=True)
class Switchboard:
    """The rehearsal's own interface, found by its kubeconfig."""

    url: str
    token: str
    trust: ssl.SSLContext

    @classmethod
    def of(cls, kubeconfig: Path) -> "Switchboard":
        """UnreachableError when there is no such file or it names no server."""
        try:
            found = yaml.safe_load(kubeconfig.read_text())
            cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
            authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
            return cls(cluster["server"], user["token"], ssl.create_default_context(cadata=authority))
        except (OSError, KeyError, IndexError, TypeError, ValueError, yaml.YAMLError) as error:
            raise UnreachableError(f"no rehearsal's kubeconfig at {kubeconfig}: is `make up` running?") from error

    def call(self, method: str, path: str, body: Object | None = None) -> Object:
        """UnreachableError when nothing answers, ValueError with the reason of a refusal."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        address = f"{self.url}/rehearsal/{path}"
        request = urllib.request.Request(address, data, headers, method=method)  # noqa: S310 -- the kubeconfig's https
        try:
            with urllib.request.urlopen(request, timeout=WITHIN_S, context=self.trust) as answer:  # noqa: S310
                found: Object = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            raise ValueError(_reason(error)) from error
        except OSError as error:
            raise UnreachableError(f"no rehearsal answers at {self.url}: {error}") from error


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError):
        return f"refused with status {error.code}"


def _kubeconfig(home: Path) -> Path:
    """That of the rehearsal in `home`, or of the one that `make up` keeps below it."""
    below = home / "rehearsal" / "kubeconfig"
    return below if below.exists() else home / "kubeconfig"


class Command(BaseCommand):
    help = "Stories to practise on, played by the rehearsal cluster that runs here."
    requires_system_checks: list[str] = []  # noqa: RUF012 -- as Django declares it

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--home", type=Path, default=None, help="the rehearsal's folder (default: VIGIE_HOME)")
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="all scenarios and what they are about")
        actions.add_parser("status", help="those that are on, and what has happened")
        for verb, what in (("start", "begin a scenario"), ("stop", "end a scenario and undo it")):
            actions.add_parser(verb, help=what).add_argument("name")
        actions.add_parser("page", help="a link to the rehearsal's page, good once")
        actions.add_parser("speed", help="how fast the cluster's time goes").add_argument("speed", type=float)

    def handle(self, *args: Any, action: str, home: Path | None, **options: Any) -> None:  # noqa: ARG002
        try:
            board = Switchboard.of(_kubeconfig(home or Path(settings.VIGIE_HOME)))
            self._do(board, action, options)
        except (UnreachableError, ValueError) as error:
            self._refuse(str(error))

    def _do(self, board: Switchboard, action: str, options: Object) -> None:
        match action:
            case "list":
                self._list(board.call("GET", "scenarios"))
            case "status":
                self._status(board.call("GET", "scenarios"))
            case "page":
                self.stdout.write(board.call("POST", "page")["link"])
            case "speed":
                now = board.call("POST", "speed", {"speed": options["speed"]})
                self.stdout.write(f"speed {now['speed']:g}")
            case _:
                self._switch(board, action, options["name"])

    def _switch(self, board: Switchboard, action: str, name: str) -> None:
        answer = board.call("POST", f"scenarios/{name}/{action}")
        found = next(s for s in answer["scenarios"] if s["name"] == name)
        if action == "stop":
            self.stdout.write(f"stopped {name}")
            self._lines(found)
            return
        self.stdout.write(f"started {name}: {found['title']}")
        self.stdout.write(f"  Unfolds within about {found['unfolds_s']:.0f} s. Look at: {found['look']}")

    def _list(self, answer: Object) -> None:
        for scenario in answer["scenarios"]:
            self.stdout.write(f"{scenario['name']:<18} {scenario['state']:<10} {scenario['title']}")

    def _status(self, answer: Object) -> None:
        self.stdout.write(f"cluster time {answer['now']}, speed {answer['speed']:g}")
        on = [s for s in answer["scenarios"] if s["state"] != "off"]
        if not on:
            self.stdout.write("no scenario is on")
        for scenario in on:
            self.stdout.write(f"{scenario['name']}: {scenario['state']}")
            self._lines(scenario)

    def _lines(self, scenario: Object) -> None:
        for line in scenario["lines"]:
            self.stdout.write(f"  {line['at'][11:19]} {line['text']}")

    def _refuse(self, why: str) -> NoReturn:
        self.stderr.write(f"scenario: {why}")
        raise SystemExit(2)
