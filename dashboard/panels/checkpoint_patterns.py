"""How a workload's checkpoints stand, in words, and what of them needs a person: titles and evidence of the attention list, help.

Owns patterns only; see `words`.
"""

from typing import Final

from django.utils.translation import gettext_noop as _

from dashboard.panels.plurals import Patterns, ngettext

OF_CHECKPOINTS: Final = (
    "checkpoint-none",
    "checkpoint-critical",
    "checkpoint-corrupt",
    "checkpoint-stale",
    "checkpoint-unreadable",
    "checkpoint-skew",
    "checkpoint-not-granted",
)
TROUBLES: Final = ("denied", "gone", "changed", "outside", "too-many", "silent", "failed")

CHECKPOINT_CONCERNS: Patterns = {
    "standing.fresh": _("on target"),
    "standing.late": _("due now"),
    "standing.stale": _("overdue"),
    "standing.critical": _("stopped saving"),
    "standing.none": _("nothing complete"),
    "standing.not-granted": _("not granted"),
    "standing.unreadable": _("cannot be read"),
    "standing.reported": _("reported"),
    "standing.unknown": _("unknown"),
    "standing.resting": _("rests"),
    "standing.starting": _("nothing due yet"),
    "standing.no-target": _("no target"),
    "column.checkpoint": _("Checkpoint"),
    "kpi.of-trainings": ngettext("of {n} job", "of {n} jobs"),
    "kpi.none-behind": _("none behind target"),
    "attention.checkpoint-none": _("{name} has no complete checkpoint"),
    "evidence.checkpoint-none": _("Nothing complete is in {place}: all of its work would be lost. {abandoned}"),
    "evidence.checkpoint-abandoned": ngettext("{n} save was given up.", "{n} saves were given up."),
    "attention.checkpoint-critical": _("{name} has stopped saving"),
    "evidence.checkpoint-critical": _(
        "{which}, {age} old, is the newest that is complete. It means to save every {target}."
    ),
    "attention.checkpoint-stale": _("A save of {name} is overdue"),
    "evidence.checkpoint-stale": _(
        "{which}, {age} old, is the newest that is complete. It means to save every {target}."
    ),
    "evidence.checkpoint-step": _("Step {step}"),
    "evidence.checkpoint-no-step": _("A checkpoint without a step"),
    "attention.checkpoint-corrupt": _("The newest checkpoint of {name} cannot be used"),
    "evidence.checkpoint-corrupt": _("{which}: {what} ({file}). {older}"),
    "checkpoint-state.corrupt": _("its contents contradict themselves"),
    "checkpoint-state.inconsistent": _("its files are of two different saves"),
    "evidence.checkpoint-older": _("Before it, step {step} is complete, {age} old."),
    "evidence.checkpoint-older-no-step": _("The one before it is complete, {age} old."),
    "evidence.checkpoint-nothing-older": _("No other one is complete."),
    "attention.checkpoint-unreadable": _("The checkpoints of {name} cannot be read"),
    "evidence.checkpoint-unreadable": _("{place}: {reason}."),
    "checkpoint-trouble.denied": _("Vigie is refused"),
    "checkpoint-trouble.gone": _("it is not there"),
    "checkpoint-trouble.changed": _("it changes while it is read"),
    "checkpoint-trouble.outside": _("it leads out of the store"),
    "checkpoint-trouble.too-many": _("it holds too many files"),
    "checkpoint-trouble.silent": _("the store does not answer in time"),
    "checkpoint-trouble.failed": _("the store fails"),
    "attention.checkpoint-skew": _("The newest checkpoint of {name} is dated in the future"),
    "evidence.checkpoint-skew": _("{which} is {skew} ahead of Vigie’s clock, so nobody knows how old it is."),
    "attention.checkpoint-not-granted": _("Vigie may not read the checkpoints of {name}"),
    "evidence.checkpoint-not-granted": _("It saves to {place}, which no store of the policy covers."),
    "help.concern.checkpoint-none": _(
        "A workload trains, and nothing complete is where it saves: all its work would be lost."
    ),
    "help.concern.checkpoint-critical": _("The newest complete checkpoint is older than two intervals and a save."),
    "help.concern.checkpoint-corrupt": _(
        "What ought to be the newest checkpoint contradicts itself, or is of two saves."
    ),
    "help.concern.checkpoint-stale": _(
        "The newest complete checkpoint is older than an interval, a save and some slack."
    ),
    "help.concern.checkpoint-unreadable": _(
        "The policy lets Vigie read where a workload saves, and it cannot be read."
    ),
    "help.concern.checkpoint-skew": _(
        "The newest checkpoint is dated more than 2 s in the future: its age is unknown."
    ),
    "help.concern.checkpoint-not-granted": _("A workload saves where the policy does not let Vigie look."),
}

