"""`manage.py act`: confirm a plan, follow it, stop it, through the API of the running Vigie."""

import argparse
import json
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.calls import NO_ANSWER, AwayError, Vigie

ENDED = {"succeeded", "failed", "stopped", "refused", "expired"}
LOOK_S = 1.0
PATIENCE_S = 120.0  # a restart of Vigie takes seconds


class Command(BaseCommand):
    help = (
        "Confirm, follow or stop an action through the API of the running Vigie (VIGIE_TOKEN, VIGIE_URL). "
        "Exit 1: it has ended otherwise than it should; 2: nothing was done."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="the API's last answer as it is")
        parser.add_argument("--as", dest="said", default="", help="who you are; recorded as said at a console")
        ways = parser.add_subparsers(dest="way", required=True)
        confirm = ways.add_parser("confirm", help="do what a plan says, and follow it to its end")
        confirm.add_argument("plan", help="its number: 412 or M-0412")
        confirm.add_argument("--digest", required=True, help="of the plan that you have seen, as plan prints it")
        confirm.add_argument("--typed", default="", help="the target's name, where pods have to go")
        confirm.add_argument(
            "--waive", action="append", default=[], metavar="CHECK=WHY", help="lift a check, with a reason"
        )
        confirm.add_argument("--no-wait", action="store_true", help="do not follow it")
        approve = ways.add_parser("approve", help="be the second person")
        approve.add_argument("plan")
        approve.add_argument("--digest", required=True)
        approve.add_argument("--reason", required=True)
        for way, told in (
            ("show", "how it goes"),
            ("follow", "follow it to its end"),
            ("stop", "stop it between two requests"),
        ):
            ways.add_parser(way, help=told).add_argument("plan")

    def handle(self, *_args: Any, **options: Any) -> None:
        vigie, number = Vigie(options["said"]), _number(options["plan"])
        found = self._done(vigie, number, options)
        if options["way"] in {"confirm", "follow"} and not options.get("no_wait"):
            found = self._followed(vigie, number, found)
        self.stdout.write(json.dumps(found, indent=1) if options["json"] else _line(found))
        wanted = {"stopped", "refused"} if options["way"] == "stop" else {"succeeded"}
        if found["state"] in ENDED - wanted:
            raise SystemExit(1)

    def _done(self, vigie: Vigie, number: int, options: dict[str, Any]) -> Any:
        match options["way"]:
            case "confirm":
                waivers = dict(_waiver(text) for text in options["waive"])
                body = {"digest": options["digest"], "typed": options["typed"], "waivers": waivers}
                return vigie.post(f"plans/{number}/confirm", body)
            case "approve":
                return vigie.post(f"plans/{number}/approve", {"digest": options["digest"], "reason": options["reason"]})
            case "stop":
                return vigie.post(f"actions/{number}/stop", {})
        return vigie.get(f"actions/{number}")

    def _followed(self, vigie: Vigie, number: int, found: Any) -> Any:
        """Until it has ended; Ctrl-C ends the following, not the action."""
        last = ""
        try:
            while found["state"] not in ENDED:
                line = _line(found)
                if line != last:
                    self.stderr.write(line)
                    last = line
                time.sleep(LOOK_S)
                found = self._seen(vigie, number)
        except KeyboardInterrupt:
            self.stderr.write(f"{found['name']} goes on; manage.py act stop {number} stops it.")
        return found

    def _seen(self, vigie: Vigie, number: int) -> Any:
        """How it goes, also through a restart of Vigie. Raises AwayError when that takes longer than any restart."""
        until, said = time.monotonic() + PATIENCE_S, False
        while True:
            try:
                return vigie.get(f"actions/{number}")
            except AwayError as error:
                if time.monotonic() > until:
                    raise
                if not said:
                    self.stderr.write(f"{error}; the action does not depend on that, trying again …")
                    said = True
                time.sleep(LOOK_S)


def _number(text: str) -> int:
    digits = text.upper().removeprefix("M-")
    if not digits.isdecimal():
        raise CommandError(f"{text!r} is no number of an action", returncode=NO_ANSWER)
    return int(digits)


def _waiver(text: str) -> tuple[str, str]:
    check, sign, why = text.partition("=")
    if not (sign and why.strip()):
        raise CommandError(f"--waive takes CHECK=WHY, not {text!r}", returncode=NO_ANSWER)
    return check, why


def _line(found: dict[str, Any]) -> str:
    """How an action goes, in one line."""
    step = next((step for step in found["steps"] if step["state"] not in {"done", "skipped"}), None)
    pods: dict[str, int] = {}
    for pod in found["pods"]:
        pods[pod["state"]] = pods.get(pod["state"], 0) + 1
    told = [f"{found['name']} {found['kind']} {found['target']}: {found['state']}"]
    if step is not None and found["state"] not in ENDED:
        told.append(f"step {step['kind']} {step['state']}")
    if pods:
        told.append("pods: " + ", ".join(f"{count} {state}" for state, count in sorted(pods.items())))
    if found["outcome"].get("why"):
        told.append(f"because: {found['outcome']['why']}")
    return "; ".join(told)
