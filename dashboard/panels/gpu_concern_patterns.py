"""What needs a person about a node's GPUs, in sentences: titles and evidence of the attention list, words on cards, and the help.

Owns patterns only; see `words`.
"""

from typing import Final

from django.utils.translation import gettext_noop as _

from dashboard.panels.plurals import Patterns, ngettext

# About single GPUs: their indices, why, and what is to be done.
GPUS: Final = (
    "gpu-lost",
    "gpu-reboot-required",
    "gpu-hardware-service",
    "gpu-reset-required",
    "gpu-unlisted",
    "gpu-degraded",
    "gpu-unknown",
)
# About the node as a whole: why, and what was measured.
WHOLE: Final = (
    "driver-hung",
    "driver-mismatch",
    "driver-missing",
    "readings-silent",
    "gpu-work-stuck",
    "gpu-count-mismatch",
    "clock-skew",
    "kernel-log-lost",
    "kernel-log-unread",
)

OF_GPUS: Patterns = {
    "attention.gpu-lost": ngettext("{n} GPU of {node} is lost", "{n} GPUs of {node} are lost"),
    "attention.gpu-reboot-required": ngettext("{n} GPU of {node} needs a reboot", "{n} GPUs of {node} need a reboot"),
    "attention.gpu-hardware-service": ngettext(
        "{n} GPU of {node} needs hardware service", "{n} GPUs of {node} need hardware service"
    ),
    "attention.gpu-reset-required": ngettext("{n} GPU of {node} needs a reset", "{n} GPUs of {node} need a reset"),
    "attention.gpu-unlisted": ngettext(
        "{n} GPU of {node} failed and is in no reading", "{n} GPUs of {node} failed and are in no reading"
    ),
    "attention.gpu-degraded": ngettext("{n} GPU of {node} is degraded", "{n} GPUs of {node} are degraded"),
    "attention.gpu-unknown": ngettext("{n} GPU of {node} cannot be read", "{n} GPUs of {node} cannot be read"),
    "attention.gpu-unheld-use": ngettext(
        "{n} GPU of {node} is used by no pod’s process", "{n} GPUs of {node} are used by no pod’s processes"
    ),
    "attention.gpu-idle-held": ngettext("{n} GPU of {node} is held idle", "{n} GPUs of {node} are held idle"),
    "attention.rack-event": ngettext("Rack {name} slows {n} node", "Rack {name} slows {n} nodes"),
    "attention.zone-event": ngettext("Zone {name} slows {n} node", "Zone {name} slows {n} nodes"),
    "attention.driver-hung": _("The driver of {node} hangs"),
    "attention.driver-mismatch": _("Driver and library of {node} differ"),
    "attention.driver-missing": _("The driver of {node} cannot be used"),
    "attention.readings-silent": _("No readings arrive from {node}"),
    "attention.gpu-work-stuck": _("Work on the GPUs of {node} is stuck"),
    "attention.gpu-count-mismatch": _("{node} tells of different numbers of GPUs"),
    "attention.clock-skew": _("The clock of {node} differs from ours"),
    "attention.kernel-log-lost": _("Lines of {node}’s kernel log were lost"),
    "attention.kernel-log-unread": _("Nobody reads the kernel log of {node}"),
    **dict.fromkeys((f"evidence.{kind}" for kind in GPUS), _("GPU {indices}: {reason}. {action}. {held}")),
    "evidence.gpu-unlisted": _("GPU at {indices}: {reason}. Its driver does not list it. {action}. {held}"),
    "evidence.rack-event": _(
        "{reason}: {gpus}, on {names}. Look at the power and the cooling there before you look at any GPU. {held}"
    ),
    "evidence.rack-more": ngettext("{names} and {n} more", "{names} and {n} more"),
    "evidence.gpu-unknown": _("GPU {indices}: {reason}. Look at the log of the agent on this node. {held}"),
    "evidence.seen": _("{reason}: {evidence}"),
    "evidence.driver-hung": _("{seen}. If it lasts, drain the node and reboot it. {held}"),
    "evidence.driver-mismatch": _(
        "{seen}. Restart the agent’s pod; if that is not enough, drain the node and reboot it. {held}"
    ),
    "evidence.driver-missing": _("{seen}. Look at the node’s driver, and at the rights of the agent. {held}"),
    "evidence.readings-silent": _("How its GPUs are is unknown. Look at the agent’s pod on this node. {held}"),
    "evidence.gpu-work-stuck": _("{seen}. Look at the pods of the GPU operator on this node. {held}"),
    "evidence.gpu-count-mismatch": _("{seen}. Look for the GPU that one of them does not see. {held}"),
    "evidence.clock-skew": _("{seen}. Look at the node’s time service."),
    "evidence.kernel-log-lost": _("{seen}. A fault may be among them."),
    "evidence.kernel-log-unread": _(
        "{seen}. Faults that only the log tells of would go unheard. Look at the agent’s pod on this node."
    ),
    "evidence.gpu-unheld-use": _("GPU {indices}: a process that runs in no pod uses what Kubernetes takes for free."),
    "evidence.gpu-idle-held": _("GPU {indices}: under 3 % for ten minutes or more. {held}"),
    "card.gpu-lost-short": _("GPU lost"),
    "card.gpu-reboot-required-short": _("Needs a reboot"),
    "card.gpu-hardware-service-short": _("Needs hardware service"),
    "card.gpu-reset-required-short": _("Needs a GPU reset"),
    "card.gpu-unlisted-short": _("Unlisted GPU failed"),
    "card.gpu-degraded-short": _("GPU degraded"),
    "card.gpu-unknown-short": _("GPU not readable"),
    "card.gpu-unheld-use-short": _("Used by no pod"),
    "card.gpu-idle-held-short": _("Held idle"),
    "card.driver-hung-short": _("Driver hangs"),
    "card.driver-mismatch-short": _("Driver mismatch"),
    "card.driver-missing-short": _("Driver not usable"),
    "card.readings-silent-short": _("No readings"),
    "card.gpu-work-stuck-short": _("GPU work stuck"),
    "card.gpu-count-mismatch-short": _("GPU counts differ"),
    "card.clock-skew-short": _("Clock differs"),
    "card.kernel-log-lost-short": _("Log lines lost"),
    "card.kernel-log-unread-short": _("Kernel log not read"),
    "card.driver-upgrade-short": _("Driver upgrade"),
    "card.mig-change-short": _("MIG change"),
    "help.concern.gpu-lost": _("The driver cannot reach a GPU any more: drain the node, then reboot it."),
    "help.concern.gpu-reboot-required": _("A GPU works again only after a reboot of its node."),
    "help.concern.gpu-hardware-service": _(
        "A GPU is broken: neither reset nor reboot helps, its board has to be serviced."
    ),
    "help.concern.gpu-reset-required": _("A GPU cannot be trusted until it has been reset."),
    "help.concern.gpu-unlisted": _(
        "The driver’s log tells of a GPU that failed and that no reading has ever listed: drain the node, then look at it."
    ),
    "help.concern.rack-event": _(
        "Power brake or heat slows GPUs of several nodes of one rack (without a rack label: one zone) at the same time: "
        "one entry for all of them."
    ),
    "help.concern.gpu-degraded": _("A GPU works, but is slow, hot, or has a reset due at the next convenience."),
    "help.concern.gpu-unknown": _(
        "A GPU cannot be read, so nobody knows how it is: it counts as neither available nor free."
    ),
    "help.concern.gpu-unheld-use": _(
        "A process that runs in no pod uses a GPU that Kubernetes would give to somebody else."
    ),
    "help.concern.gpu-idle-held": _("Pods hold GPUs that have done nothing for ten minutes."),
    "help.concern.driver-hung": _("Calls of the driver do not return, three readings in a row."),
    "help.concern.driver-mismatch": _(
        "The driver’s library and its kernel module are of different versions: restart the agent, or the node."
    ),
    "help.concern.driver-missing": _(
        "The driver, its library, or the right to use it is missing, so no GPU can be read."
    ),
    "help.concern.readings-silent": _("No reading has come for 60 s: how the GPUs are is unknown."),
    "help.concern.gpu-work-stuck": _("A driver upgrade or a MIG change has failed, or takes longer than it may."),
    "help.concern.gpu-count-mismatch": _("Driver, labels and slots tell of different numbers of GPUs."),
    "help.concern.clock-skew": _("The node’s clock and Vigie’s differ by more than 2 s: ages cannot be trusted."),
    "help.concern.kernel-log-unread": _(
        "The agent cannot read the kernel log, so that no fault is reported means nothing."
    ),
    "help.concern.kernel-log-lost": _(
        "The kernel log was overwritten before it was read: a fault may be among the lost lines."
    ),
}
