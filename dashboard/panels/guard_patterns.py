"""What the guards of an action say, in English; part of the table in `patterns`, whose rules hold here too.

Owns wording only. `guard.G` is what it says when it passes, `guard.G.R` what it found for reason R, `guard.G.R.why` the evidence
for that, `remedy.R` how to make it safe. Holes are names of evidence, and `subject`.
"""

from django.utils.translation import gettext_noop as _

from dashboard.panels.plurals import Patterns, ngettext

SITE: Patterns = {
    "guard.role": _("Your role allows it"),
    "guard.role.viewer": _("Your role does not allow it"),
    "guard.role.viewer.why": _("You are {role} on this cluster."),
    "guard.cluster-open": _("Vigie may change this cluster"),
    "guard.cluster-open.read-only": _("Vigie is read-only for this cluster"),
    "guard.cluster-open.read-only.why": _("VIGIE_ACTIONS does not name {cluster}."),
    "guard.target-known": _("The node is in the cluster"),
    "guard.target-known.missing": _("There is no node {subject} in the cluster"),
    "guard.fresh": _("Everything was read just now"),
    "guard.fresh.old": _("What was read is too old to decide on"),
    "guard.fresh.old.why": _("The oldest of it is {age_s} old."),
    "guard.permissions": _("The cluster allows Vigie everything that this takes"),
    "guard.permissions.denied": _("The cluster does not allow Vigie to {subject}"),
    "guard.permissions.denied.why": _("Its account lacks the verb {verb} on {resource}."),
    "guard.alone": _("No other action is under way there"),
    "guard.alone.running": _("{action} is under way there already"),
    "guard.cordon-owner": _("Nobody else has cordoned the node"),
    "guard.cordon-owner.foreign": _("Somebody else has cordoned {subject}"),
    "guard.cordon-owner.foreign.why": _("Who has cordoned a node decides when it is opened again."),
    "guard.cordon-owner.stays-cordoned": _("{subject} stays cordoned at the end"),
    "guard.cordon-owner.stays-cordoned.why": _("Somebody else has cordoned it, so Vigie will not open it."),
    "guard.window": _("Maintenance may begin now"),
    "guard.window.frozen": _("Nothing may be changed before {until_at}"),
    "guard.window.frozen.why": _("The site’s policy has a freeze. Its reason: {why}."),
    "guard.window.closed": _("It is outside the maintenance window"),
    "guard.window.closed.why": _("The next window is open from {from} to {to} ({zone})."),
    "guard.control-plane": _("The node is no control-plane node"),
    "guard.control-plane.control-plane": _("{subject} is a control-plane node"),
    "guard.control-plane.control-plane.why": _("The cluster itself runs on it."),
    "guard.failure-domain": _("Not too many nodes are under maintenance at once"),
    "guard.failure-domain.rack": _("Rack {name} has maintenance enough already"),
    "guard.failure-domain.zone": _("Zone {name} has maintenance enough already"),
    "guard.failure-domain.pool": _("Pool {name} has maintenance enough already"),
    "guard.failure-domain.cluster": _("The cluster has maintenance enough already"),
    "guard.failure-domain.rack-unknown": _(
        "Nodes of pool {pool} whose rack is unknown have maintenance enough already"
    ),
    "guard.failure-domain.zone-unknown": _(
        "Nodes of pool {pool} whose zone is unknown have maintenance enough already"
    ),
    "guard.failure-domain.pool-unknown": _("Nodes whose pool is unknown have maintenance enough already"),
    "guard.failure-domain.rack-unknown.why": _(
        "Under way: {running}, the limit is {limit}. No label tells racks apart, so all of them count as one."
    ),
    "guard.failure-domain.zone-unknown.why": _(
        "Under way: {running}, the limit is {limit}. No label tells zones apart, so all of them count as one."
    ),
    "guard.failure-domain.pool-unknown.why": _(
        "Under way: {running}, the limit is {limit}. No label tells pools apart, so all of them count as one."
    ),
    "guard.failure-domain.rack.why": _("Under way: {running}, the limit is {limit}."),
    "guard.failure-domain.zone.why": _("Under way: {running}, the limit is {limit}."),
    "guard.failure-domain.pool.why": _("Under way: {running}, the limit is {limit}."),
    "guard.failure-domain.cluster.why": _("Under way: {running}, the limit is {limit}."),
    "guard.breaker": _("Few enough GPU nodes are out"),
    "guard.breaker.too-many-out": _("Too many GPU nodes are out already"),
    "guard.breaker.too-many-out.why": _("{out} of {nodes} cannot be used, and the limit is {limit_pct} %."),
    "guard.capacity-floor": _("The pool keeps the GPUs that its policy asks for"),
    "guard.capacity-floor.below": _("Pool {pool} would have {left} GPUs left, and needs {floor}"),
    "guard.node-answers": _("The node’s kubelet reports"),
    "guard.node-answers.silent": _("{subject} is silent"),
    "guard.node-answers.silent.why": _(
        "A silent kubelet stops no pod: they would be terminating for as long as it is silent."
    ),
    "guard.telemetry": _("Readings of the GPUs are fresh"),
    "guard.telemetry.not-measured": _("Nobody measures the GPUs of {subject}"),
    "guard.telemetry.not-measured.why": _(
        "There are no readings of them, or the picture is away: how they are now, and whether they come back well, is unknown."
    ),
    "guard.telemetry.silent": _("The GPUs of {subject} send no readings"),
    "guard.telemetry.silent.why": _(
        "The last ones are {age_s} old. Without them nobody can prove that the GPUs came back well."
    ),
}