HELP_CHECKPOINTS: Patterns = {
    "help.ckpt.uri": _("Where it saves"),
    "help.means.ckpt.uri": _(
        "a path in the container, s3://bucket/prefix or pvc://namespace/claim/path; else the command line "
        "tells (--output_dir, --save …), the environment (CKPT_DIR, OUTPUT_DIR …), or a note on its page "
        "here. The container is the one with GPUs; without GPUs kubectl.kubernetes.io/default-container "
        "names it. Several pods that save each for itself need a directory each"
    ),
    "help.ckpt.interval": _("How often it means to save"),
    "help.means.ckpt.interval": _(
        "a time from 1s to 30d, like 30m or 1h30m; without it, what its last saves were apart"
    ),
    "help.ckpt.format": _("Format"),
    "help.means.ckpt.format": _("for people: Vigie recognises formats by their files"),
    "help.ckpt.hook": _("How it is asked to save"),
    "help.means.ckpt.hook": _(
        "http:8080/save is a POST to the pod; signal:USR1:container (USR2, TERM, HUP) needs a policy that "
        "names the namespace. Answer 2xx when a new save begins: one that went on already does not count, "
        "since it holds an older state. Answer 409 when none but that one will be made: its end counts then, "
        "and the loss from its beginning. Any other refusal ends the action, and no pod goes"
    ),
    "help.ckpt.read": _("What Vigie reads"),
    "help.means.ckpt.read": _(
        "lists and parts of files, every 30 s, in stores that are granted to the workload’s namespace. "
        "It unpickles nothing, follows no link out, writes nothing, and never looks into a pod or a node"
    ),
    "help.ckpt.store": _("Who grants a store"),
    "help.means.ckpt.store": _(
        "the policy, for one namespace: a claim and where it is mounted for Vigie, or a bucket, its "
        "endpoint and the name of its key. Anything else is not granted, and never tried"
    ),
    "help.ckpt.report": _("A trainer’s own report"),
    "help.means.ckpt.report": _(
        "for what Vigie may not read: committed_at, step, size_bytes, duration_s, uri, with a token of "
        "manage.py token USER --scope report, bound to one workload. It is shown as reported, and counts "
        "less than any store. Its loss is unknown where committed_at is ahead of Vigie’s clock, and without "
        "duration_s until a save of it was seen"
    ),
    "help.ckpt.complete": _("complete"),
    "help.means.ckpt.complete": _("all its files are there and agree with each other, and what marks its end exists"),
    "help.ckpt.copied": _("copied or touched"),
    "help.means.ckpt.copied": _(
        "The newest is the highest complete step, its age the time of its files or of their upload. All "
        "files touched, or a copy under a higher step, look like a new save, and nothing in them tells: copy "
        "with the times (cp -p, rsync -t), and to a place where nobody resumes from"
    ),
    "help.ckpt.stale": _("overdue"),
    "help.means.ckpt.stale": _(
        "older than an interval, a save and some slack: a tenth of the interval, at least a minute"
    ),
    "help.ckpt.critical": _("has stopped saving"),
    "help.means.ckpt.critical": _("older than two intervals and a save"),
    "help.ckpt.lost": _("Lost if restarted now"),
    "help.means.ckpt.lost": _(
        "the time since its newest complete save began, on all GPUs of the job; unknown where nobody can tell, never 0"
    ),
}
