"""The sentences about rollouts: the list, one rollout on its page, ways out of a hold-up, and strategies.

Owns wording only. `rollouts.` is said by browsers as well; `rollout.`, `way.` and `strategy.` by the server's pages alone. Some
spaces are no-break spaces, literally, since the tools that collect message ids do not read escapes.
"""

from django.utils.translation import gettext_noop as _

from dashboard.panels.plurals import Patterns, ngettext

# The list
ROLLOUTS: Patterns = {
    "table.rollouts": _("Rollouts, those that are held up first"),
    "column.new-pods": _("New pods"),
    "column.old-pods": _("Old pods"),
    "column.version": _("Revision"),
    "column.end": _("Through"),
    "rollouts.state.held": _("held up"),
    "rollouts.state.held-for": _("held up for {age}"),
    "rollouts.state.waits": _("waits"),
    "rollouts.state.waits-for": _("waits for {age}"),
    "rollouts.state.rolling": _("in progress"),
    "rollouts.state.paused": _("paused"),
    "rollouts.state.not-observed": _("not seen by its controller yet"),
    "rollouts.state.manual": _("waits for old pods to be deleted"),
    "rollouts.state.left": _("done, and something is left"),
    "rollouts.state.done": _("done"),
    "rollouts.late": _("past its deadline"),
    "rollouts.cause.quota": _("quota used up"),
    "rollouts.cause.admission": _("its pods are refused"),
    "rollouts.cause.image": _("image cannot be fetched"),
    "rollouts.cause.config": _("container cannot be made"),
    "rollouts.cause.startup-budget": _("restarted while loading"),
    "rollouts.cause.crash": _("container crashes"),
    "rollouts.cause.deadlock": _("no hole, and no old pod may go"),
    "rollouts.cause.no-hole": _("no hole large enough"),
    "rollouts.cause.unplaceable": _("no node fits"),
    "rollouts.cause.volume": _("waits for a volume"),
    "rollouts.cause.probe": _("a probe fails"),
    "rollouts.cause.budget": _("budget allows no eviction"),
    "rollouts.cause.paused": _("paused by somebody"),
    "rollouts.cause.not-observed": _("its controller has not looked"),
    "rollouts.stage.placing": ngettext("{n} without a node", "{n} without a node"),
    "rollouts.stage.pulling": ngettext("{n} pulling", "{n} pulling"),
    "rollouts.stage.starting": ngettext("{n} starting", "{n} starting"),
    "rollouts.stage.warming-up": ngettext("{n} warming up", "{n} warming up"),
    "rollouts.stage.ready": ngettext("{n} Ready", "{n} Ready"),
    "rollouts.stage.stopping": ngettext("{n} stopping", "{n} stopping"),
    "rollouts.versions": _("{was} → {now}"),
    "rollouts.eta": _("about {time}"),
    "rollouts.deadline": _("deadline {time}"),
    "rollouts.stopping-gpus": ngettext("{n} by pods that stop", "{n} by pods that stop"),
    "rollouts.moving": ngettext("{n} in progress", "{n} in progress"),
    "rollouts.held": ngettext("{n} held up", "{n} held up"),
    "rollouts.count": ngettext("{n} workload", "{n} workloads"),
}

