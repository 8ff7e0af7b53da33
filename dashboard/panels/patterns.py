"""The table of live sentences in English, the language of the message ids; `frontend/locale` holds the others.

Owns wording only. One count per pattern, named `n`; sentences with several counts are put together from several patterns. Some
spaces are no-break spaces, literally, since the tools that collect message ids do not read escapes.
"""

from django.utils.translation import gettext_noop as _

from dashboard.panels.action_patterns import ACTION_PATTERNS
from dashboard.panels.advice_patterns import ADVICE
from dashboard.panels.cadence_patterns import CADENCE
from dashboard.panels.checkpoint_page_patterns import CHECKPOINT_PAGES
from dashboard.panels.checkpoint_patterns import CHECKPOINT_CONCERNS, HELP_CHECKPOINTS
from dashboard.panels.gpu_concern_patterns import OF_GPUS
from dashboard.panels.gpu_patterns import GPU
from dashboard.panels.guard_patterns import GUARDS
from dashboard.panels.node_patterns import NODE
from dashboard.panels.pair_patterns import PAIRS
from dashboard.panels.past_patterns import AVAILABILITY, PAST
from dashboard.panels.plurals import Patterns, ngettext
from dashboard.panels.readiness_patterns import READINESS
from dashboard.panels.release_patterns import RELEASES
from dashboard.panels.rollout_patterns import OF_ROLLOUTS

STATES: Patterns = {
    "state.busy": _("Busy"),
    "state.free": _("Free"),
    "state.idle": _("Allocated, idle"),
    "state.degraded": _("Degraded"),
    "state.failed": _("Failed"),
    "state.draining": _("Draining"),
    "state.cordoned": _("Cordoned or tainted"),
    "state.tainted": _("Tainted"),
    "state.unknown": _("Unknown"),
    "count.busy": ngettext("{n} busy", "{n} busy"),
    "count.free": ngettext("{n} free", "{n} free"),
    "count.idle": ngettext("{n} allocated but idle", "{n} allocated but idle"),
    "count.degraded": ngettext("{n} degraded", "{n} degraded"),
    "count.failed": ngettext("{n} failed", "{n} failed"),
    "count.draining": ngettext("{n} draining", "{n} draining"),
    "count.cordoned": ngettext("{n} cordoned", "{n} cordoned"),
    "count.tainted": ngettext("{n} tainted", "{n} tainted"),
    "count.closed": ngettext("{n} closed", "{n} closed"),
    "count.unknown": ngettext("{n} unknown", "{n} unknown"),
}

TIMES: Patterns = {
    "age.s": _("{n} s"),
    "age.min": _("{n} min"),
    "age.h": _("{n} h {min} min"),
    "age.min-s": _("{n} min {s} s"),
    "age.d": _("{n} d"),
    "clock.day": _("{day} {month} {time}"),
    "clock.year": _("{day} {month} {year}"),
}

KEY_NUMBERS: Patterns = {
    "kpi.of": _("/ {total}"),
    "kpi.one-node": _("on one node"),
    "kpi.of-nodes": ngettext("of {n} node", "of {n} nodes"),
    "kpi.cordoned": ngettext("{n} cordoned", "{n} cordoned"),
    "kpi.silent": ngettext("{n} on silent nodes", "{n} on silent nodes"),
    "kpi.withdrawn": ngettext("{n} withdrawn", "{n} withdrawn"),
    "kpi.tainted": ngettext("{n} on tainted nodes", "{n} on tainted nodes"),
    "kpi.all-available": _("every one can be used"),
    "kpi.no-gpus": _("no GPUs in this cluster"),
    "kpi.product": _("{count} {product}"),
    "kpi.none-free": _("nothing is free"),
    "kpi.hole": _("{product}, on {node}"),
    "kpi.of-size": _("with {size} GPUs"),
    "kpi.room": _("{count} with {size}"),
    "kpi.percent": _("{n} %"),
    "kpi.for-size": _("for {size}"),
    "kpi.fragmented": _("{percent} for {size}"),
    "kpi.fragmented-product": _("{product} {percent}"),
    "kpi.not-applicable": _("nothing free to split"),
    "kpi.oldest": _("oldest {age}, needs {gpus}"),
    "kpi.oldest-unknown": _("oldest needs {gpus}"),
    "kpi.no-wait": _("none waits"),
    "kpi.all-ready": _("all nodes are Ready"),
    "kpi.silent-gpus": ngettext("{n} GPU cannot be used", "{n} GPUs cannot be used"),
    "kpi.unhealthy": _("unhealthy to their device plugin"),
    "kpi.over": ngettext(
        "apart from them, {n} slot is over-committed", "apart from them, {n} slots are over-committed"
    ),
    "kpi.none-withdrawn": _("no device plugin calls any unhealthy"),
    "gpus": ngettext("{n} GPU", "{n} GPUs"),
    "nodes": ngettext("{n} node", "{n} nodes"),
}

