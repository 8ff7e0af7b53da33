"""`manage.py plan drain node-07`: what an action would do and lose, computed by the running Vigie. Nothing happens."""

import argparse
import json
import shlex
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.calls import NO_ANSWER, Vigie, check_line
from fleet.domain.actions import ACTIONS
from fleet.domain.kinds import Danger


class Command(BaseCommand):
    help = "Compute a plan through the API of the running Vigie (VIGIE_TOKEN, VIGIE_URL). Exit 1: a check blocks it; 2: no plan."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("kind", help="cordon, drain, restart, switch …: a kind of action")
        parser.add_argument("target", help="name of the node, or Deployment/namespace/name, or Service/namespace/name")
        parser.add_argument("--reason", default="asked for on the command line", help="why (default: %(default)s)")
        parser.add_argument(
            "--save", action="store_true", help="let workloads that declare how save a checkpoint before their pods go"
        )
        parser.add_argument(
            "--option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="what you choose: replicas=4, side=llm-green …",
        )
        parser.add_argument("--cluster", default="", help="needed when Vigie watches several")
        parser.add_argument("--as", dest="said", default="", help="who you are; recorded as said at a console")
        parser.add_argument("--json", action="store_true", help="the API's answer as it is")

    def handle(self, *_args: Any, **options: Any) -> None:
        wanted = {name: options[name] for name in ("kind", "target", "reason", "cluster")}
        chosen: dict[str, str] = {}
        for text in options["option"]:
            name, value = _option(text)
            if name in chosen:
                raise CommandError(f"--option {name} is there twice", returncode=NO_ANSWER)
            chosen[name] = value
        if options["save"]:
            chosen["save"] = "first"
        if chosen:
            wanted["options"] = chosen
        plan = Vigie(options["said"]).post("plans", wanted)
        if options["json"]:
            self.stdout.write(json.dumps(plan, indent=1))
        else:
            self.stdout.write("\n".join(lines(plan)))
        if any(check["outcome"] == "BLOCK" for check in plan["checks"]):
            raise SystemExit(1)


def _option(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise CommandError(f"--option takes NAME=VALUE, not {text!r}", returncode=NO_ANSWER)
    return name, value


def lines(plan: dict[str, Any]) -> list[str]:
    """A plan as text, with the command that confirms it."""
    told = [f"Plan {plan['name']}: {plan['kind']} {plan['target']}"]
    loss = plan["loss"]
    if loss["pods"]:
        requests, scratch = _n(loss["requests"]), _n(loss["scratch_bytes"])
        told.append(f"Loss: work {_s(loss['work_s'])}, requests {requests}, emptyDir {scratch} bytes")
    for pod in loss["pods"]:
        goes = _goes(plan["kind"], pod)
        work = f"work {_s(pod['work_s'])}{', as it reports' if pod['reported'] else ''}"
        told.append(f"  {pod['namespace']}/{pod['name']}  {pod['gpus']} GPUs  {work}, steps {_n(pod['steps'])}  {goes}")
    told += [f"Saves first: {save['workload']} ({save['hook']} at {save['pod']})" for save in plan["saves"]]
    told += ["Checks:", *(check_line(check) for check in plan["checks"] if check["outcome"] != "PASS")]
    passed = sum(check["outcome"] == "PASS" for check in plan["checks"])
    told += [f"  {passed} passed", "Steps: " + " → ".join(step["kind"] for step in plan["steps"])]
    told += ["The same with kubectl:", *(f"  {line}" for line in plan["kubectl"])]
    return [*told, "To do it:", f"  {_confirmation(plan)}"]


def _goes(kind: str, pod: dict[str, Any]) -> str:
    """What its own controller ends comes back where that finds room, if it wants as many."""
    if not pod["evicted"]:
        return f"stays: {pod['stays_because']}"
    return f"to {pod['comes_back_on'] or 'no known place'}" if ACTIONS[kind].empties else "ends"


def _confirmation(plan: dict[str, Any]) -> str:
    """The command that confirms it: a block that somebody may lift wants a reason, any other keeps it from being done."""
    blocks = [check for check in plan["checks"] if check["outcome"] == "BLOCK"]
    if stuck := [check["guard"] for check in blocks if not check["waivable_by"]]:
        return f"not possible as long as this blocks it: {', '.join(dict.fromkeys(stuck))}"
    destructive = ACTIONS[plan["kind"]].danger is Danger.DESTRUCTIVE
    typed = f" --typed {shlex.quote(plan['target'])}" if destructive else ""
    waive = "".join(f" --waive {shlex.quote(check['key'] + '=WHY')}" for check in blocks)
    return f"manage.py act confirm {plan['id']} --digest {plan['digest']}{typed}{waive}"


def _s(value: Any) -> str:
    if value is None:
        return "unknown"
    return "none" if value == "n/a" else f"{value / 60:.0f} min"


def _n(value: Any) -> str:
    if value is None:
        return "unknown"
    return "none" if value == "n/a" else str(value)