# One rollout
ROLLOUT: Patterns = {
    "rollout.revisions": _("revision {was}"),
    "rollout.revision": _("revision {now}"),
    "rollout.tag.held": _("Held up"),
    "rollout.tag.held-for": _("Held up for {age}"),
    "rollout.tag.waits": _("Waits"),
    "rollout.tag.waits-for": _("Waits for {age}"),
    "rollout.tag.rolling": _("In progress"),
    "rollout.tag.paused": _("Paused"),
    "rollout.tag.not-observed": _("Not seen by its controller yet"),
    "rollout.tag.manual": _("Waits for old pods to be deleted"),
    "rollout.tag.left": _("Done, and something is left"),
    "rollout.tag.done": _("Done"),
    "rollout.started": _("Started {time}."),
    "rollout.in": _("in {age}"),
    "rollout.overdue": _("any moment"),
    "rollout.deadline": _(
        "Kubernetes gives up at {time} ({in}) unless a pod gets on; nothing is lost then, the pods stay as they are."
    ),
    "rollout.gave-up": _(
        "Kubernetes has given up: no progress before the deadline. Its controller goes on trying, and the pods stay as they are."
    ),
    "rollout.no-deadline": _("No deadline runs."),
    "rollout.no-deadline-kind": _("Kubernetes sets no deadline for a {kind}."),
    "rollout.done": _("kubectl rollout status calls it done."),
    "rollout.eta": _("Through at about {time} ({in})"),
    "rollout.eta-from": ngettext("from {n} pod seen", "from {n} pods seen"),
    "rollout.eta-no-pod": _("When it will be through is unknown: no new pod has been seen to become Ready."),
    "rollout.eta-never": _("It will not get through like this."),
    "rollout.eta-paused": _("It stands still until somebody resumes it."),
    "rollout.eta-manual": _("It gets through when somebody has the old pods go."),
    "rollout.step.updated": _("kubectl waits: {have} of {want} pods are new."),
    "rollout.step.old": ngettext(
        "kubectl waits: {n} old pod is still to go.", "kubectl waits: {n} old pods are still to go."
    ),
    "rollout.step.available": _("kubectl waits: {have} of {want} new pods are available."),
    "rollout.step.ready": _("kubectl waits: {have} of {want} pods are Ready."),
    "rollout.step.revision": _("kubectl waits: all pods are new, and its controller has not said so yet."),
    "rollout.remark.unready": _("{have} of {want} new pods are Ready: one moment of Ready was enough to count."),
    "rollout.remark.unavailable": _(
        "{have} of {want} pods are available: minReadySeconds have not passed for the others."
    ),
    "rollout.remark.terminating": ngettext(
        "{n} pod still stops and holds {gpus}.", "{n} pods still stop and hold {gpus}."
    ),
    "rollout.remark.answering": ngettext(
        "{n} old pod may still answer requests.", "{n} old pods may still answer requests."
    ),
    "rollout.remark.partitioned": ngettext(
        "{n} pod keeps the old version, as the partition says.", "{n} pods keep the old version, as the partition says."
    ),
    "rollout.wanted": ngettext("{n} wanted", "{n} wanted"),
    "rollout.slot.old": _("old, Ready"),
    "rollout.slot.old-wait": _("old, not Ready"),
    "rollout.slot.new": _("new, Ready"),
    "rollout.slot.warm": _("new, warming up"),
    "rollout.slot.start": _("new, starting"),
    "rollout.slot.pull": _("new, pulling"),
    "rollout.slot.none": _("new, without a node"),
    "rollout.slot.empty": _("may be added"),
    "rollout.each": _("{count} {what}"),
    "rollout.at-least": _("{available} available, at least {limit}"),
    "rollout.at-most": _("{pods} in all, at most {limit}"),
    "rollout.no-bounds": _("No bounds: somebody replaces its pods."),
    "rollout.beside": ngettext(
        "{n} more pod stops and holds {gpus} until its containers end: bounds do not count it.",
        "{n} more pods stop and hold {gpus} until their containers end: bounds do not count them.",
    ),
    "rollout.beside-none": _("No pod is stopping: none holds GPUs beside these."),
    "rollout.fact.strategy": _("Strategy"),
    "rollout.fact.surge": _("maxSurge"),
    "rollout.fact.unavailable": _("maxUnavailable"),
    "rollout.fact.gpus": _("GPUs per pod"),
    "rollout.fact.held": _("GPUs held now"),
    "rollout.fact.ready": _("Time to Ready"),
    "rollout.fact.hole": _("Largest hole"),
    "rollout.fact.partition": _("Partition"),
    "rollout.most": ngettext("at most {n} pod", "at most {n} pods"),
    "rollout.least": ngettext("at least {n} available", "at least {n} available"),
    "rollout.more": ngettext("+{n} when done", "+{n} when done"),
    "rollout.fewer": ngettext("−{n} when done", "−{n} when done"),
    "rollout.by-old": ngettext("{n} by old pods", "{n} by old pods"),
    "rollout.by-new": ngettext("{n} by new pods", "{n} by new pods"),
    "rollout.median": ngettext("of {n} new pod seen", "median of {n} new pods seen"),
    "rollout.median-now": _("median of the pods that run"),
    "rollout.not-seen": _("no new pod has become Ready"),
    "rollout.room": ngettext("room for {n} new pod now", "room for {n} new pods now"),
    "rollout.keeps": ngettext("{n} pod keeps the old version", "{n} pods keep the old version"),
    "rollout.nothing-holds": _("Nothing holds it up."),
    "rollout.level.bad": _("does not pass by itself"),
    "rollout.level.warn": _("may pass by itself"),
    "rollout.level.note": _("somebody wants it so, or it lasts an instant"),
    "rollout.since": _("for {age}"),
    "rollout.example": _("for example {pod}"),
    "rollout.cause.quota": _("The namespace may not have more pods: its quota is used up."),
    "rollout.cause.admission": _("The API server refuses its pods."),
    "rollout.cause.image": ngettext(
        "{n} pod cannot fetch the image of {container}: {reason}.",
        "{n} pods cannot fetch the image of {container}: {reason}.",
    ),
    "rollout.cause.config": ngettext(
        "{n} pod cannot make its container {container}: {reason}.",
        "{n} pods cannot make their container {container}: {reason}.",
    ),
    "rollout.cause.startup-budget": ngettext(
        "{n} pod is restarted while it loads: the startup probe of {container} gives up.",
        "{n} pods are restarted while they load: the startup probe of {container} gives up.",
    ),
    "rollout.cause.crash": ngettext(
        "{container} ends again and again in {n} pod: exit code {code}, restarts: {restarts}.",
        "{container} ends again and again in {n} pods: exit code {code}, restarts: {restarts}.",
    ),
    "rollout.cause.deadlock": ngettext(
        "{n} new pod needs {gpus} on one node; the largest hole is {hole}. No old pod may go before a new one is available.",
        "{n} new pods need {gpus} each on one node; the largest hole is {hole}. No old pod may go before a new one is available.",
    ),
    "rollout.cause.no-hole": ngettext(
        "{n} new pod needs {gpus} on one node; the largest hole is {hole}.",
        "{n} new pods need {gpus} each on one node; the largest hole is {hole}.",
    ),
    "rollout.cause.unplaceable": ngettext(
        "The scheduler finds no node for {n} pod.", "The scheduler finds no node for {n} pods."
    ),
    "rollout.cause.volume": ngettext("{n} pod waits for a volume: {reason}.", "{n} pods wait for a volume: {reason}."),
    "rollout.cause.probe": ngettext("{n} pod runs, and its probe fails.", "{n} pods run, and their probes fail."),
    "rollout.cause.budget": ngettext(
        "{n} old pod may not be evicted now: budget {budget} allows none.",
        "{n} old pods may not be evicted now: budget {budget} allows none.",
    ),
    "rollout.cause.paused": _("Somebody has paused it."),
    "rollout.cause.not-observed": _("Its controller has seen generation {observed} of {wanted}."),
    "rollout.budget-s": _("The probe allows {budget} s at least"),
    "rollout.old-took": _("old pods took {took} s from creation to Ready"),
    "rollout.coming": ngettext("{n} more pod gets on without help", "{n} more pods get on without help"),
    "rollout.leaving": ngettext("{n} pod leaves and makes room", "{n} pods leave and make room"),
    "rollout.may-go": ngettext("{n} old pod may go", "{n} old pods may go"),
    "rollout.nobody-moves": _("Nothing is on its way, and nothing leaves."),
    "rollout.no-ways": _("No way out was found: no cordoned node, no old pod and no pod of others would make a hole."),
    "rollout.old-pods": _("Old pods"),
    "rollout.new-pods": _("New pods"),
    "rollout.old-of": _("Revision {revision}, old"),
    "rollout.new-of": _("Revision {revision}, new"),
    "rollout.pod.ready": _("serves"),
    "rollout.pod.placing": _("no node yet"),
    "rollout.pod.pulling": _("pulling"),
    "rollout.pod.starting": _("starting"),
    "rollout.pod.warming-up": _("warming up"),
    "rollout.pod.stopping": _("stops, holds its GPUs"),
    "rollout.pod.gpus": ngettext("GPU {list}", "GPUs {list}"),
    "rollout.more-pods": ngettext("{n} more pod is not listed.", "{n} more pods are not listed."),
    "rollout.no-pods": _("None."),
    "rollout.line.old": _("old, Ready"),
    "rollout.line.new": _("new, Ready"),
    "rollout.line.warm": _("new, not Ready"),
    "rollout.line.most": _("at most {limit}"),
    "rollout.line.least": _("at least {limit}"),
    "rollout.line.now": _("now"),
    "rollout.line.deadline": _("deadline"),
    "rollout.line.still": _("no change since {time}"),
    "rollout.line.told": ngettext(
        "Pods over time, from {since} on: {n} change.", "Pods over time, from {since} on: {n} changes."
    ),
}