MAP: Patterns = {
    "map.size": _("{nodes}, {gpus}"),
    "map.shown": _("{nodes} shown"),
    "map.claims": ngettext(
        "GPUs by DRA not counted ({n} pod)",
        "GPUs by DRA not counted ({n} pods)",
    ),
    "group.even": ngettext("{n} node × {slots} {product}", "{n} nodes × {slots} {product}"),
    "group.available": _("{available} of {total} available"),
    "group.free": ngettext("{n} free", "{n} free"),
    "group.none": _("no pool or zone"),
    "group.path": _("{pool} / {zone}"),
    "card.none": _("no GPUs"),
    "card.free": ngettext("{n} free", "{n} free"),
    "card.alt": _(". {gpus}: {counts}."),
    "card.alt-none": _(". No GPUs."),
}

# What a node's card says, by its most urgent reason; "-short" where its facts are not known.
CARDS: Patterns = {
    "card.node-unreachable": _("Silent for {age}"),
    "card.node-unreachable-short": _("Silent"),
    "card.node-not-ready": _("Not Ready {age}"),
    "card.node-not-ready-short": _("Not Ready"),
    "card.gpus-missing-short": _("No GPU slots"),
    "card.gpus-withdrawn": ngettext("{n} GPU withdrawn", "{n} GPUs withdrawn"),
    "card.over-committed": ngettext("{n} slot over-committed", "{n} slots over-committed"),
    "card.node-tainted": _("Tainted: {taint}"),
    "card.node-tainted-short": _("Tainted"),
    "card.cordoned": _("Cordoned {age}"),
    "card.cordoned-short": _("Cordoned"),
}

WORKLOADS: Patterns = {
    "table.workloads": _("Workloads, with what they want and have"),
    "column.workload": _("Workload"),
    "column.gpus-held": _("GPUs held"),
    "column.state": _("State"),
    "column.updated": _("Updated"),
    "column.team": _("Team"),
    "workloads.each": ngettext("{n} each", "{n} each"),
    "workloads.unknown": _("how many are wanted is unknown"),
    "workloads.short": ngettext("lacks {n} pod", "lacks {n} pods"),
    "workloads.since": _("for {age}"),
    "workloads.paused": _("paused"),
    "workloads.none-wanted": _("none wanted"),
    "workloads.complete": _("has all its pods"),
    "workloads.count": ngettext("{n} workload", "{n} workloads"),
    "workloads.held": _("{gpus} held"),
}

WAITING: Patterns = {
    "table.waiting": _("Pods that wait for GPUs"),
    "column.needs": _("Needs on one node"),
    "column.hole": _("Largest hole now"),
    "column.fits": _("Would fit"),
    "column.scheduler": _("The scheduler says"),
    "waiting.no-word": _("nothing yet"),
    "waiting.now": _("now on {nodes}"),
    "waiting.not-now": _("nowhere now"),
    "waiting.nowhere": _("on no node of this cluster"),
    "waiting.uncordoned": _("if uncordoned: {nodes}"),
    "waiting.emptied": _("if emptied: {nodes}"),
    "waiting.to-move": _("{node} ({gpus} to move)"),
    "list.and-next": _("{list}, {next}"),
    "list.more": ngettext("{list} and {n} more", "{list} and {n} more"),
}

