"""What the actions on workloads and Services say, in English; part of the table in `patterns`, whose rules hold here too.

Owns wording only. Keys as in `action_patterns` and `guard_patterns`. {node} is what the action is done to, also where it is none.
"""

from django.utils.translation import gettext_noop as _

from dashboard.panels.pair_patterns import PAIRS
from dashboard.panels.plurals import Patterns

KINDS: Patterns = {
    "act.kind.restart": _("Restart"),
    "act.do.restart": _("Restart {node}"),
    "act.plan.restart": _("Plan: restart {node}"),
    "act.doing.restart": _("Restarting {node}"),
    "act.done.restart": _("{node} has restarted"),
    "act.stop.restart": _("Stop restarting {node}"),
    "act.means.restart": _(
        "Its pods are replaced by new ones of the same template, as its strategy says. First you see what that "
        "would cost; nothing happens before you have confirmed that."
    ),
    "act.end.succeeded.restart": _("Every pod is of the new template, and available."),
    "act.kind.pause": _("Pause"),
    "act.do.pause": _("Pause {node}"),
    "act.plan.pause": _("Plan: pause {node}"),
    "act.doing.pause": _("Pausing {node}"),
    "act.done.pause": _("{node} is paused"),
    "act.stop.pause": _("Stop pausing {node}"),
    "act.means.pause": _("Its rollout stops where it is. Pods that run go on, and nothing is lost."),
    "act.end.succeeded.pause": _("Its rollout stands still."),
    "act.kind.resume": _("Resume"),
    "act.do.resume": _("Resume {node}"),
    "act.plan.resume": _("Plan: resume {node}"),
    "act.doing.resume": _("Resuming {node}"),
    "act.done.resume": _("{node} goes on"),
    "act.stop.resume": _("Stop resuming {node}"),
    "act.means.resume": _("What was changed while it was paused is rolled out now."),
    "act.end.succeeded.resume": _("Its rollout goes on."),
    "act.kind.undo": _("Undo"),
    "act.do.undo": _("Undo {node}"),
    "act.plan.undo": _("Plan: undo {node}"),
    "act.doing.undo": _("Undoing {node}"),
    "act.done.undo": _("{node} is back at its earlier revision"),
    "act.stop.undo": _("Stop undoing {node}"),
    "act.means.undo": _(
        "Exactly the template of an earlier revision is rolled out. First you see the difference and what it would "
        "cost; nothing happens before you have confirmed that."
    ),
    "act.end.succeeded.undo": _("Every pod is of the earlier template, and available."),
    "act.kind.set-image": _("Set image"),
    "act.do.set-image": _("Set the image of {node}"),
    "act.plan.set-image": _("Plan: set the image of {node}"),
    "act.doing.set-image": _("Setting the image of {node}"),
    "act.done.set-image": _("{node} has its new image"),
    "act.stop.set-image": _("Stop setting the image of {node}"),
    "act.means.set-image": _(
        "A new image is rolled out as its strategy says. First you see what that would cost; nothing happens "
        "before you have confirmed that."
    ),
    "act.end.succeeded.set-image": _("The image is set, and what had to be rolled out is available."),
    "act.kind.scale": _("Scale"),
    "act.do.scale": _("Scale {node}"),
    "act.plan.scale": _("Plan: scale {node}"),
    "act.doing.scale": _("Scaling {node}"),
    "act.done.scale": _("{node} has its new scale"),
    "act.stop.scale": _("Stop scaling {node}"),
    "act.means.scale": _(
        "It gets more or fewer pods. First you see whether there is room and what would be lost; nothing happens "
        "before you have confirmed that."
    ),
    "act.end.succeeded.scale": _("It has as many pods as it was asked for."),
    "act.kind.switch": _("Switch"),
    "act.do.switch": _("Switch {node}"),
    "act.plan.switch": _("Plan: switch {node}"),
    "act.doing.switch": _("Switching {node}"),
    "act.done.switch": _("{node} has switched sides"),
    "act.stop.switch": _("Stop switching {node}"),
    "act.means.switch": _(
        "All its requests go to the other side, once that side has passed its smoke test. First you see both "
        "sides; nothing happens before you have confirmed that."
    ),
    "act.end.succeeded.switch": _("Its EndpointSlices have Ready pods of the new side alone."),
    "act.kind.way-back": _("Switch back"),
    "act.do.way-back": _("Switch {node} back"),
    "act.plan.way-back": _("Plan: switch {node} back"),
    "act.doing.way-back": _("Switching {node} back"),
    "act.done.way-back": _("{node} is back at its old side"),
    "act.stop.way-back": _("Stop switching {node} back"),
    "act.means.way-back": _("The exact selector before the last switch is written again."),
    "act.end.succeeded.way-back": _("Its EndpointSlices have Ready pods of the old side alone."),
    "act.kind.retire": _("Retire"),
    "act.do.retire": _("Retire the spare side of {node}"),
    "act.plan.retire": _("Plan: retire the spare side of {node}"),
    "act.doing.retire": _("Retiring the spare side of {node}"),
    "act.done.retire": _("The spare side of {node} is retired"),
    "act.stop.retire": _("Stop retiring the spare side of {node}"),
    "act.means.retire": _(
        "The side that serves nobody is scaled to 0 and gives its GPUs back. The way back then needs a cold start."
    ),
    "act.end.succeeded.retire": _("The old side has no pod left, and its GPUs are free."),
    "act.kind.create-green": _("Make the other side"),
    "act.do.create-green": _("Make the other side of {node}"),
    "act.plan.create-green": _("Plan: make the other side of {node}"),
    "act.doing.create-green": _("Making the other side of {node}"),
    "act.done.create-green": _("The other side of {node} is ready"),
    "act.stop.create-green": _("Stop making the other side of {node}"),
    "act.means.create-green": _(
        "A copy of the side that serves is made, with its own version, image and budget. Nobody sends it requests yet."
    ),
    "act.end.succeeded.create-green": _("The copy is available, and nobody sends it requests yet."),
}

