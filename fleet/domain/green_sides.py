"""The other side of a pair: a Deployment made of the one that serves, with its own version, image and budget.

Owns what is taken over, what is not, and what it is called. Must not create anything. What a package manager or a repository uses
to know its objects is left out: it would take the copy for its own, and delete it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from fleet.domain.blue_green import SYNCED
from fleet.domain.budgets import selects
from fleet.domain.objects import Budget, LabelSelector
from fleet.domain.revisions import CAUSE, HASH_LABEL, RESTARTED, REVISION, ChangeError, Json, Workload, after, set_image
from fleet.domain.specs import Claim

CREATED = "vigie.dev/created-by"  # on what Vigie has made: the action
COPY_OF = "vigie.dev/copy-of"
SINGLE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})

LONGEST_NAME = 63  # of a Deployment whose name becomes a label of others
LONGEST_LABEL = 63

_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LEFT_OUT = frozenset(
    {
        *SYNCED,
        REVISION,
        CAUSE,
        RESTARTED,
        HASH_LABEL,
        "kubectl.kubernetes.io/last-applied-configuration",
        "app.kubernetes.io/managed-by",
        "helm.sh/chart",
        "meta.helm.sh/release-name",
        "meta.helm.sh/release-namespace",
    }
)


def default_name(blue: str, was: str, version: str) -> str:
    """ "llm-blue" of blue becomes "llm-green"; a name that does not tell its version gets it appended."""
    slug = re.sub(r"[^a-z0-9]+", "-", version.lower()).strip("-")
    old = re.sub(r"[^a-z0-9]+", "-", was.lower()).strip("-")
    stem = blue.removesuffix(f"-{old}") if old else blue
    return f"{stem[: LONGEST_NAME - len(slug) - 1].rstrip('-')}-{slug}"


def green(
    blue: Workload,
    labels: Sequence[str],
    version: str,
    images: Mapping[str, str],
    name: str,
    action: str = "",
) -> Json:
    """The Deployment `name` with `version` in the labels that tell sides apart. Raises ChangeError: a name, version or image that
    cannot be, no label to tell them apart, or blue's own version."""
    if not labels:
        raise ChangeError("untold")
    if not _LABEL.fullmatch(version) or len(version) > LONGEST_LABEL:
        raise ChangeError("version")
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise ChangeError("name")
    own = dict.fromkeys(labels, version)
    if all((blue.template.get("metadata") or {}).get("labels", {}).get(label) == version for label in labels):
        raise ChangeError("same-version", version=version)
    template = after(blue, set_image(blue, images)) if images else blue.template
    selector = blue.spec.get("selector") or {}
    spec = {field: value for field, value in blue.spec.items() if field not in {"paused", "template", "selector"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "labels": {**_kept(blue.metadata.get("labels")), **own},
            "annotations": {
                **_kept(blue.metadata.get("annotations")),
                COPY_OF: str(blue.metadata.get("name", "")),
                **({CREATED: action} if action else {}),
            },
        },
        "spec": {
            **spec,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **own}},
            "template": _own_template(template, own),
        },
    }


def _kept(marks: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value for name, value in (marks or {}).items() if name not in _LEFT_OUT}


def _own_template(template: Json, own: Mapping[str, str]) -> Json:
    metadata = template.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH_LABEL}
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != RESTARTED}
    made: Json = {"labels": {**labels, **own}, **({"annotations": annotations} if annotations else {})}
    return {"metadata": made, "spec": _near_its_own(template.get("spec") or {}, own)}


def _near_its_own(value: Any, own: Mapping[str, str]) -> Any:
    """Affinity and spread that name blue's version mean green's in the copy."""
    if isinstance(value, list):
        return [_near_its_own(item, own) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: _near_its_own(item, own) for name, item in value.items()}
    selector = found.get("labelSelector")
    if isinstance(selector, dict):
        terms = selector.get("matchLabels") or {}
        changed = {**terms, **{name: version for name, version in own.items() if name in terms}}
        found["labelSelector"] = {**selector, "matchLabels": changed} if terms else selector
    return found


def labels_of(made: Json) -> dict[str, str]:
    """Of the copy's pods."""
    found: dict[str, str] = made["spec"]["template"]["metadata"]["labels"]
    return found


def single_volumes(made: Json, claims: Mapping[str, Claim]) -> tuple[str, ...]:
    """Claims of the copy's pods that one node at a time may mount: blue's pods hold them already. `claims`: by name."""
    volumes = (made["spec"]["template"].get("spec") or {}).get("volumes") or ()
    names = {str((one.get("persistentVolumeClaim") or {}).get("claimName") or "") for one in volumes}
    modes = {name: claims[name].spec.access_modes for name in sorted(names & claims.keys())}
    return tuple(name for name, found in modes.items() if found and SINGLE.issuperset(found))


def overlaps(blue: Workload, made: Json) -> bool:
    """Whether blue's selector selects green's pods as well: each would then count the other's."""
    selector = msgspec.convert(blue.spec.get("selector") or {}, LabelSelector)
    return selects(selector, labels_of(made))


def shared_budgets(budgets: Iterable[Budget], made: Json) -> tuple[str, ...]:
    """Budgets that would be over the copy's pods: another one of their own would make them impossible to evict."""
    labels = labels_of(made)
    return tuple(sorted(budget.metadata.name for budget in budgets if selects(budget.spec.selector, labels)))


def budget(made: Json, blues: Sequence[Budget], action: str = "") -> Json:
    """The copy's own budget: as blue's says, or one pod at a time. `blues`: budgets over blue's pods."""
    name, rule = made["metadata"]["name"], _rule(blues)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, **({"annotations": {CREATED: action}} if action else {})},
        "spec": {"selector": made["spec"]["selector"], **rule},
    }


def _rule(blues: Sequence[Budget]) -> Json:
    spec = blues[0].spec if len(blues) == 1 else None
    if spec is None:
        return {"maxUnavailable": 1}
    found = {
        "minAvailable": spec.min_available,
        "maxUnavailable": spec.max_unavailable,
        "unhealthyPodEvictionPolicy": spec.unhealthy_pod_eviction_policy or None,
    }
    return {name: value for name, value in found.items() if value is not None}