WALL: Patterns = {
    "wall.more": ngettext("{n} more failure", "{n} more failures"),
    "wall.rest": ngettext("{n} more needs attention", "{n} more need attention"),
    "wall.of": _("{available} of {total}"),
    "wall.since": _("since {time}"),
}

CLUSTERS: Patterns = {
    "clusters.attention": ngettext("{n} needs attention", "{n} need attention"),
    "clusters.calm": _("Nothing needs attention."),
}

HELP: Patterns = {
    "help.state.busy": _("allocated to a pod; the height is the utilisation where it is measured"),
    "help.state.free": _("on a usable node and allocated to nobody"),
    "help.state.idle": _("allocated, under 3 % utilisation for 10 min"),
    "help.state.degraded": _("works, with errors, throttling or a pending remap"),
    "help.state.failed": _("cannot be used; without measurement: withdrawn by the device plugin"),
    "help.state.draining": _("still occupied on a node that is being drained"),
    "help.state.cordoned": _("healthy as far as known, but its node is closed for new pods"),
    "help.state.unknown": _("its node is silent, or nothing has been heard of it"),
    "help.level.bad": _("Failed"),
    "help.means.bad": _("something is broken or GPUs are lost"),
    "help.level.warn": _("At risk"),
    "help.means.warn": _("works, but not as it should"),
    "help.level.drain": _("Maintenance"),
    "help.means.drain": _("a drain or reboot is under way"),
    "help.level.off": _("Closed"),
    "help.means.off": _("cordoned, tainted or not Ready: no new pods"),
    "help.level.silent": _("Silent"),
    "help.means.silent": _("its kubelet has stopped reporting"),
    "help.level.note": _("Note"),
    "help.means.note": _("good to know, nothing to do"),
    "help.concern.node-unreachable": _("The kubelet no longer reports: condition Ready is Unknown."),
    "help.concern.node-not-ready": _("The kubelet says that the node is not Ready."),
    "help.concern.gpus-missing": _("Labels tell of GPUs, but the node offers no slot: look at its device plugin."),
    "help.concern.gpus-withdrawn": _(
        "The device plugin calls some devices unhealthy: allocatable is less than capacity."
    ),
    "help.concern.over-committed": _("Pods hold more slots than can be allocated."),
    "help.concern.rollout-held": _(
        "A new version of a workload with GPUs does not get on by itself, or is past its deadline. Its page ranks the ways out."
    ),
    "help.concern.pods-held-up": _(
        "Pods without GPUs, or of a workload that has one version alone, do not come up: crashes, images, quota …"
    ),
    "help.concern.workload-short": _("Fewer pods are available than wanted."),
    "help.concern.pods-waiting": _("Pods that want GPUs have no node."),
    "help.concern.workload-starting": _(
        "Fewer pods are available than wanted, but they are starting or a rollout goes on: look again if it stays."
    ),
    "help.concern.node-tainted": _("Ready and not cordoned, but a taint keeps GPU pods away."),
    "help.concern.cordoned": _("Somebody closed the node for new pods."),
    "help.concern.claims": _("Some pods get GPUs by resource claims (DRA), which no number here counts."),
    "help.fresh.live": _("known to be true less than 10 s ago"),
    "help.fresh.late": _("10 to 60 s old"),
    "help.fresh.lost": _(
        "older than 60 s, or the connection, the API server or Vigie’s worker is known to be lost: grey, last known state"
    ),
    "help.label.pool": _("Pool"),
    "help.label.zone": _("Zone"),
    "help.label.product": _("GPU model"),
    "help.label.machine": _("Machine"),
    "help.label.physical": _("Physical GPUs"),
    "help.label.shares": _("Slots that share one GPU"),
    "help.label.memory": _("Memory per GPU"),
    "help.label.driver": _("Driver"),
    "help.label.cuda": _("CUDA"),
    "help.label.team": _("Team"),
    "help.label.revision": _("Revision of a Deployment"),
    "help.label.closed": _("Taint that a cordon sets"),
    "help.key.0": _("search"),
    "help.key.1": _("next region; one stop per group of the dense map"),
    "help.key.2": _("move within a group, and between results"),
    "help.key.3": _("open"),
    "help.key.4": _("close a menu, leave the search field"),
}

