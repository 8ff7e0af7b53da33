"""The actions on workloads and Services: restart, pause, resume, undo, set image, scale; switch, way back, retire, create green.

Owns their steps, the equivalent commands, and what of the target a plan has seen. Must not do anything.
"""

import json
import shlex
from collections.abc import Mapping

from fleet.domain import revisions, rollouts, save_steps, switching
from fleet.domain.kinds import SAVE_FIRST, ActionKind, Danger, Subject
from fleet.domain.losses import Draft
from fleet.domain.plans import Facts, Step, StepKind
from fleet.domain.release_guards import pools
from fleet.domain.releases import SCALES, Release
from fleet.domain.revisions import ChangeError, Difference, Revision, differences
from fleet.domain.smoke import Request

ABOUT_US = ("role", "cluster-open", "subject-known", "fresh", "permissions", "alone")
_CHANGE = (*ABOUT_US, "freeze", "owner", "change", "accepted")
_PODS = ("outage", "checkpoint", "undisturbed", "requests", "gang")
_ROLL = (*_CHANGE, "rolling", "room", *_PODS)
# What makes things safe is not refused for a freeze.
_SAFE = (*ABOUT_US, "owner", "change", "accepted")
CHANGE_S = 60.0
FROM, TO = "from:", "to:"  # before the labels of a selector in the facts of a step
POOLS = "pools"  # in the facts of a step: those of the nodes that it concerns, for a freeze of theirs


def release_of(draft: Draft) -> Release:
    """Of an action on a workload or a Service. Raises LookupError."""
    found = draft.facts.release
    if found is None:
        raise LookupError(draft.facts.kind)
    return found


def seen(draft: Draft) -> tuple[tuple[str, str], ...]:
    """What a plan stands on: with anything of it changed, it is another plan."""
    found, versions = release_of(draft), dict[str, str]()
    if found.service is not None:
        versions["service"] = found.service.metadata.resource_version
    if found.workload is not None:
        versions["workload"] = f"{found.workload.uid}/{found.workload.generation}"
    if found.kind == "undo" and found.revision is not None:
        versions["template"] = found.revision.digest
    if found.to is not None:
        versions["side"] = found.to.uid
    return tuple(sorted(versions.items()))


def changes(draft: Draft) -> tuple[Difference, ...]:
    """What the template would have that it has not now."""
    found = release_of(draft)
    if found.workload is None or found.template is None:
        return ()
    return differences(found.workload.template, found.template)


# Steps


def _change(draft: Draft, undo: str = "") -> Step:
    found = release_of(draft)
    facts: Facts = (("op", found.kind), (POOLS, ",".join(pools(draft))))
    if found.workload is not None:
        facts += (("uid", found.workload.uid), ("generation", found.workload.generation))
        if found.kind in SCALES:
            facts += (("was", found.workload.replicas), ("replicas", found.replicas))
    if found.kind == "undo" and found.revision is not None:
        facts += (("revision", found.revision.number), ("template", found.revision.digest))
    if found.kind == "set-image":
        facts += (("image", found.options.get("image", "")),)
    key = found.workload.key if found.workload else found.target
    return Step(StepKind.CHANGE, key, facts, undo=undo, deadline_s=CHANGE_S)


def _rollout(draft: Draft) -> Step:
    found, facts = release_of(draft), Facts()
    limits = rollouts.bounds_of(found.rolled) if found.rolled is not None else None
    if limits is not None:
        facts = (("surge", limits.surge), ("unavailable", limits.unavailable))
    key = found.workload.key if found.workload else found.target
    return Step(StepKind.ROLLOUT, key, facts, deadline_s=draft.facts.policy.deadlines.rollout_s)


def _rolling(draft: Draft) -> tuple[Step, ...]:
    """A paused Deployment keeps a new template for later: there is nothing to wait for."""
    workload = release_of(draft).workload
    held = workload is not None and workload.paused and draft.facts.kind == "set-image"
    return (*save_steps.steps(draft), _change(draft, undo="undo"), *(() if held else (_rollout(draft),)))


