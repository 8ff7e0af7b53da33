"""`manage.py plan drain node-07`: what an action would do and lose, computed by the running Vigie. Nothing happens."""

import argparse
import json
from typing import Any

from django.core.management.base import BaseCommand

from dashboard.calls import Vigie, check_line


class Command(BaseCommand):
    help = (
        "Compute a plan through the API of the running Vigie (VIGIE_TOKEN, VIGIE_URL). Exit 1 when a check blocks it."
    )
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
        chosen = dict(option.partition("=")[::2] for option in options["option"])
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


def lines(plan: dict[str, Any]) -> list[str]:
    """A plan as text."""
    told = [f"Plan {plan['name']}: {plan['kind']} {plan['target']}, digest {plan['digest'][:12]}"]
    loss = plan["loss"]
    if loss["pods"]:
        requests, scratch = _n(loss["requests"]), _n(loss["scratch_bytes"])
        told.append(f"Loss: work {_s(loss['work_s'])}, requests {requests}, emptyDir {scratch} bytes")
    for pod in loss["pods"]:
        goes = f"to {pod['comes_back_on'] or 'no known place'}" if pod["evicted"] else f"stays: {pod['stays_because']}"
        work = f"work {_s(pod['work_s'])}{', as it reports' if pod['reported'] else ''}"
        told.append(f"  {pod['namespace']}/{pod['name']}  {pod['gpus']} GPUs  {work}, steps {_n(pod['steps'])}  {goes}")
    told += [f"Saves first: {save['workload']} ({save['hook']} at {save['pod']})" for save in plan["saves"]]
    told += ["Checks:", *(check_line(check) for check in plan["checks"] if check["outcome"] != "PASS")]
    passed = sum(check["outcome"] == "PASS" for check in plan["checks"])
    told += [f"  {passed} passed", "Steps: " + " → ".join(step["kind"] for step in plan["steps"])]
    told += ["The same with kubectl:", *(f"  {line}" for line in plan["kubectl"])]
    return told


def _s(value: Any) -> str:
    if value is None:
        return "unknown"
    return "none" if value == "n/a" else f"{value / 60:.0f} min"


def _n(value: Any) -> str:
    if value is None:
        return "unknown"
    return "none" if value == "n/a" else str(value)