# What a person may choose, by the names of the kinds
OPTIONS: Patterns = {
    "act.option.revision": _("Revision; empty: the one before"),
    "act.option.image": _("Image: repo/llm:2, or server=repo/llm:2, proxy=repo/proxy:3"),
    "act.option.replicas": _("Replicas"),
    "act.option.side": _("Side: the name of its workload"),
    "act.option.smoke": _("Smoke test: a request as JSON; empty: that of the Service"),
    "act.option.version": _("Version label"),
    "act.option.name": _("Name"),
}

STEPS: Patterns = {
    "act.step.change": _("Change"),
    "act.will.change": _("Write the change on exactly what you were shown."),
    "act.step.rollout": _("Roll out"),
    "act.will.rollout": _("Wait until every pod is of the new template and available."),
    "act.step.smoke": _("Smoke test"),
    "act.will.smoke": _("Ask every Ready pod of the new side once more."),
    "act.step.switch": _("Switch"),
    "act.will.switch": _("Write the selector on exactly the version that you were shown."),
    "act.step.endpoints": _("Prove"),
    "act.will.endpoints": _("Wait until its EndpointSlices have Ready pods of that side alone."),
    "act.step.create": _("Create"),
    "act.will.create": _("Make the Deployment, once."),
    "act.step.budget": _("Budget"),
    "act.will.budget": _("Give it a disruption budget of its own, unless one is over it already."),
}

ENDS: Patterns = {
    "act.end.failed.workload-gone": _("The workload is gone, or another one has its name."),
    "act.end.failed.service-gone": _("The Service is gone, or another one has its name."),
    "act.end.failed.changed": _("Somebody has changed it since it was shown. Compute the plan again."),
    "act.end.failed.refused": _("The change cannot be made any more."),
    "act.end.failed.serves-again": _("The side that had to go serves again. It stays as it is."),
    "act.end.failed.paused": _("Somebody has paused the rollout."),
    "act.end.failed.rollout-stuck": _(
        "The rollout has exceeded its progress deadline. Its controller goes on trying; an undo brings the earlier "
        "version back."
    ),
    "act.end.failed.smoke-failed": _("The new side has not passed its smoke test. Nothing was switched."),
    "act.end.failed.superseded": _("Somebody has changed the Service since it was shown. Nothing was switched."),
    "act.end.failed.not-ready": _("Not every pod of the new side is Ready any more. Nothing was switched."),
    "act.end.failed.mixed": _("The selector takes other pods along by now. Nothing was switched."),
    "act.end.failed.exists": _("Something of that name is there already, and it is not ours."),
    "act.end.refused.superseded": _("Somebody else was faster: {by}. Nothing has happened."),
    "act.log.superseded": _("Somebody else was faster than {actor}"),
    "act.no.long-option": _("What you chose is too long."),
}