# What would help; `.does`: what it would do
WAYS: Patterns = {
    "way.wait": _("Wait"),
    "way.wait.does": ngettext("{n} pod gets its place by itself.", "{n} pods get their places by themselves."),
    "way.resume": _("Resume it"),
    "way.resume.does": _("It goes on from where it stands."),
    "way.uncordon": _("Uncordon {subject}"),
    "way.uncordon.does": ngettext("{n} pod finds a place there.", "{n} pods find places there."),
    "way.by": _("cordoned by {by}"),
    "way.since": _("for {age}"),
    "way.trouble": _("look first: {trouble}"),
    "way.let-go": _("Let old pods on {subject} go first"),
    "way.let-go.does": ngettext(
        "With {moved} gone, {n} pod finds a place there.", "With {moved} gone, {n} pods find places there."
    ),
    "way.move": _("Move pods of others away from {subject}"),
    "way.move.does": ngettext(
        "With {moved} gone, {n} pod finds a place there; they find places elsewhere.",
        "With {moved} gone, {n} pods find places there; they find places elsewhere.",
    ),
    "way.budgets": _("budgets: {budgets}"),
    "way.allow-missing": _("Let an old pod go first"),
    "way.allow-missing.does": _(
        "With maxSurge 0 and maxUnavailable 1 an old pod makes room for each new one; {lowest} serve at the worst moment."
    ),
    "way.evict": _("Have old pods go when the budget allows it"),
    "way.evict.does": _("Its pods are replaced only when somebody deletes or evicts them."),
    "way.fix-image": _("Correct the image, or provide it"),
    "way.fix-image.does": _("The kubelet tries again by itself; another name or tag is a new version."),
    "way.fix-config": _("Provide what the container lacks"),
    "way.fix-config.does": _("A Secret, a ConfigMap or a command: its kubelet says which, above."),
    "way.read-log": _("Read the log of {subject}"),
    "way.read-log.does": _("kubectl logs -n {namespace} {subject} --previous"),
    "way.widen-probe": _("Give the startup probe more time"),
    "way.widen-probe.does": _("failureThreshold × periodSeconds has to last longer than the load."),
    "way.free-volume": _("Let the pod that holds the volume go first"),
    "way.free-volume.does": _("maxSurge 0, or the strategy Recreate: one pod or one node has the volume at a time."),
    "way.raise-quota": _("Raise the quota, or use less of it"),
    "way.raise-quota.does": _("Whoever owns the namespace’s ResourceQuota; its controller tries again by itself."),
    "way.ask-admission": _("Ask whoever owns the rule"),
    "way.ask-admission.does": _("An admission rule refuses the pods; its own words stand above."),
    "way.change-placing": _("Change where it may run"),
    "way.change-placing.does": _("Node selector, affinity or tolerations: the scheduler says above what nodes lack."),
    "way.check-controller": _("Look at the controller"),
    "way.check-controller.does": _("If this lasts longer than seconds, kube-controller-manager is not at work."),
    "way.undo": _("Undo to revision {subject}"),
    "way.undo.does": ngettext("{n} pod of it still serves.", "{n} pods of it still serve."),
    "way.open": _("Open {node}"),
}