SEARCH: Patterns = {
    "search.nodes": _("Nodes"),
    "search.gpus": _("GPUs"),
    "search.pods": _("Pods"),
    "search.workloads": _("Workloads"),
    "search.checkpoints": _("Checkpoints"),
    "search.saved": _("{age} old"),
    "search.namespaces": _("Namespaces"),
    "search.no-node": _("no node yet"),
    "search.more": ngettext("{n} more: type more of the name.", "{n} more: type more of the name."),
}

# One title and one line of evidence per kind of the attention list.
ATTENTION: Patterns = {
    "attention.open": _("Open {node}"),
    "attention.do.drain": _("Drain {node} …"),
    "attention.do.maintain": _("Maintain {node} …"),
    "attention.open-waiting": _("Open waiting pods"),
    "attention.open-workloads": _("Open workloads"),
    "attention.stream": _("Changes of {kind} do not arrive"),
    "evidence.stream": _("What is shown of them may be old. The last try ended with: {reason}."),
    "attention.forbidden": _("Vigie may not read {kind}"),
    "evidence.forbidden": _("The API server refuses (403). Vigie’s account needs get, list and watch on them."),
    "attention.server": _("No changes arrive from this cluster"),
    "evidence.server": _(
        "Its API server cannot be read, so everything here may be old. The last try ended with: {reason}."
    ),
    "evidence.held": ngettext("{n} pod runs there, holding {gpus}.", "{n} pods run there, holding {gpus}."),
    "evidence.held-none": ngettext("{n} pod runs there, without GPUs.", "{n} pods run there, none with GPUs."),
    "evidence.held-nobody": _("No pod runs there."),
    "attention.node-unreachable": _("{node} is silent"),
    "evidence.node-unreachable": _("Its kubelet has stopped reporting, so its GPUs are unknown. {held}"),
    "attention.node-not-ready": _("{node} is not Ready"),
    "evidence.node-not-ready": _("{message}. {held}"),
    "attention.gpus-missing": _("{node} offers none of its GPUs"),
    "evidence.gpus-missing": _("Its labels tell of {gpus}, but it has no slot for pods. Look at its device plugin."),
    "attention.gpus-withdrawn": ngettext("{n} GPU of {node} is withdrawn", "{n} GPUs of {node} are withdrawn"),
    "evidence.gpus-withdrawn": ngettext(
        "Its device plugin reports {n} of {capacity} {resource} as unhealthy.",
        "Its device plugin reports {n} of {capacity} {resource} as unhealthy.",
    ),
    "attention.over-committed": ngettext(
        "{node} is over-committed by {n} slot", "{node} is over-committed by {n} slots"
    ),
    "evidence.over-committed": _("Pods hold {asked} {resource}, and only {room} can be allocated."),
    "attention.workload-short": ngettext("{name} lacks {n} pod", "{name} lacks {n} pods"),
    "evidence.workload-short": _("{owner}: {available} of {desired} available, {ready} Ready. {each}"),
    "evidence.each": _("Each needs {gpus}."),
    "gpus.of": ngettext("{n} {product}", "{n} {product}"),
    "attention.pods-waiting": ngettext("{n} pod of {name} waits for GPUs", "{n} pods of {name} wait for GPUs"),
    "attention.pod-waiting": _("Pod {name} waits for GPUs"),
    "evidence.pods-waiting": ngettext(
        "Needs {need} on one node; the largest free block is {hole}.",
        "Each needs {need} on one node; the largest free block is {hole}.",
    ),
    "evidence.pods-waiting-other": ngettext(
        "Needs {need} on one node. The scheduler says: {reason}",
        "Each needs {need} on one node. The scheduler says: {reason}",
    ),
    "attention.workload-starting": ngettext("{n} pod of {name} is on its way", "{n} pods of {name} are on their way"),
    "evidence.workload-starting": _("{owner}: {available} of {desired} available, {ready} Ready. {each}"),
    "attention.rollout-held": _("Rollout of {name} is held up"),
    "evidence.rollout-held": _("Reason: {why}. {seen} {serving} {way}"),
    "attention.pods-held-up": _("Pods of {name} do not come up"),
    "evidence.pods-held-up": _("Reason: {why}. {seen} {serving} {way}"),
    "evidence.serving": _("{available} of {desired} available."),
    "evidence.serving-until": _("{available} of {desired} available; Kubernetes gives up at {time}."),
    "evidence.no-hole": ngettext(
        "{n} pod needs {need} on one node; the largest free block is {hole}.",
        "{n} pods need {need} each on one node; the largest free block is {hole}.",
    ),
    "evidence.ended": ngettext(
        "Container {container} was restarted {n} time, after exit code {code}.",
        "Container {container} was restarted {n} times, last after exit code {code}.",
    ),
    "evidence.says": _("Kubernetes says: {words}."),
    "evidence.way.uncordon": _("Uncordoning {place} would make room."),
    "evidence.way.allow-missing": _("It goes on if an old pod may go first: maxUnavailable 1."),
    "evidence.way.undo": _("Revision {place} still runs: undo to it."),
    "evidence.way.change-placing": _("Change where it may run."),
    "evidence.way.raise-quota": _("Raise the quota, or use less of it."),
    "evidence.way.ask-admission": _("Ask whoever owns the rule."),
    "evidence.way.fix-image": _("Correct the image, or provide it."),
    "evidence.way.fix-config": _("Provide what its container lacks."),
    "evidence.way.widen-probe": _("Give its startup probe more time."),
    "evidence.way.read-log": _("Read the log of {place}."),
    "attention.node-tainted": _("{node} is closed by a taint"),
    "evidence.node-tainted": _("{taint}. {held}"),
    "attention.cordoned": _("{node} is cordoned"),
    "evidence.cordoned": _("{who} {closed} {held}"),
    "evidence.by": _("With {by}."),
    "evidence.by-unknown": _("By whom is unknown."),
    "evidence.closed": ngettext("{n} free GPU is closed for new pods.", "{n} free GPUs are closed for new pods."),
    "attention.claims": _("GPUs by DRA are not counted"),
    "evidence.claims": ngettext(
        "{n} pod uses resource claims; its GPUs are in no number here.",
        "{n} pods use resource claims; their GPUs are in no number here.",
    ),
}