CHECKS: Patterns = {
    "guard.subject-known": _("What it is done to is in the cluster"),
    "guard.subject-known.malformed": _("{subject} is nothing that this can be done to"),
    "guard.subject-known.no-workload": _("There is no workload {subject} in the cluster"),
    "guard.subject-known.no-service": _("There is no Service {subject} in the cluster"),
    "guard.subject-known.no-pair": _("{subject} has not two sides"),
    "guard.freeze": _("Changes are allowed now"),
    "guard.freeze.frozen": _("Nothing may be changed before {until_at}"),
    "guard.freeze.frozen.why": _("The site’s policy has a freeze. Its reason: {why}."),
    "guard.owner": _("Nobody else is in charge of it"),
    "guard.owner.controller": _("{by} is in charge of this Service"),
    "guard.owner.controller.why": _("It would take the change back within seconds."),
    "guard.owner.operator": _("{by} is in charge of {workload}"),
    "guard.owner.operator.why": _("It may take the change back."),
    "guard.owner.synced": _("It is kept in step with a repository"),
    "guard.owner.synced.why": _("Its mark {by} says so: the next sync may take the change back."),
    "guard.change": _("The change can be made"),
    "guard.change.paused": _("It is paused"),
    "guard.change.paused-already": _("It is paused already"),
    "guard.change.not-paused": _("It is not paused"),
    "guard.change.cannot-pause": _("This kind of workload cannot be paused"),
    "guard.change.cannot-scale": _("This kind of workload has no scale"),
    "guard.change.cannot-copy": _("Only a Deployment can be copied"),
    "guard.change.same-second": _("It was restarted in this very second"),
    "guard.change.same-template": _("That revision is its template already"),
    "guard.change.same-image": _("It has that image already"),
    "guard.change.same-replicas": _("It has that scale already"),
    "guard.change.same-version": _("That is the version of the side that serves"),
    "guard.change.no-revision": _("There is no such revision"),
    "guard.change.no-container": _("It has no container {container}"),
    "guard.change.which-container": _("It has several containers"),
    "guard.change.which-container.why": _("Name the one that you mean: container=image."),
    "guard.change.image": _("That is no image"),
    "guard.change.replicas": _("That is no number of replicas"),
    "guard.change.version": _("That cannot be a version label"),
    "guard.change.name": _("That cannot be a name"),
    "guard.change.exists": _("There is a Deployment {name} already"),
    "guard.change.untold": _("No label tells the sides apart"),
    "guard.change.overlap": _("The selector of {workload} selects the copy’s pods as well"),
    "guard.change.shared-budget": _("Budgets {budgets} are over the copy’s pods already"),
    "guard.change.shared-budget.why": _("It gets none of its own: under two no pod could be evicted."),
    "guard.sides": _("All requests go to Ready pods of one side"),
    "guard.sides.which": _("Which side is meant is not clear"),
    "guard.sides.which.why": _("It may be one of {sides}."),
    "guard.sides.no-way-back": _("There is no way back"),
    "guard.sides.no-way-back.why": _(
        "No switch of Vigie’s stands any more: somebody has written another selector since."
    ),
    "guard.sides.empty": _("No Ready pod would be left behind the Service"),
    "guard.sides.fewer": _("Not every pod of {side} is Ready"),
    "guard.sides.fewer.why": _("Ready: {ready}; wanted: {wants}."),
    "guard.sides.mixed": _("Pods of several workloads would serve"),
    "guard.sides.mixed.why": _("Of {side}: {ready}; others: {others}."),
    "guard.sides.other": _("Pods of another workload than {side} would serve"),
    "guard.sides.same": _("The Service has that selector already"),
    "guard.sides.untold": _("No label tells the sides apart"),
    "guard.sides.was-both": _("Both sides serve now"),
    "guard.sides.was-neither": _("No side serves now"),
    "guard.spare": _("The old side is not needed any more"),
    "guard.spare.serves": _("{side} serves requests"),
    "guard.spare.too-early": _("The way back is promised for {left_s} yet"),
    "guard.spare.too-early.why": _("Without {side} it needs a cold start."),
    "guard.spare.closes-way-back": _("The way back needs a cold start afterwards"),
    "guard.smoke": _("Every Ready pod of the new side has answered as it should"),
    "guard.smoke.undeclared": _("Nobody says what the new side has to answer"),
    "guard.smoke.unacceptable": _("The smoke test cannot be sent"),
    "guard.smoke.unacceptable.why": _("What is wrong with it: {what}."),
    "guard.smoke.not-asked": _("No pod of the new side was asked"),
    "guard.smoke.silent": _("{subject} does not answer {path}"),
    "guard.smoke.silent.why": _("What is known: {found}."),
    "guard.smoke.status": _("{subject} answers {path} with another status"),
    "guard.smoke.status.why": _("It says {status}."),
    "guard.smoke.slow": _("{subject} answers {path} too late"),
    "guard.smoke.slow.why": _("It took {found} s."),
    "guard.smoke.too-long": _("The answer of {subject} to {path} is too long"),
    "guard.smoke.contains": _("{subject} answers {path} without the text that it should"),
    "guard.smoke.not-json": _("{subject} answers {path} with something that is no JSON"),
    "guard.smoke.no-value": _("The value is missing in what {subject} answers to {path}"),
    "guard.smoke.value": _("{subject} answers {path} with another value"),
    "guard.smoke.value.why": _("It says {found}."),
    "guard.smoke.no-port": _("{subject} has no such port"),
    "guard.scaler": _("No autoscaler puts the scale back"),
    "guard.scaler.unreadable": _("Vigie may not read autoscalers"),
    "guard.scaler.unreadable.why": _("Whether one puts the scale back is unknown."),
    "guard.scaler.autoscaled": _("Autoscaler {autoscaler} sets this scale"),
    "guard.scaler.autoscaled.why": _("It would put it back within a minute."),
    "guard.scaler.disabled": _("Autoscaler {autoscaler} does nothing at 0"),
    "guard.rolling": _("No other rollout is under way"),
    "guard.rolling.rolling": _("Another rollout is under way"),
    "guard.rolling.failed": _("The last rollout has exceeded its deadline"),
    "guard.rolling.not-observed": _("Its controller has not seen its last change yet"),
    "guard.room": _("There is room for every pod that is added"),
    "guard.room.no-place": _("There is room for {placed} of {pods} new pods"),
    "guard.room.no-place.why": _("Each needs {gpus}: {nodes}."),
    "guard.room.no-surge": _("The rollout would stop after {placed} of {pods} pods"),
    "guard.room.no-surge.why": _(
        "It adds {surge} and takes {unavailable} away at most; a new pod needs {gpus}, and the largest hole has "
        "{largest}."
    ),
    "guard.accepted": _("The API server would accept it"),
    "guard.accepted.refused": _("The API server would refuse it"),
    "guard.accepted.refused.why": _("It says: {message}"),
}

