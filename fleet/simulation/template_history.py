"""ControllerRevisions: what StatefulSets and DaemonSets keep of their earlier templates.

Follows kubernetes/pkg/controller/history: a revision is found by what it holds, one that is wanted again gets the next
number, and only revisionHistoryLimit unused ones are kept. Must not know pods.
"""

from collections.abc import Collection
from typing import Any

from fleet.simulation.controller import Controller
from fleet.simulation.informer import key_of, split_key
from fleet.simulation.ownership import owner_reference, template_hash

Object = dict[str, Any]

REVISION_LABEL = "controller-revision-hash"


def present_revision(controller: Controller, owner: Object) -> Object:
    """The ControllerRevision of the owner's present template: made when it is new, renumbered when it is an old one."""
    known = _known(controller, owner)
    data = _data(owner)
    found = next((r for r in reversed(known) if r["data"] == data), None)
    if found is None:
        identity = template_hash(owner["spec"]["template"], owner["status"].get("collisionCount", 0))
        number = max((r["revision"] for r in known), default=0) + 1
        made = revision_of(owner, f"{owner['metadata']['name']}-{identity}", identity, number)
        return controller.store.create("controllerrevisions", made, manager=controller.manager)
    if found is known[-1]:
        return found
    number = known[-1]["revision"] + 1
    namespace, name = split_key(key_of(found))
    return controller.store.mutate(
        "controllerrevisions", namespace, name, lambda draft: {**draft, "revision": number}, manager=controller.manager
    )


def forget(controller: Controller, owner: Object, used: Collection[str]) -> None:
    """Keep no more than revisionHistoryLimit revisions besides those in `used` (names)."""
    unused = [r for r in _known(controller, owner) if r["metadata"]["name"] not in used]
    surplus = len(unused) - owner["spec"].get("revisionHistoryLimit", 10)
    for revision in unused[: max(0, surplus)]:
        namespace, name = split_key(key_of(revision))
        controller.store.delete("controllerrevisions", namespace, name, uid=revision["metadata"]["uid"])


def hash_of(owner: Object, revision: Object) -> str:
    """What pods made from a revision are labelled with."""
    return str(revision["metadata"]["name"]).removeprefix(f"{owner['metadata']['name']}-")


def revision_of(owner: Object, name: str, identity: str, number: int) -> Object:
    """The ControllerRevision that keeps a set's present template."""
    labels = (owner["spec"]["selector"] or {}).get("matchLabels") or {}
    return {
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**labels, "controller.kubernetes.io/hash": identity},
            "ownerReferences": [owner_reference(owner)],
        },
        "data": _data(owner),
        "revision": number,
    }


def _data(owner: Object) -> Object:
    return {"spec": {"template": {"$patch": "replace", **owner["spec"]["template"]}}}


def _known(controller: Controller, owner: Object) -> list[Object]:
    """The owner's revisions, oldest number first."""
    found = controller.informers["controllerrevisions"].indexed("controller", owner["metadata"]["uid"])
    return sorted(found, key=lambda r: (r["revision"], r["metadata"]["creationTimestamp"]))