# What the page says about itself.
FRESHNESS: Patterns = {
    "fresh.live": _("Live"),
    "fresh.late": _("Late"),
    "fresh.lost": _("Not connected"),
    "fresh.stale": _("No new data"),
    "fresh.age": _("data {age} old"),
    "fresh.since": _("No data since {time}, {age} ago."),
    "fresh.as-of": _("as of {time}"),
    "fresh.retry": _("Next try in {age}"),
    "loss.age": _("Connected, but nothing new comes from the cluster."),
    "loss.server": _("The cluster’s API server does not answer."),
    "loss.writer": _("Nobody reads the cluster: Vigie’s own worker has stopped or is cut off."),
    "loss.no-picture": _("The first list of this cluster is not complete yet."),
    "fresh.trying": _("Trying now …"),
    "news.new": ngettext("{n} new", "{n} new"),
    "news.gone": ngettext("{n} resolved", "{n} resolved"),
    "news.moved": _("order changed"),
    "news.show": _("{news}, show"),
    "news.alert": _("New: {title}"),
}

MESSAGES: Patterns = {
    **STATES,
    **TIMES,
    **KEY_NUMBERS,
    **MAP,
    **CARDS,
    **NODE,
    **GPU,
    **PAST,
    **AVAILABILITY,
    **ADVICE,
    **CADENCE,
    **CHECKPOINT_PAGES,
    **READINESS,
    **WORKLOADS,
    **OF_ROLLOUTS,
    **WAITING,
    **WALL,
    **CLUSTERS,
    **HELP,
    **SEARCH,
    **ATTENTION,
    **OF_GPUS,
    **CHECKPOINT_CONCERNS,
    **HELP_CHECKPOINTS,
    **FRESHNESS,
    **GUARDS,
    **ACTION_PATTERNS,
    **RELEASES,
    **PAIRS,
}