def _smoke(draft: Draft) -> Step:
    found, facts = release_of(draft), Facts()
    if isinstance(found.asked, Request):
        slowest = max((one.latency_s for one in found.tested), default=None)
        facts = (
            ("path", found.asked.path),
            ("port", found.asked.port),
            ("pods", len(found.tested)),
            ("passed", sum(one.passed for one in found.tested)),
            ("slowest_s", None if slowest is None else round(slowest, 3)),
        )
    return Step(StepKind.SMOKE, found.target, facts, deadline_s=CHANGE_S)


def _select(draft: Draft) -> Step:
    found = release_of(draft)
    was = found.service.spec.selector if found.service else {}
    version = found.service.metadata.resource_version if found.service else ""
    facts: Facts = (("version", version), ("side", found.to.key if found.to else None), (POOLS, ",".join(pools(draft))))
    if found.to is not None:
        facts += (("side_uid", found.to.uid),)
    if (
        found.workload is not None and found.kind == "switch"
    ):  # a way back leads to the pods that are there, whatever comes
        facts += (("side_template", revisions.digest(found.workload.template)),)
    if found.preview is not None:
        facts += (("before", _told(found.preview.before.ready)), ("after", _told(found.preview.after.ready)))
    facts += tuple((f"{FROM}{name}", value) for name, value in sorted(was.items()))
    facts += tuple((f"{TO}{name}", value) for name, value in sorted(found.selector.items()))
    return Step(StepKind.SWITCH, found.target, facts, undo="way-back", deadline_s=CHANGE_S)


def _told(ready: Mapping[str, int]) -> str:
    """ "llm-blue 4, 1 more": Ready pods by workload."""
    return ", ".join(f"{key.rpartition('/')[2] or '?'} {count}" for key, count in ready.items())


def _endpoints(draft: Draft) -> Step:
    found = release_of(draft)
    facts: Facts = tuple((f"{TO}{name}", value) for name, value in sorted(found.selector.items()))
    side: Facts = (("side", found.to.key if found.to else None),)
    return Step(StepKind.ENDPOINTS, found.target, side + facts, deadline_s=draft.facts.policy.deadlines.endpoints_s)


def _created(draft: Draft) -> tuple[Step, ...]:
    found = release_of(draft)
    name = found.copy["metadata"]["name"] if isinstance(found.copy, dict) else ""
    key = f"Deployment/{found.namespace}/{name}"
    labels = ",".join(found.pair.labels) if found.pair else ""
    key_of = found.workload.key if found.workload else None
    of: Facts = (("of", key_of), ("labels", labels), (POOLS, ",".join(pools(draft))))
    uid: Facts = (("uid", found.workload.uid), ("generation", found.workload.generation)) if found.workload else ()
    return (
        Step(StepKind.CREATE, key, of + uid, undo="retire", deadline_s=CHANGE_S),
        Step(StepKind.BUDGET, key, of, deadline_s=CHANGE_S),
        Step(StepKind.ROLLOUT, key, (("of", "create"),), deadline_s=draft.facts.policy.deadlines.rollout_s),
    )


# Commands


def _kubectl(draft: Draft) -> tuple[str, ...]:
    found, workload = release_of(draft), release_of(draft).workload
    if workload is None or isinstance(found.change, ChangeError):
        return ()
    on = f"kubectl -n {found.namespace}"
    what = f"{workload.kind.lower()}/{workload.metadata.get('name', '')}"
    revision: Revision | None = found.revision if found.kind == "undo" else None
    lines = {
        "restart": f"rollout restart {what}",
        "pause": f"rollout pause {what}",
        "resume": f"rollout resume {what}",
        "undo": f"rollout undo {what}" + (f" --to-revision={revision.number}" if revision else ""),
        "set-image": f"set image {what} {_images(found)}",
        "scale": f"scale {what} --replicas={found.replicas}",
        "retire": f"scale {what} --replicas=0",
    }
    waits = () if found.kind in {"pause", "scale", "retire"} else (f"{on} rollout status {what}",)
    return (*save_steps.commands(draft), f"{on} {lines[found.kind]}", *waits)