REMEDIES: Patterns = {
    "remedy.declare-pair": _(
        "Give its two workloads a label that tells them apart, or name them in annotation vigie.dev/blue-green."
    ),
    "remedy.promote-there": _("Promote it with the tool that is in charge."),
    "remedy.change-owner": _("Change what is in charge of it."),
    "remedy.change-choice": _("Choose something else."),
    "remedy.change-autoscaler": _("Change the autoscaler’s bounds."),
    "remedy.switch-again": _("Switch to the side that you want."),
    "remedy.choose-side": _("Say which side you mean."),
    "remedy.scale-first": _("Scale that side up and wait until all of it is Ready."),
    "remedy.look-at-labels": _("Look at the labels of the pods and the selector."),
    "remedy.switch-first": _("Switch to the other side first."),
    "remedy.wait": _("Wait."),
    "remedy.declare-smoke-test": _("Declare one: annotation vigie.dev/smoke-test on the Service."),
    "remedy.correct-smoke-test": _("Correct the smoke test."),
    "remedy.look-at-pod": _("Look at the pod and its log."),
    "remedy.surge-none": _("Set maxSurge 0 and maxUnavailable 1: then it finishes."),
}

RELEASES: Patterns = {**KINDS, **OPTIONS, **STEPS, **ENDS, **CHECKS, **REMEDIES, **PAIRS}
