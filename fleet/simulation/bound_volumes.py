"""Volumes with their claims, which the rehearsal has bound from the start: nobody provisions or binds here.

Owns putting them into the store. What they are like is local_disks.py's and training_manifests.py's.
"""

from functools import partial
from typing import Any

from fleet.simulation.informer import key_of
from fleet.simulation.store import Store

Object = dict[str, Any]


def bind(store: Store, parts: list[tuple[str, Object, Object]], manager: str) -> None:
    """Create each of `parts` (plural, object, status), which is there already for the second who claims it."""
    for plural, made, status in parts:
        metadata = made["metadata"]
        namespace, name = metadata.get("namespace"), metadata["name"]
        if key_of(made) in store.shelf(plural).records:
            continue
        store.create(plural, made, manager=manager)
        store.mutate(plural, namespace, name, partial(_with_status, status), manager=manager, subresource="status")


def _with_status(status: Object, draft: Object) -> Object:
    return {**draft, "status": status}