PODS: Patterns = {
    "guard.checkpoint": _("No training work would be lost"),
    "guard.checkpoint.unknown": _("Nobody knows what {subject} has saved"),
    "guard.checkpoint.unknown.why": ngettext(
        "No complete checkpoint of it is known. All that it did since it began may be lost, on {n} GPU.",
        "No complete checkpoint of it is known. All that it did since it began may be lost, on {n} GPUs.",
    ),
    "guard.checkpoint.none": _("{subject} has saved nothing complete yet"),
    "guard.checkpoint.none.why": ngettext(
        "Its store was read just now. All that it did since it began may be lost, on {n} GPU.",
        "Its store was read just now. All that it did since it began may be lost, on {n} GPUs.",
    ),
    "guard.checkpoint.not-granted": _("Vigie may not read what {subject} has saved"),
    "guard.checkpoint.not-granted.why": _(
        "The site’s policy grants no store for it, so what it would lose is unknown."
    ),
    "guard.checkpoint.unreadable": _("What {subject} has saved cannot be read"),
    "guard.checkpoint.unreadable.why": _("Its store was tried just now, so what it would lose is unknown."),
    "guard.checkpoint.late": _("The store of {subject} does not answer in time"),
    "guard.checkpoint.late.why": _("A plan waits 2 s for it, so what it would lose is unknown."),
    "guard.checkpoint.undeclared": _("Nobody says where {subject} saves"),
    "guard.checkpoint.undeclared.why": _("So what it would lose is unknown: it may be all that it did since it began."),
    "guard.checkpoint.local": _("{subject} saves only where nobody else can read"),
    "guard.checkpoint.local.why": _(
        "On its own pod or node. What it would lose is unknown, and what it saved goes with it."
    ),
    "guard.checkpoint.shared": _("Which checkpoints are those of {subject} cannot be told"),
    "guard.checkpoint.shared.why": _(
        "Another workload, or another pod of its own, saves in or below the same directory. Let each declare one of its own."
    ),
    "guard.checkpoint.clock": _("How old the checkpoint of {subject} is cannot be told"),
    "guard.checkpoint.clock.why": _(
        "It is dated later than Vigie saw it, so clocks differ. Set that of the store, of the node that writes, or of Vigie."
    ),
    "guard.checkpoint.untimed": _("How old the state is that {subject} reports cannot be told"),
    "guard.checkpoint.untimed.why": _(
        "It does not say how long its save took, and no earlier one tells. Let it report duration_s."
    ),
    "guard.checkpoint.reported": _("Only {subject} itself says that it has saved"),
    "guard.checkpoint.reported.why": _("It reports step {step}, {age_s} ago. No store that Vigie reads shows it."),
    "guard.checkpoint.saved-first": _("{subject} saves a checkpoint in the step “Save first”, before any pod goes"),
    "guard.checkpoint.durability-unknown": _("Whether the checkpoint of {subject} outlives it is unknown"),
    "guard.checkpoint.dies-with-pod": _("The only checkpoint of {subject} dies with it"),
    "guard.checkpoint.age": _("{subject} loses {age_s} of training"),
    "guard.checkpoint.age.why": _("Since its last complete checkpoint, at step {step}."),
    "guard.scratch": _("No emptyDir with something in it would be lost"),
    "guard.scratch.undeclared": _("{subject} loses its emptyDir {volume}"),
    "guard.scratch.undeclared.why": _("How much is in it: {bytes}. It is deleted with the pod."),
    "guard.scratch.declared": _("{subject} loses its emptyDir {volume}, declared as scratch"),
    "guard.scratch.declared.why": _("How much is in it: {bytes}. Its team says that nobody misses it."),
    "guard.scratch.in-memory": _("{subject} loses its emptyDir {volume}, which is in memory"),
    "guard.scratch.in-memory.why": _("What is in memory does not outlive a restart either."),
    "guard.unmanaged": _("Every pod has a controller that brings it back"),
    "guard.unmanaged.unmanaged": _("Nobody brings {subject} back"),
    "guard.unmanaged.unmanaged.why": _("It has no controller: to evict it is to delete it."),
    "guard.unmanaged.daemon-gone": _("Nobody brings {subject} back"),
    "guard.unmanaged.daemon-gone.why": _("Its DaemonSet does not exist any more: to evict it is to delete it."),
    "guard.undisturbed": _("No pod asks not to be disturbed"),
    "guard.undisturbed.annotated": _("{subject} asks not to be disturbed"),
    "guard.undisturbed.annotated.why": _("By its annotation {annotation}."),
    "guard.budgets-known": _("All disruption budgets were read"),
    "guard.budgets-known.unreadable": _("Vigie may not read disruption budgets"),
    "guard.budgets-known.unreadable.why": _("What cannot be read may forbid this."),
    "guard.one-budget": _("No pod is under two disruption budgets"),
    "guard.one-budget.two-budgets": _("{subject} is under two disruption budgets"),
    "guard.one-budget.two-budgets.why": _("{budgets}. The API server refuses to evict such a pod, for ever."),
    "guard.budgets": _("Disruption budgets let every pod go at once"),
    "guard.budgets.never": _("Budget {budget} never lets {subject} go"),
    "guard.budgets.never.why": _(
        "It needs {needs} healthy pods and {expected} are expected: not even with all of them Ready may one go."
    ),
    "guard.budgets.unknown": _("Whether budget {budget} lets {subject} go is unknown"),
    "guard.budgets.unknown.why": _(
        "It counts pods of a controller of a kind that Vigie does not read, and its status does not tell how many it expects."
    ),
    "guard.budgets.no-replacement": _(
        "Budget {budget} lets {subject} go only after others are back, and they have no place"
    ),
    "guard.budgets.no-replacement.why": _("It needs {needs} healthy pods and has {healthy}."),
    "guard.budgets.waits": _("{subject} waits for budget {budget}"),
    "guard.budgets.waits.why": _(
        "It needs {needs} healthy pods and has {healthy}: pods that go first have to be back."
    ),
    "guard.budgets.unready": _("{subject} waits until it is Ready, by budget {budget}"),
    "guard.budgets.unready.why": _(
        "It needs {needs} healthy pods and has {healthy}, and protects pods that are not Ready too."
    ),
    "guard.placement": _("There is room for every pod"),
    "guard.placement.no-place": _("There is no room for {subject}"),
    "guard.placement.no-place.why": _("It needs {gpus}. {nodes}."),
    "guard.volumes": _("No volume keeps a pod here"),
    "guard.volumes.claim-unknown": _("Vigie does not know the volume {claim} of {subject}"),
    "guard.volumes.claim-unknown.why": _("Whether it can be mounted elsewhere is unknown."),
    "guard.volumes.local": _("The volume {claim} keeps {subject} on this node"),
    "guard.volumes.local.why": _("Its data is only here: its replacement would wait until this node is back."),
    "guard.volumes.one-node-at-a-time": _("{subject} comes back when its volume {claim} has moved"),
    "guard.volumes.one-node-at-a-time.why": _("One node at a time may mount it."),
    "guard.service": _("Every service keeps its Ready pods"),
    "guard.service.none-left": _("{workload} would have no Ready pod left"),
    "guard.service.none-left.why": _("Ready now: {ready}; on this node: {leaving}."),
    "guard.service.unknown": _("How many pods of {workload} are Ready is unknown"),
    "guard.service.unknown.why": _("On this node: {leaving}."),
    "guard.service.unreadable": _("Vigie may not read Services"),
    "guard.service.unreadable.why": _("What serves requests, and with how many pods, is unknown."),
    "guard.service.fewer": _("{workload} has fewer pods for a while"),
    "guard.service.fewer.why": _("Ready now: {ready}; on this node: {leaving}."),
    "guard.requests": _("No request would be cut off"),
    "guard.requests.unknown": _("How many requests {subject} serves is unknown"),
    "guard.requests.unknown.why": _("It declares no metric that answers. It has {grace_s} to finish them."),
    "guard.requests.in-flight": ngettext("{subject} serves {n} request now", "{subject} serves {n} requests now"),
    "guard.requests.in-flight.why": _("It has {grace_s} to finish them."),
    "guard.gang": _("No job stops on other nodes"),
    "guard.gang.stops-others": ngettext("{n} more pod stops with {subject}", "{n} more pods stop with {subject}"),
    "guard.gang.stops-others.why": _("All ranks of a job stop when one goes: {gpus} on other nodes."),
    "guard.daemons-known": _("All DaemonSets were read"),
    "guard.daemons-known.daemon-unreadable": _("Whether the DaemonSet of {subject} exists is unknown"),
    "guard.daemons-known.daemon-unreadable.why": _("Vigie may not read DaemonSets."),
    "guard.server": _("The API server would accept every eviction"),
    "guard.server.forbidden": _("The API server forbids to evict {subject}"),
    "guard.server.forbidden.why": _("It says: {message}"),
    "guard.server.two-budgets": _("The API server finds {subject} under two disruption budgets"),
    "guard.server.two-budgets.why": _("It says: {message}"),
    "guard.server.rejected": _("The API server will not evict {subject}"),
    "guard.server.rejected.why": _("It says: {message}"),
    # Of many pods at once, by guard or by its reason
    "guard.many": _("{n} pods are concerned"),
    "guard.checkpoint.many": _("{n} pods may lose training work"),
    "guard.checkpoint.age.many": _("{n} pods lose training since their last complete checkpoints"),
    "guard.scratch.many": _("{n} pods lose an emptyDir"),
    "guard.scratch.declared.many": _("{n} pods lose an emptyDir that is scratch"),
    "guard.scratch.in-memory.many": _("{n} pods lose an emptyDir that is in memory"),
    "guard.unmanaged.many": _("{n} pods are brought back by nobody"),
    "guard.undisturbed.many": _("{n} pods ask not to be disturbed"),
    "guard.one-budget.many": _("{n} pods are under two disruption budgets"),
    "guard.budgets.many": _("{n} pods are held by their disruption budgets"),
    "guard.budgets.waits.many": _("{n} pods wait for their disruption budgets"),
    "guard.budgets.unready.many": _("{n} pods wait until they are Ready, by their disruption budgets"),
    "guard.placement.many": _("{n} pods have no other place"),
    "guard.volumes.many": _("{n} pods have volumes that keep them here, or may"),
    "guard.volumes.one-node-at-a-time.many": _("{n} pods come back when their volumes have moved"),
    "guard.service.many": _("{n} services may have no Ready pod left"),
    "guard.service.fewer.many": _("{n} services have fewer pods for a while"),
    "guard.requests.many": _("{n} pods serve requests, and how many is unknown"),
    "guard.requests.in-flight.many": _("{n} pods serve requests now"),
    "guard.gang.many": _("{n} pods stop others of their jobs on other nodes"),
    "guard.daemons-known.many": _("{n} pods belong to DaemonSets that may not exist"),
    "guard.server.many": _("{n} pods will not be evicted by the API server"),
    # Why nodes take no pod: each with how many nodes there are
    "guard.unfit.not-ready": ngettext("{n} node is not Ready", "{n} nodes are not Ready"),
    "guard.unfit.cordoned": ngettext("{n} node is cordoned", "{n} nodes are cordoned"),
    "guard.unfit.tainted": ngettext(
        "{n} node has a taint that it does not tolerate", "{n} nodes have taints that it does not tolerate"
    ),
    "guard.unfit.node-affinity": ngettext("{n} node is none that it wants", "{n} nodes are none that it wants"),
    "guard.unfit.host-port": ngettext("{n} node has its host port in use", "{n} nodes have its host port in use"),
    "guard.unfit.too-many-pods": ngettext("{n} node is full of pods", "{n} nodes are full of pods"),
    "guard.unfit.no-gpus": ngettext("{n} node has too few free GPUs", "{n} nodes have too few free GPUs"),
    "guard.unfit.no-room": ngettext("{n} node lacks processor or memory", "{n} nodes lack processor or memory"),
    "guard.unfit.volume": ngettext("{n} node cannot mount its volume", "{n} nodes cannot mount its volume"),
    "guard.unfit.pod-affinity": ngettext(
        "{n} node is ruled out by other pods", "{n} nodes are ruled out by other pods"
    ),
    "guard.unfit.spread": ngettext("{n} node would break its spread", "{n} nodes would break its spread"),
    "guard.unfit.none": _("No other node was found"),
}

