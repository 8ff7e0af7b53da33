"""What the page of a blue/green pair says, in English; part of the table in `patterns`, whose rules hold here too.

Owns wording only. {side} is the name of a workload, {service} of the Service.
"""

from django.utils.translation import gettext_noop as _

from dashboard.panels.plurals import Patterns, ngettext

PAIRS: Patterns = {
    "pair.tag.one": _("{side} serves"),
    "pair.tag.short": _("{side} serves, and not all of it is Ready"),
    "pair.tag.both": _("Both sides serve"),
    "pair.tag.neither": _("No side serves"),
    "pair.declared": _("Its sides are named by annotation {annotation}."),
    "pair.by-label": _("Its sides are told apart by label {label}."),
    "pair.alone": _("It has one side."),
    "pair.synced": _("{by} keeps this Service in step with a repository: the next sync may take a switch back."),
    "pair.last.switch": _("Switched {time} by {by}."),
    "pair.last.way-back": _("Switched back {time} by {by}."),
    "pair.last.unknown": _("Switched {time}."),
    "pair.side.serves": _("Serves"),
    "pair.side.short": _("Serves, short of pods"),
    "pair.side.ready": _("Ready, serves nobody"),
    "pair.side.coming": _("Not Ready yet"),
    "pair.side.empty": _("Scaled to 0"),
    "pair.of": _("{have} of {want}"),
    "pair.endpoints": ngettext("of {n} endpoint", "of {n} endpoints"),
    "pair.fact.ready": _("Pods Ready"),
    "pair.fact.gpus": _("GPUs held"),
    "pair.fact.version": _("Told apart by"),
    "pair.fact.image": _("Image"),
    "pair.fact.image-of": _("Image of {container}"),
    "pair.stopping": ngettext("{n} more is stopping", "{n} more are stopping"),
    "pair.wants": _("{gpus} at its scale"),
    "pair.gpus": ngettext("{n} GPU", "{n} GPUs"),
    "pair.points.one": _("sends requests to {side}"),
    "pair.points.both": _("sends requests to both sides"),
    "pair.points.neither": _("sends requests to no side"),
    "pair.others": ngettext(
        "{n} endpoint belongs to neither side.",
        "{n} endpoints belong to neither side.",
    ),
    "pair.back.open": _("Way back is open"),
    "pair.back.shut": _("No way back now"),
    "pair.back.until": _("{side} may not be retired before {time}"),
    "pair.back.past": _("{side} may be retired since {time}"),
    "pair.back.in-all": _("{kept_s} in all"),
    "pair.back.left": _("{min}:{s}"),
    "pair.back.writes": _("Going back writes exactly the selector from before the switch:"),
    "pair.do.switch": _("Switch to {side}"),
    "pair.do.way-back": _("Switch back to {side}"),
    "pair.do.way-back.any": _("Switch back"),
    "pair.do.retire": _("Retire {side}"),
    "pair.do.create-green": _("Make another side"),
    "pair.do.scale": _("Scale {side} to {n}"),
    "pair.means.retire": _("It is scaled to 0 and gives its GPUs back. Going back then needs a cold start."),
    "pair.means.create-green": _("A copy of {side} with its own version, image and budget; nobody sends it requests."),
    "act.will.reach": _("Ready pods that serve now: {before}; afterwards: {after}."),
    "act.will.nobody": _("none"),
    "pair.after": _("After a switch to {side}"),
    "pair.nobody": _("pods without a workload"),
    "pair.unready": ngettext("{n} more pod is not Ready", "{n} more pods are not Ready"),
    "pair.version": _("Written on exactly version {version} of the Service; if it is another one by then, nothing is."),
    "pair.fact.request": _("Request"),
    "pair.fact.expects": _("Has to answer"),
    "pair.fact.within": _("Within"),
    "pair.ms": _("{n} ms"),
    "pair.ask.service": _("declared on the Service"),
    "pair.ask.pods": _("declared on the pods of {side}"),
    "pair.ask.probe": _("the readiness probe of {side}; nothing else is declared"),
    "pair.ask.port": _("port {port}"),
    "pair.ask.first-port": _("the first port that is declared"),
    "pair.expects.status": _("status {status}"),
    "pair.expects.success": _("any status of 2xx"),
    "pair.expects.contains": _("the text “{text}”"),
    "pair.expects.value": _("a value at {path}"),
    "pair.expects.equals": _("{value} at {path}"),
    "pair.within": _("{whole}.{tenth} s"),
    "pair.test.done": _("passed"),
    "pair.test.failed": _("failed"),
    "pair.test.skipped": _("not asked: an approver lifted it"),
    "pair.test.now": _("under way"),
    "pair.price.more": _("+ {gpus}"),
    "pair.price.none": _("No GPU"),
    "pair.price.instead": _("{all} instead of {one}"),
    "pair.price.spare": _("held for nobody"),
    "pair.free": _("Free now"),
    "pair.waiting": ngettext("{n} pod waits for {kind}", "{n} pods wait for {kind}"),
    "pair.copy": _("Room for one more copy"),
    "pair.copy.places": ngettext("{placed} of {n} pod", "{placed} of {n} pods"),
    "help.pair.pair": _(
        "A Service whose selector has a label that tells two workloads apart (color, colour, track, slot, version …), or "
        "whose annotation vigie.dev/blue-green names them."
    ),
    "help.pair.switch": _(
        "Every Ready pod of the new side has to answer the smoke test; then the selector is written on exactly the version "
        "of the Service that was shown, and the EndpointSlices prove it."
    ),
    "help.pair.back": _(
        "The exact selector from before the last switch is written again. The old side may not be retired before the time "
        "that the policy promises (keep_s)."
    ),
    "help.pair.price": _("GPUs that sides hold which serve nobody. Retiring such a side gives them back."),
    "help.pair.owned": _(
        "Argo Rollouts and Flagger write selectors themselves and would take an edit back: Vigie refuses to switch."
    ),
    "help.pair.smoke": _(
        "Annotation vigie.dev/smoke-test on the Service or its pods: path, port, status, contains, json, equals, within_s. "
        "Without it the readiness probe is asked."
    ),
    "help.name.pair": _("Pair"),
    "help.name.switch": _("Switch"),
    "help.name.back": _("Way back"),
    "help.name.price": _("Price of holding both"),
    "help.name.owned": _("Switched by others"),
    "help.name.smoke": _("Smoke test"),
}
