"""The sentences that advise how often one workload should save. The server alone says them.

Owns patterns only; see `words`.
"""

from django.utils.translation import gettext_noop as _

from dashboard.panels.plurals import Patterns, ngettext

ADVICE: Patterns = {
    "advice.unknown": _("It cannot be worked out yet."),
    "advice.no-cost": _(
        "Nobody has seen how long one of its saves takes. Complete saves of several files tell it; or enter it in the planner."
    ),
    "advice.no-gpus": _("Nothing of it holds a GPU now, so nobody knows on how many it runs."),
    "advice.no-up-time": _(
        "The ledger knows no time in which a GPU of this cluster was up. Enter in the planner how often the run fails."
    ),
    "advice.too-early": _("No GPU has failed, and too little time has been seen to say how often one might."),
    "advice.hopeless": _("A run that fails so often practically never ends, however often it saves."),
    "advice.save": _("Save every {best}."),
    "advice.at-least": _("Save every {best}, or less often."),
    "advice.no-interval": _("Nobody says how often it saves now."),
    "advice.keep": _("Keep every {now}."),
    "advice.instead": _("Save every {best} instead of every {now}."),
    "advice.rarer": _("Every {best} is often enough, instead of every {now}."),
    "advice.within": _(
        "At the estimate {best} would be best, but failures are not known well enough to tell the two apart."
    ),
    "advice.same": _("{best} would be best, and win less than 0.1 % of the time."),
    "advice.range": _("The best interval is between {least} and {most}, 95 % sure."),
    "advice.wins": _("That wins back {share} of the time of {gpus}, about {hours} GPU-hours a day."),
    "advice.costs": _("A failure then costs {best} of work on average instead of {now}."),
    "advice.no-failure": _(
        "No failure was seen ({counted}), so the run fails every {mtbf} or less often, and the best interval is {best} or more."
    ),
    "advice.cannot-tell": _("Whether {now} is too long, only more time or a failure will tell."),
    "advice.others": _("Young {young}, Daly {daly}"),
    "advice.takes": _("One save takes"),
    "advice.median": ngettext("{n} save seen", "median of its last {n} saves"),
    "advice.every": _("It saves every"),
    "advice.declared": _("as declared"),
    "advice.observed": _("as it usually does"),
    "advice.fails": _("The run fails every"),
    "advice.best": _("Best interval"),
    "advice.overhead": _("Overhead, share of the work"),
    "advice.lost": _("A failure costs, on average"),
    "advice.at-most": _("{value} or less"),
    "advice.at-best": _("{value} at the best interval"),
    "advice.hook": _(
        "Before planned maintenance the interval does not matter: a plan can have it save right before its pods go."
    ),
    "advice.no-hook": _(
        "Nobody can ask it to save (vigie.dev/checkpoint-hook), so planned maintenance costs it as much as a failure."
    ),
    "advice.model": _(
        "Failures of GPUs count, and any GPU of the run ends it. They are taken to come independently and at any time, and every "
        "save to take as long. The time to restart is left out: no interval changes it."
    ),
}
