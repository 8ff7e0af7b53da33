"""Which ReplicaSet is a Deployment's new one, and the annotations that number and size its revisions.

Follows kubernetes/pkg/controller/deployment/util/deployment_util.go. Pure: objects in, objects out.
"""

from typing import Any

from fleet.simulation.ownership import owner_reference, template_hash
from fleet.simulation.rollout_steps import DESIRED, MAX, size, surge_and_unavailable

Object = dict[str, Any]

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
HASH_LABEL = "pod-template-hash"
NOT_COPIED = frozenset({
    REVISION, HISTORY, DESIRED, MAX, "deprecated.deployment.rollback.to",
    "kubectl.kubernetes.io/last-applied-configuration",
})  # fmt: skip


def _plain(template: Object) -> Object:
    """The template without the hash that the controller adds."""
    metadata = dict(template.get("metadata") or {})
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != HASH_LABEL}
    metadata["labels"] = labels
    metadata = {k: v for k, v in metadata.items() if v and k != "creationTimestamp"}
    return {"metadata": metadata, "spec": template["spec"]}


def same_template(one: Object, other: Object) -> bool:
    return _plain(one) == _plain(other)


def newest_of(deployment: Object, replica_sets: list[Object]) -> Object | None:
    """The oldest ReplicaSet whose template is the Deployment's."""
    template = deployment["spec"]["template"]
    oldest_first = sorted(replica_sets, key=lambda r: (r["metadata"]["creationTimestamp"], r["metadata"]["name"]))
    return next((r for r in oldest_first if same_template(r["spec"]["template"], template)), None)


def revision(obj: Object) -> int:
    return int((obj["metadata"].get("annotations") or {}).get(REVISION, "0"))


def sizes_annotations(deployment: Object) -> dict[str, str]:
    surge, _ = surge_and_unavailable(deployment)
    return {DESIRED: str(size(deployment)), MAX: str(size(deployment) + surge)}


def annotations_for(deployment: Object, existing: Object | None, number: int) -> dict[str, str]:
    """A ReplicaSet's annotations as the newest one with at least revision `number`."""
    annotations = dict(existing["metadata"].get("annotations") or {}) if existing else {}
    given = deployment["metadata"].get("annotations") or {}
    annotations |= {k: v for k, v in given.items() if k not in NOT_COPIED}
    old = annotations.get(REVISION)
    if int(old or "0") < number:
        annotations[REVISION] = str(number)
        if old:
            known = [v for v in annotations.get(HISTORY, "").split(",") if v]
            annotations[HISTORY] = ",".join([*known, old])
    if existing is None:
        annotations |= sizes_annotations(deployment)
    return annotations


def replica_set_for(deployment: Object, number: int, replicas: int) -> Object:
    """The ReplicaSet to create for the Deployment's present template."""
    metadata = deployment["metadata"]
    template = _plain(deployment["spec"]["template"])
    collisions = deployment["status"].get("collisionCount", 0)
    identity = template_hash(template, collisions)
    labels = {**(template["metadata"].get("labels") or {}), HASH_LABEL: identity}
    selector = deployment["spec"]["selector"]
    matched = {**(selector.get("matchLabels") or {}), HASH_LABEL: identity}
    spec: Object = {
        "replicas": replicas,
        "selector": {**selector, "matchLabels": matched},
        "template": {"metadata": {**template["metadata"], "labels": labels}, "spec": template["spec"]},
    }
    if deployment["spec"].get("minReadySeconds"):
        spec["minReadySeconds"] = deployment["spec"]["minReadySeconds"]
    return {
        "metadata": {
            "name": f"{metadata['name']}-{identity}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": annotations_for(deployment, None, number),
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": spec,
    }
