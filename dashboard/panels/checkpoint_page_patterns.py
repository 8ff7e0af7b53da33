"""The sentences of the pages about checkpoints. The server alone says them.

Owns patterns only; see `words`.
"""

from django.utils.translation import gettext_noop as _

from dashboard.panels.plurals import Patterns, ngettext

CHECKPOINT_PAGES: Patterns = {
    "ckpt.no-gpus": _("holds no GPU"),
    "ckpt.age": _("{age} old, no target"),
    "ckpt.age-of": _("{age} old, target {target}"),
    "ckpt.target": _("target {time}"),
    "ckpt.target-observed": _("usually {time}"),
    "ckpt.no-step": _("no step"),
    "ckpt.nothing": _("none"),
    "ckpt.at": _("at {at}"),
    "ckpt.said": _("reported, at {at}"),
    "ckpt.part.weights": _("weights"),
    "ckpt.part.optimizer": _("optimizer"),
    "ckpt.part.schedule": _("learning-rate schedule"),
    "ckpt.part.position": _("position in the data"),
    "ckpt.part.rng": _("random state"),
    "ckpt.part-yes": _("{part}: there"),
    "ckpt.part-no": _("{part}: missing"),
    "ckpt.part-empty": _("{part}: empty"),
    "ckpt.part-none": _("{part}: none configured"),
    "ckpt.part-unknown": _("{part}: nobody knows"),
    "ckpt.parts-all": _("all 5 parts"),
    "ckpt.stored.pod": _("in the pod"),
    "ckpt.stored.node": _("on the node"),
    "ckpt.stored.durable": _("a volume"),
    "ckpt.stored.object": _("an object store"),
    "ckpt.stored.reported": _("reported"),
    "ckpt.stored.unknown": _("unknown"),
    "ckpt.outlives.pod": _("lost with the pod"),
    "ckpt.outlives.node": _("lost with the node"),
    "ckpt.outlives.durable": _("outlives the node"),
    "ckpt.outlives.object": _("object store"),
    "ckpt.outlives.reported": _("as the trainer says"),
    "ckpt.lost-nothing": _("nothing"),
    "ckpt.lost-rests": _("nothing of it runs"),
    "ckpt.gpu-hours": _("{hours} GPU-hours"),
    "ckpt.steps": ngettext("about {n} step", "about {n} steps"),
    "ckpt.under": _("under 0.1"),
    "ckpt.no-cost": _("no save measured"),
    "ckpt.no-mtbf": _("no time between failures known"),
    "ckpt.too-early": _("no failure, too little time seen"),
    "ckpt.at-least": _("{time} or more"),
    "ckpt.no-failure": _("no failure was seen"),
    "ckpt.behind": _("{n} of {all} behind target"),
    "ckpt.none-behind": _("none behind target"),
    "ckpt.none-known-behind": _("none known to be behind target"),
    "ckpt.sum": ngettext(
        "If it restarted this second, {time} of training in {n} job would be done again, {hours} GPU-hours.",
        "If every job restarted this second, {time} of training in {n} jobs would be done again, {hours} GPU-hours.",
    ),
    "ckpt.largest": _("The largest part is {name}."),
    "ckpt.sum-unknown": ngettext(
        "Of {n} job nobody knows what it would lose; it is not in the sum.",
        "Of {n} jobs nobody knows what they would lose; they are not in the sum.",
    ),
    "ckpt.why.none": ngettext("{n} job has no complete checkpoint", "{n} jobs have no complete checkpoint"),
    "ckpt.do.none": _("All of its work would be lost. Look at the newest save below, and at the trainer’s log."),
    "ckpt.why.broken": ngettext(
        "The newest checkpoint of {n} job cannot be used", "The newest checkpoints of {n} jobs cannot be used"
    ),
    "ckpt.do.broken": _(
        "A restart may stumble over it. Move it aside, so that the older one is taken; let the job save again."
    ),
    "ckpt.why.dies-with-pod": ngettext("{n} job saves where its pod ends", "{n} jobs save where their pods end"),
    "ckpt.do.dies-with-pod": _("What it saves is gone with the pod. Mount a claim there, or save to an object store."),
    "ckpt.why.dies-with-node": ngettext("{n} job saves to a disk of its node", "{n} jobs save to a disk of their node"),
    "ckpt.do.dies-with-node": _(
        "What it saves is gone with the node, and no other node can read it. Save to a shared claim or an object store."
    ),
    "ckpt.why.conflict": ngettext(
        "Of {n} job a tracker names another checkpoint", "Of {n} jobs a tracker names another checkpoint"
    ),
    "ckpt.do.conflict": _("Trainers that follow the tracker go on from there. Correct it, or let the job save again."),
    "ckpt.why.not-resumable": ngettext(
        "The newest checkpoint of {n} job is not known to be enough to go on from",
        "The newest checkpoints of {n} jobs are not known to be enough to go on from",
    ),
    "ckpt.do.not-resumable": _("Weights, optimizer and position are needed. Have all three saved."),
    "ckpt.why.weights-only": ngettext("{n} job saves weights alone", "{n} jobs save weights alone"),
    "ckpt.do.weights-only": _("Nobody can go on from weights alone: save optimizer and position with them."),
    "ckpt.why.skew": ngettext(
        "A checkpoint of {n} job is dated in the future", "Checkpoints of {n} jobs are dated in the future"
    ),
    "ckpt.do.skew": _("Clocks differ, so nobody knows how old it is. Set the clock of the store, the node or Vigie."),
    "ckpt.why.abandoned": ngettext("Saves of {n} job were given up", "Saves of {n} jobs were given up"),
    "ckpt.do.abandoned": _("They are good for nothing and cost disk: delete them. Vigie writes nothing to a store."),
    "ckpt.why.annotations": ngettext(
        "An annotation of {n} job makes no sense", "Annotations of {n} jobs make no sense"
    ),
    "ckpt.do.annotations": _("They count as not there. Help says how each is written."),
    "ckpt.why.unreadable": ngettext(
        "The checkpoints of {n} job cannot be read", "The checkpoints of {n} jobs cannot be read"
    ),
    "ckpt.do.unreadable": _("The policy lets Vigie look there. See to the mount, the credential or the rights on it."),
    "ckpt.why.not-granted": ngettext(
        "Vigie may not read the checkpoints of {n} job", "Vigie may not read the checkpoints of {n} jobs"
    ),
    "ckpt.do.not-granted": _(
        "No [[store]] of the policy covers it for its namespace. Grant one, or let the trainer report what it saves."
    ),
    "ckpt.why.no-place": ngettext("Nobody says where {n} job saves", "Nobody says where {n} jobs save"),
    "ckpt.do.no-place": _("Annotate its pods with vigie.dev/checkpoint-uri, or note the place on its page here."),
    "ckpt.why.shared": ngettext(
        "Which checkpoints are those of {n} job cannot be told",
        "Which checkpoints are those of {n} jobs cannot be told",
    ),
    "ckpt.do.shared": _(
        "Another job, or another pod of the same one, saves in or below the same directory. Let each declare one of its own."
    ),
    "ckpt.why.local": ngettext(
        "Only its own machine could show what {n} job saves", "Only their own machines could show what {n} jobs save"
    ),
    "ckpt.do.local": _(
        "Vigie reads claims and object stores that the policy grants, and never looks into a pod or a node."
    ),
    "ckpt.why.no-scan": ngettext("{n} job is not looked at any more", "{n} jobs are not looked at any more"),
    "ckpt.do.no-scan": _("The last scan was more than 3 minutes ago. See to the worker of the queue “checkpoints”."),
    "ckpt.why.reported": ngettext(
        "{n} job is known by its own word alone", "{n} jobs are known by their own word alone"
    ),
    "ckpt.do.reported": _("Nobody has read what it says that it saved. Grant its store to have it proved."),
    "ckpt.why.reported-too": ngettext("{n} job also reports what it saves", "{n} jobs also report what they save"),
    "ckpt.do.reported-too": _("What the store shows counts, whatever is reported."),
    "ckpt.why.saving": ngettext("{n} job saves right now", "{n} jobs save right now"),
    "ckpt.do.saving": _("It counts when it is complete."),
    "ckpt.why.no-target": ngettext(
        "Nobody says how often {n} job means to save", "Nobody says how often {n} jobs mean to save"
    ),
    "ckpt.do.no-target": _("Annotate its pods with vigie.dev/checkpoint-interval, or note it on its page here."),
    "ckpt.fact.abandoned": ngettext("{n} save, {size}", "{n} saves, {size}"),
    "ckpt.fact.broken": _("step {step}: {what} ({file})"),
    "ckpt.fact.tracker": _("{file} says {says}, the newest complete step is {step}"),
    "ckpt.fact.skew": _("{skew} ahead of Vigie’s clock"),
    "ckpt.fact.weights-only": ngettext("{n} checkpoint", "{n} checkpoints"),
    "ckpt.fact.resumable": _("it would go on from step {step}, {age} old"),
    "ckpt.fact.never-resumable": _("none is known to be"),
    "ckpt.fact.reported": _("{age} ago, step {step}"),
    "ckpt.fact.saving": _("step {step}, {size} so far"),
    "ckpt.fact.since": _("since {age}"),
    "ckpt.source.annotation": _("its annotation"),
    "ckpt.source.argument": _("its command line"),
    "ckpt.source.environment": _("its environment"),
    "ckpt.source.record": _("a note of an operator"),
    "ckpt.source.none": _("nobody says"),
    "ckpt.state.complete": _("complete"),
    "ckpt.state.in-progress": _("being written"),
    "ckpt.state.abandoned": _("given up"),
    "ckpt.state.corrupt": _("contradicts itself"),
    "ckpt.state.inconsistent": _("of two saves"),
    "ckpt.state.partial-state": _("weights alone"),
    "ckpt.state.unknown": _("nobody can tell"),
    "ckpt.sign.ends-early": _("ends early"),
    "ckpt.sign.contradicts": _("contradicts itself"),
    "ckpt.sign.missing": _("is missing"),
    "ckpt.sign.unmarked": _("what is written last is not there"),
    "ckpt.sign.temporary": _("has the name of an unfinished save"),
    "ckpt.sign.changed": _("changed while it was read"),
    "ckpt.sign.newer-than-marker": _("is newer than what marks the end"),
    "ckpt.sign.refused": _("looks made to mislead a reader, and was not read"),
    "ckpt.sign.limit": _("is larger than what a look may read"),
    "ckpt.sign.unreadable": _("cannot be read"),
    "ckpt.sign.omitted": _("a link or special file, left alone"),
    "ckpt.sign.foreign": _("unpickling it would call functions that checkpoints do not need"),
    "ckpt.sign.unprovable": _("nothing in this format proves that it is complete"),
    "ckpt.sign.trailing": _("has bytes after its end"),
    "ckpt.sign.step-disagrees": _("names another step"),
    "ckpt.sign.aside": _("its name is none that a trainer goes on from"),
    "ckpt.sign.unchecked": _("nothing recorded to check the bytes against"),
    "ckpt.sign.checksum": _("the bytes are not those that were written"),
    "ckpt.check.running": _("{done} of {total} read"),
    "ckpt.check.begun": _("begun by {by}"),
    "ckpt.check.done": _("every byte read at {at}: {what}"),
    "ckpt.check.failed": _("the check failed at {at}: {why}"),
    "ckpt.hook.http": _("over HTTP"),
    "ckpt.hook.signal": _("by a signal"),
    "ckpt.hook.none": _("it cannot be asked"),
    "ckpt.ranks": ngettext("{n} rank", "{n} ranks"),
    "ckpt.interval.declared": _("{time}"),
    "ckpt.interval.observed": _("{time}, as it usually saves; nobody declares it"),
    "ckpt.sure": _("95 % sure"),
    "ckpt.plot.interval": _("From save to save"),
    "ckpt.plot.duration": _("A save took"),
    "ckpt.plot.size": _("Size"),
    "ckpt.plot.none": _("not measured"),
    "ckpt.plot.told": _("{least} to {most}, last {last}"),
    "ckpt.form.place": _("Neither a path that begins with / nor an address like s3://bucket/path."),
    "ckpt.form.not-granted": _("No [[store]] of the policy covers this address for the namespace {namespace}."),
    "ckpt.form.format": _("This is none of the formats that Vigie reads."),
    "ckpt.form.interval": _("Write a time from 1 s to 30 days like 5m, 1h30m or 90s."),
    "ckpt.form.empty": _("There is nothing to note, and nothing to take back."),
    "ckpt.files": ngettext("{n} file", "{n} files"),
}