def _images(found: Release) -> str:
    template = (found.template or {}).get("spec") or {}
    now = found.workload.images if found.workload else {}
    later = {c.get("name"): c.get("image") for c in template.get("containers") or ()}
    return " ".join(f"{name}={image}" for name, image in later.items() if now.get(name) != image)


def _patched(draft: Draft) -> tuple[str, ...]:
    found = release_of(draft)
    if found.service is None or not found.selector:
        return ()
    meta = found.service.metadata
    patch = switching.patch(found.service.spec.selector, found.selector, meta.resource_version, {})
    del patch["metadata"]["annotations"]
    on = f"kubectl -n {found.namespace}"
    return (
        f"{on} patch service {meta.name} --type=merge -p {shlex.quote(json.dumps(patch))}",
        f"{on} get endpointslices -l {switching.SERVICE_NAME}={meta.name}",
    )


def _copied(draft: Draft) -> tuple[str, ...]:
    found = release_of(draft)
    if not isinstance(found.copy, dict) or found.workload is None:
        return ()
    on, name = f"kubectl -n {found.namespace}", found.copy["metadata"]["name"]
    return (
        f"{on} get deployment {found.workload.metadata.get('name', '')} -o yaml > {name}.yaml",
        f"# give it the name {name}, its own version label and image, then:",
        f"{on} create -f {name}.yaml",
        f"{on} rollout status deployment/{name}",
    )


_ON_WORKLOAD = Subject.WORKLOAD


def _new_version(name: str, *options: str) -> ActionKind:
    """What replaces every pod of a workload by one of another template."""
    return ActionKind(
        name,
        Danger.DESTRUCTIVE,
        _ROLL,
        _rolling,
        _kubectl,
        ends=True,
        subject=_ON_WORKLOAD,
        options=(*options, *SAVE_FIRST[:1]),
    )


KINDS = (
    _new_version("restart"),
    ActionKind("pause", Danger.REVERSIBLE, _SAFE, lambda d: (_change(d, "resume"),), _kubectl, subject=_ON_WORKLOAD),
    ActionKind(
        "resume",
        Danger.DESTRUCTIVE,  # what was changed meanwhile replaces pods now
        (*_CHANGE, "room", *_PODS),
        lambda d: (*save_steps.steps(d), _change(d, "pause")),
        _kubectl,
        ends=True,
        subject=_ON_WORKLOAD,
        options=SAVE_FIRST[:1],
    ),
    _new_version("undo", "revision"),
    _new_version("set-image", "image"),
    ActionKind(
        "scale",
        Danger.DESTRUCTIVE,
        (*_CHANGE, "scaler", "room", *_PODS),
        lambda d: (*save_steps.steps(d), _change(d, "scale"), _rollout(d)),
        _kubectl,
        ends=True,
        subject=_ON_WORKLOAD,
        options=("replicas", *SAVE_FIRST[:1]),
    ),
    ActionKind(
        "switch",
        Danger.DESTRUCTIVE,
        (*ABOUT_US, "freeze", "owner", "sides", "smoke", "accepted"),
        lambda d: (_smoke(d), _select(d), _endpoints(d)),
        _patched,
        subject=Subject.SERVICE,
        options=("side", "smoke"),
    ),
    ActionKind(
        "way-back",
        Danger.REVERSIBLE,
        (*ABOUT_US, "owner", "sides", "accepted"),
        lambda d: (_select(d), _endpoints(d)),
        _patched,
        subject=Subject.SERVICE,
    ),
    ActionKind(
        "retire",
        Danger.DESTRUCTIVE,
        (*_CHANGE, "sides", "spare", "scaler", *_PODS),
        lambda d: (_change(d, "scale"), _rollout(d)),
        _kubectl,
        ends=True,
        subject=Subject.SERVICE,
        options=("side",),
    ),
    ActionKind(
        "create-green",
        Danger.DESTRUCTIVE,
        (*_CHANGE, "sides", "room"),
        _created,
        _copied,
        subject=Subject.SERVICE,
        options=("image", "version", "name", "side"),
    ),
)