# Before a new version
STRATEGIES: Patterns = {
    "strategy.blue-green": _("Blue/green"),
    "strategy.blue-green.means": _("a full copy beside the old one, then switch"),
    "strategy.surge-one": _("One more"),
    "strategy.replace-one": _("One less"),
    "strategy.present": _("As it is set"),
    "strategy.set": _("maxSurge {surge}, maxUnavailable {unavailable}"),
    "strategy.finishes": _("gets through"),
    "strategy.stops": _("cannot get through"),
    "strategy.best": _("fits best"),
    "strategy.of": _("{have} of {want}"),
    "strategy.with-stopping": ngettext("{n} with pods that stop", "{n} with pods that stop"),
    "strategy.doubt.no-room": ngettext(
        "{n} GPU more has to be free, in pieces of a whole pod",
        "{n} GPUs more have to be free, in pieces of a whole pod",
    ),
    "strategy.doubt.volume": _("waits for a volume that old pods keep"),
    "strategy.doubt.less-capacity": _("fewer than wanted serve meanwhile"),
    "strategy.doubt.outage": _("nothing serves meanwhile"),
    "strategy.doubt.stopping": _("pods that stop hold GPUs on top"),
    "strategy.advice": _("{kind} fits best: it spares most capacity of those that get through."),
    "strategy.advice-none": _("None gets through with the GPUs that are free now."),
    "strategy.room": ngettext(
        "{n} new pod finds a place right now, the largest hole is {hole}.",
        "{n} new pods find places right now, the largest hole is {hole}.",
    ),
    "strategy.no-gpus": _("Its pods ask for no GPUs: no hole limits them."),
}

# On the Help page
HELP: Patterns = {
    "help.rollout.held": _("it does not get on by itself: its page says why, and what would help"),
    "help.rollout.waits": _("something is in the way that may pass by itself"),
    "help.rollout.rolling": _("pods are replaced within the bounds of its strategy"),
    "help.rollout.not-observed": _("what is known of it is about an older version"),
    "help.rollout.manual": _("its strategy is OnDelete: a pod is replaced when somebody deletes it"),
    "help.rollout.paused": _("somebody has paused it; no deadline runs"),
    "help.rollout.left": _("kubectl calls it done, but pods still stop, still answer, or are not available yet"),
    "help.rollout.done": _("every pod is of the newest version and available"),
}

OF_ROLLOUTS: Patterns = {**ROLLOUTS, **ROLLOUT, **WAYS, **STRATEGIES, **HELP}
