"""The steps that make the other side of a pair: its Deployment, and its budget.

Owns how each is made once, and that what others have made under its name stays as it is. Must not know the order of steps.
"""

from fleet.act import release_facts
from fleet.act.release_facts import GONE, forbidden
from fleet.act.steps import CONFLICT_S, Done, Failed, Outcome, Skipped, Wait, Work
from fleet.domain import green_sides, releases, revisions
from fleet.domain.releases import parts
from fleet.domain.revisions import ChangeError, Json, Workload
from fleet.ports import PortError


def create(work: Work) -> Outcome:
    """Make the Deployment, once: one of that name which is not ours stays as it is."""
    kind, namespace, name = parts(work.step.subject)
    there = work.site.changer.read_workload(kind, namespace, name)
    if there is not None:
        ours = (there.metadata.get("annotations") or {}).get(green_sides.CREATED) == work.action.name
        return Done(_made_as(there.raw)) if ours else Failed("exists", {"name": name})
    blue = release_facts.workload(work, str(work.step.facts.get("of")))
    if blue is None or blue.uid != work.step.facts.get("uid"):
        return GONE
    if blue.generation != work.step.facts.get("generation"):
        return Failed("changed", {"generation": blue.generation})
    return forbidden(work) or _copied(work, blue)


def _copied(work: Work, blue: Workload) -> Outcome:
    _, namespace, name = parts(work.step.subject)
    try:
        made = _copy(work, blue, name)
    except ChangeError as error:
        return Failed("refused", {"reason": error.why})
    return _make(work, "Deployment", namespace, made)


def _copy(work: Work, blue: Workload, name: str) -> Json:
    options = release_facts.options(work)
    labels = str(work.step.facts.get("labels") or "").split(",")
    chosen = releases.images(blue, options["image"]) if options.get("image") else {}
    return green_sides.green(blue, labels, options.get("version", ""), chosen, name, work.action.name)


def budget(work: Work) -> Outcome:
    """Its own budget, unless one is over its pods already: with two of them no pod could be evicted."""
    _, namespace, name = parts(work.step.subject)
    made = release_facts.workload(work, work.step.subject)
    if made is None:
        return GONE
    blue = release_facts.workload(work, str(work.step.facts.get("of")))
    budgets = work.site.changer.read_budgets(namespace=namespace)
    over = green_sides.shared_budgets(budgets, made.raw)
    if over:
        own = over == (name,)
        return Done({"budget": name}) if own else Skipped({"shared": ", ".join(over)})
    if name in {one.metadata.name for one in budgets}:
        return Failed("exists", {"name": name})
    names = green_sides.shared_budgets(budgets, blue.raw) if blue else ()
    wanted = green_sides.budget(made.raw, [b for b in budgets if b.metadata.name in names], work.action.name)
    return _make(work, "PodDisruptionBudget", namespace, wanted)


def _make(work: Work, kind: str, namespace: str, body: Json) -> Outcome:
    """Created; or somebody was faster with that name, which the next look will tell."""
    if work.late:
        return Wait(CONFLICT_S)
    work.claim.check()
    try:
        made = work.site.changer.create(kind, namespace, body)
    except PortError as error:
        if error.status == 409:
            return Wait(CONFLICT_S)
        raise
    return Done(_made_as(made))


def _made_as(made: Json) -> dict[str, str]:
    """What tells later whether somebody has changed it, as the server has written it."""
    found, template = {"uid": str(made["metadata"]["uid"])}, (made.get("spec") or {}).get("template")
    return {**found, "template": revisions.digest(template)} if template else found