REMEDIES: Patterns = {
    "remedy.ask-operator": _("Ask an operator of this cluster."),
    "remedy.name-cluster": _("Name the cluster in VIGIE_ACTIONS, if Vigie shall change it."),
    "remedy.check-name": _("Check the name; it may have been removed."),
    "remedy.compute-again": _("Compute the plan again."),
    "remedy.grant": _("Grant it to Vigie’s account, in a Role or a ClusterRole."),
    "remedy.wait-or-stop": _("Wait for its end, or stop it."),
    "remedy.ask-who-cordoned": _(
        "Ask whoever has cordoned it. The node’s annotations and kubectl describe may tell who."
    ),
    "remedy.wait-for-window": _("Wait until maintenance is allowed again."),
    "remedy.use-own-runbook": _("Follow the runbook of whoever runs the control plane."),
    "remedy.label-nodes": _(
        "Wait until the maintenance of the others has ended, or label the nodes: topology.kubernetes.io/rack and /zone."
    ),
    "remedy.measure": _("Wait for a reading, or let the agent or dcgm-exporter run on the node."),
    "remedy.look-at-budget": _(
        "Look what kubectl describe pdb says of it. A count in minAvailable needs no controller’s scale."
    ),
    "remedy.wait-for-others": _("Wait until the maintenance of the others has ended."),
    "remedy.bring-back": _("Bring other nodes back first."),
    "remedy.wait-for-kubelet": _("Wait until its kubelet reports, or repair it at the machine."),
    "remedy.restart-agent": _("Restart the agent’s pod on the node, or wait for its readings."),
    "remedy.save-first": _("Save first: tick “Save a checkpoint first” and compute the plan again."),
    "remedy.let-save": _("Let the job save a checkpoint, or ask its team when it may stop."),
    "remedy.mend-hook": _(
        "Its annotation vigie.dev/checkpoint-hook means nothing: it has to be http:8080/save or signal:USR1:container."
    ),
    "remedy.allow-exec": _(
        "It saves on a signal: name its namespace in [checkpoints] exec of the policy, so that Vigie may send it."
    ),
    "remedy.grant-store": _("Grant its store by a [[store]] of the policy, so that its checkpoints can be read."),
    "remedy.copy-checkpoint": _("Copy the checkpoint to storage that outlives the pod."),
    "remedy.save-or-declare": _("Copy what is in it, or let its team declare it: annotation vigie.dev/scratch."),
    "remedy.make-managed": _("Let a controller own it, or ask its team whether it may go."),
    "remedy.ask-owner": _("Ask its team, who has written that."),
    "remedy.grant-budgets": _("Grant Vigie’s account to list poddisruptionbudgets."),
    "remedy.grant-daemonsets": _("Grant Vigie’s account to list daemonsets."),
    "remedy.merge-budgets": _("Change the selectors, so that one budget covers it."),
    "remedy.change-budget": _("Let its team lower the budget, or add a replica."),
    "remedy.make-room": _("Make room: free GPUs elsewhere, or open another node."),
    "remedy.move-data": _("Move the data, or wait until its team can do without the pod."),
    "remedy.add-replica": _("Add a replica on another node and wait until it is Ready."),
    "remedy.see-message": _("The message tells what is in the way."),
}

GUARDS: Patterns = {**SITE, **PODS, **REMEDIES}
