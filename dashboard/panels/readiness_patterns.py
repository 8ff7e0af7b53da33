"""The sentences about restart readiness: what each rule is called, what it has found, and why that matters.

Owns wording only. `readiness.R04.short` is the sentence of rule R04 in its case `short`. Pages of the server and commands say
them. Some spaces are no-break spaces, literally, since the tools that collect message ids do not read escapes.
"""

from django.utils.translation import gettext_noop as _

from dashboard.panels.plurals import Patterns, ngettext

READINESS: Patterns = {
    "column.restart": _("On a restart"),
    "readiness.badge.none": _("nothing found"),
    "readiness-name.R01": _("No readiness probe"),
    "readiness-name.R02": _("Requests to pods that are not Ready"),
    "readiness-name.R03": _("Restarted while loading"),
    "readiness-name.R04": _("Startup budget too short"),
    "readiness-name.R05": _("Rollout deadline too short"),
    "readiness-name.R06": _("One probe for two questions"),
    "readiness-name.R07": _("Hook eats the grace period"),
    "readiness-name.R08": _("Grace period too short"),
    "readiness-name.R09": _("No preStop hook"),
    "readiness-name.R10": _("Hook without its program"),
    "readiness-name.R11": _("SIGTERM is lost"),
    "readiness-name.R12": _("Checkpoint in the container"),
    "readiness-name.R13": _("Checkpoint on scratch space"),
    "readiness-name.R14": _("Rollout waits for a volume"),
    "readiness-name.R15": _("Replicas share one volume"),
    "readiness-name.R16": _("Surge without free GPUs"),
    "readiness-name.R17": _("Nothing may move"),
    "readiness-name.R18": _("All pods end first"),
    "readiness-name.R19": _("Budget that never allows"),
    "readiness-name.R20": _("No disruption budget"),
    "readiness-name.R21": _("Budget selects none, or is a second one"),
    "readiness-name.R22": _("Unready pods are kept"),
    "readiness-name.R23": _("Budget over both colours"),
    "readiness-name.R24": _("One replica behind a Service"),
    "readiness-name.R25": _("Replicas may share a node"),
    "readiness-name.R26": _("Fewer nodes than pods to spread"),
    "readiness-name.R27": _("GPU request that is refused"),
    "readiness-name.R28": _("Image that may change"),
    "readiness-name.R29": _("Pod that nobody brings back"),
    "readiness-name.R30": _("No way back to the other colour"),
    "readiness-name.R31": _("Bound to one node"),
    "readiness-name.R32": _("Drains use up retries"),
    "readiness-name.R33": _("Available the moment it is Ready"),
    "readiness-name.R34": _("Grace period longer than the notice"),
    "readiness.R01": _("Service {service} sends requests to {container}, which has no readiness probe."),
    "readiness.R02": _("The Service sends requests to pods that are not Ready (publishNotReadyAddresses)."),
    "readiness.R03": _(
        "{container} has no startup probe, and its liveness probe restarts it after {budget_s}. "
        "It took {load_s} to become Ready (95 % of {pods})."
    ),
    "readiness.R03.declared": _(
        "{container} has no startup probe, and its liveness probe restarts it after {budget_s}. "
        "Its team says that loading takes {load_s}."
    ),
    "readiness.R04.short": _(
        "The startup probe restarts {container} after {guaranteed_s} to {nominal_s}. "
        "It took {load_s} to become Ready (95 % of {pods})."
    ),
    "readiness.R04.short-declared": _(
        "The startup probe restarts {container} after {guaranteed_s} to {nominal_s}. "
        "Its team says that loading takes {load_s}."
    ),
    "readiness.R04.nominal": _(
        "The startup probe guarantees {container} {guaranteed_s}, not {nominal_s}. "
        "It took {load_s} to become Ready (95 % of {pods})."
    ),
    "readiness.R04.nominal-declared": _(
        "The startup probe guarantees {container} {guaranteed_s}, not {nominal_s}. "
        "Its team says that loading takes {load_s}."
    ),
    "readiness.R05": _(
        "A rollout counts as failed after {deadline_s} without progress, and one pod may take {needed_s}: "
        "startup {startup_s}, image {pull_s}, minReadySeconds {min_ready_s}."
    ),
    "readiness.R06": _(
        "Readiness and liveness of {container} ask the same question; "
        "readiness takes it out after {readiness_s}, liveness restarts it after {liveness_s}."
    ),
    "readiness.R07": _("The preStop hook of {container} sleeps {sleep_s}; the whole grace period is {grace_s}."),
    "readiness.R08.drain": _("SIGTERM leaves {container} {left_s}; its requests in flight need {need_s}."),
    "readiness.R08.save": _("SIGTERM leaves {container} {left_s}; a checkpoint needs {need_s}."),
    "readiness.R09": _("{container} gets requests, has no preStop hook, and a grace period of {grace_s}."),
    "readiness.R10": _("The preStop hook of {container} calls sleep, which images like {image} do not have."),
    "readiness.R11": _("{shell} stays the first process of {container} and passes no signal on."),
    "readiness.R12": _("{container} saves to {place}, and no volume is there."),
    "readiness.R13.empty": _("{container} saves to {place}, which is the emptyDir {volume}."),
    "readiness.R13.memory": _(
        "{container} saves to {place}, which is the emptyDir {volume}, in memory, and counts as memory."
    ),
    "readiness.R13.ephemeral": _("{container} saves to {place}, which is the ephemeral volume {volume}."),
    "readiness.R13.host": _("{container} saves to {place}, which is a directory of the node ({volume})."),
    "readiness.R14.node": _("A rollout starts {surge} before an old one may go, and only one node can mount {claim}."),
    "readiness.R14.pod": _("A rollout starts {surge} before an old one goes, and only one pod can hold {claim}."),
    "readiness.R14.slow": _("A rollout starts {surge} more, and only one node can mount {claim}: elsewhere they wait."),
    "readiness.R15": _("{replicas} share {claim}, which only one node can mount at a time."),
    "readiness.R16.stall": _(
        "A rollout starts {surge} more with {gpus} each, there is room for none, and no old pod may go first: it will stall."
    ),
    "readiness.R16.slow": _(
        "A rollout starts {surge} more with {gpus} each, there is room for {slots}, and no old pod may go first: "
        "the rest waits its turn."
    ),
    "readiness.R16.below": _(
        "A rollout starts {surge} more with {gpus} each, there is room for {slots}: "
        "it goes on with {floor} of {replicas} serving."
    ),
    "readiness.R17": _("maxSurge and maxUnavailable are both 0."),
    "readiness.R18": _("A rollout ends {replicas} before the first new one starts (Recreate)."),
    "readiness.R19": _("minAvailable {told} keeps {needed} of {pods}: it never lets one go."),
    "readiness.R19.zero": _("maxUnavailable {told} never lets a pod go."),
    "readiness.R20": _("No disruption budget is over its {replicas}."),
    "readiness.R21.nothing": _("The budget selects no pod."),
    "readiness.R21.two": _("Several budgets select its pods: {budgets}."),
    "readiness.R22": _("The budget also keeps pods that are not Ready (unhealthyPodEvictionPolicy)."),
    "readiness.R23": _("The budget selects both colours of Service {service}: it leaves out the label {label}."),
    "readiness.R24": _("Service {service} has one pod to send requests to."),
    "readiness.R25": _("Nothing keeps its {replicas} on different nodes."),
    "readiness.R26": _(
        "Its {replicas}, and {surge} more in a rollout, want a node each, and {nodes} can take them: some may wait."
    ),
    "readiness.R27.fraction": _("{container} asks for {resource} in parts (request “{request}”, limit “{limit}”)."),
    "readiness.R27.no-limit": _("{container} requests {request} of {resource} and has no limit."),
    "readiness.R27.differ": _("{container} requests {request} of {resource}, and its limit is {limit}."),
    "readiness.R28.latest": _("{container} runs {image}, a tag that moves."),
    "readiness.R28.none": _("{container} runs {image}, without a tag."),
    "readiness.R29": _("Nothing owns this pod."),
    "readiness.R30": _("Service {service} chooses by the label {label} (now {chosen}), which these pods do not have."),
    "readiness.R31": _("Its pods can be on {node} only."),
    "readiness.R32": _("Evictions count as failures, of which {backoff} are allowed (backoffLimit)."),
    "readiness.R33": _("It serves with GPUs, and minReadySeconds is 0."),
    "readiness.R34.spot": _("The grace period is {grace_s}, on machines that are taken back after {lead_s}."),
    "readiness.R34.autoscaler": _("The grace period is {grace_s}; the autoscaler waits {lead_s} by default."),
    "readiness-why.R01": _("It counts as Ready the moment it starts: the first requests find no model and fail."),
    "readiness-why.R02": _(
        "Clients reach pods that still load or already stop. Right for peers that look for each other, wrong for clients."
    ),
    "readiness-why.R03": _("The kubelet restarts it before it is up, over and over: it never becomes Ready."),
    "readiness-why.R04": _(
        "The N-th failure in a row decides, and probes come by a fixed beat: "
        "certain is initialDelay + (N − 1) × period, a period less than what people multiply."
    ),
    "readiness-why.R05": _(
        "The Deployment reports ProgressDeadlineExceeded while its pods still load, and pipelines give up."
    ),
    "readiness-why.R06": _(
        "A pod that is only busy should lose requests, not its process: "
        "liveness needs twice the patience, or a question of its own."
    ),
    "readiness-why.R07": _("The grace period begins with the hook: SIGTERM comes at its end, and SIGKILL 2 s later."),
    "readiness-why.R08": _("What is not finished when the grace period ends is cut off."),
    "readiness-why.R09": _(
        "The endpoint is taken away while SIGTERM is on its way: requests still come to a server that has closed. "
        "A few seconds of sleep let everybody hear."
    ),
    "readiness-why.R10": _(
        "A hook that fails is skipped. The sleep action of Kubernetes (from 1.30 on) needs no program."
    ),
    "readiness-why.R11": _("The program never hears that it has to stop, and is killed when the grace period ends."),
    "readiness-why.R12": _(
        "The container’s own file system goes with the container: every restart loses all checkpoints."
    ),
    "readiness-why.R13": _("It goes with the pod or stays with the node. A checkpoint has to outlive both."),
    "readiness-why.R14": _(
        "The new pod waits for the volume and the old one for the new pod. It says ContainerCreating, and no more."
    ),
    "readiness-why.R15": _("Pods on other nodes wait for ever. A StatefulSet gives each its own volume."),
    "readiness-why.R16": _("A new pod needs GPUs beside those of the old ones, all of them on one node."),
    "readiness-why.R17": _("The API server refuses it: no pod could ever be replaced."),
    "readiness-why.R18": _("Nobody answers for as long as loading takes."),
    "readiness-why.R19": _("No drain can end before somebody changes the budget. A budget’s percentages round up."),
    "readiness-why.R20": _("A drain may take every pod on its node at once, several drains the whole service."),
    "readiness-why.R21": _("A budget of nothing protects nothing; pods of two budgets cannot be evicted at all."),
    "readiness-why.R22": _("One that crashes over and over then blocks every drain, and nobody would miss it."),
    "readiness-why.R23": _("Pods of the idle colour count as healthy: every pod of the colour that serves may go."),
    "readiness-why.R24": _("Every restart and every drain is an outage as long as loading takes."),
    "readiness-why.R25": _("One node’s drain or failure may take all of them."),
    "readiness-why.R26": _("What finds no node of its own stays Pending, in a rollout or after a node was lost."),
    "readiness-why.R27": _(
        "The API server refuses it: extended resources are whole, and request and limit are one number."
    ),
    "readiness-why.R28": _("A restart may start another version than the one that ran."),
    "readiness-why.R29": _("A drain refuses it, and when its node goes it does not come back."),
    "readiness-why.R30": _("Switched to another colour and back, it selects no pod: the way back is an outage."),
    "readiness-why.R31": _("When that node goes, no other can take the pod."),
    "readiness-why.R32": _(
        "Enough drains fail the Job though nothing is wrong with it. Ignore the condition DisruptionTarget."
    ),
    "readiness-why.R33": _(
        "A pod that is Ready for a moment and falls over counts, and the rollout takes the next one."
    ),
    "readiness-why.R34": _("What is not finished when the machine goes is cut off, whatever the grace period says."),
    "readiness.replicas": ngettext("{n} replica", "{n} replicas"),
    "readiness-number.error": _("Errors"),
    "readiness-number.warning": _("Warnings"),
    "readiness-number.info": _("Notes"),
    "readiness-number.clean": _("Nothing found"),
    "readiness.of-all": ngettext("of {n} workload", "of {n} workloads"),
    "readiness.errors": ngettext("{n} error", "{n} errors"),
    "readiness.warnings": ngettext("{n} warning", "{n} warnings"),
    "readiness.infos": ngettext("{n} note", "{n} notes"),
    "readiness.nothing": _("nothing found"),
    "readiness.of-workloads": ngettext("in {n} workload", "in {n} workloads"),
    "lifeline.endpoint": _("Requests"),
    "lifeline.endpoint-told": _("still come until every load balancer has heard"),
    "lifeline.hook": _("preStop hook"),
    "lifeline.no-hook": _("none: SIGTERM at once"),
    "lifeline.hook-unknown": _("it does not tell how long it takes"),
    "lifeline.hook-cut": _("{time}, cut off after {grace}"),
    "lifeline.finish": _("Time to finish"),
    "lifeline.left": _("{time} until SIGKILL"),
    "lifeline.fits": _("{need} are enough"),
    "lifeline.lacks": _("{lacks} too short"),
    "lifeline.term": _("SIGTERM {time}"),
    "lifeline.kill": _("SIGKILL {time}"),
    "lifeline.stop-told": _("{container}: SIGTERM after {term}, SIGKILL after {kill}."),
    "lifeline.startup": _("Startup probe"),
    "lifeline.liveness-guards": _("Liveness probe, since there is no startup probe"),
    "lifeline.unguarded": _("No probe ends the start"),
    "lifeline.budget": _("{guaranteed} guaranteed, {nominal} at most"),
    "lifeline.load": _("Loading"),
    "lifeline.load-measured": _("{time} (95 % of {pods})"),
    "lifeline.load-declared": _("{time}, as the team says"),
    "lifeline.load-unknown": _("nobody has measured or declared it"),
    "lifeline.after": _("Readiness and liveness"),
    "lifeline.after-told": _("wait for the startup probe"),
    "lifeline.none": _("no probe"),
    "lifeline.deadline": _("rollout fails {time}"),
    "lifeline.restart": _("restarted {time}"),
    "lifeline.start-told": _("{container}: restarted after {guaranteed} to {nominal} if it does not come up."),
    "lifeline.start-unguarded": _("{container}: nothing restarts it if it does not come up."),
    "lifeline.watch": _("every {period}, waits {timeout} for an answer"),
    "lifeline.acts": ngettext("{n} failure: after {least} to {most}", "{n} failures in a row: after {least} to {most}"),
    "help.time.load": _("Time to load"),
    "help.means.time.load": _(
        "From the start of the container to Ready, such as 5m; what is measured counts before it."
    ),
    "help.time.drain": _("Time to drain"),
    "help.means.time.drain": _("What requests in flight need after SIGTERM."),
    "help.time.save": _("Time to save"),
    "help.means.time.save": _("What a checkpoint needs after SIGTERM."),
    "help.time.pull": _("Time to pull"),
    "help.means.time.pull": _("What the image needs on a node that does not have it."),
}
