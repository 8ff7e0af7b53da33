"""The cluster's objects: the only place where the rehearsal cluster's state lives and changes.

Owns identity, versions, generations, ownership of fields, graceful deletion and finalizers, and remembers the latest
changes for watchers. HTTP and the controllers write through it alike. Must not know HTTP, nor act by itself: what
follows from a change (pods of a ReplicaSet, garbage collection) is the controllers' work.

Objects that leave the store are shared: never change what get, list or a Change returns.
"""

import builtins
import random
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from fleet.simulation import admission, apply, defaults, deletion, managed_fields, refusals, validation
from fleet.simulation.clock import Clock
from fleet.simulation.deletion import timestamp
from fleet.simulation.history import Change, Record, Shelf, Subscription
from fleet.simulation.label_selectors import LabelSelector
from fleet.simulation.refusals import ApiError
from fleet.simulation.resources import RESOURCES, SERVED, Resource

__all__ = ["RESOURCES", "ApiError", "Change", "Object", "Resource", "Store", "Subscription", "timestamp"]

Object = dict[str, Any]

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
# Kinds that outlive their last metadata.finalizer: pods until their kubelet is done, namespaces until they are empty.
_LINGERING = frozenset({"pods", "namespaces"})
# Kinds whose metadata.generation counts changes of the spec; the others have none.
COUNTED = frozenset({
    "daemonsets", "deployments", "replicasets", "statefulsets", "jobs", "cronjobs", "pods", "poddisruptionbudgets",
    "endpointslices", "replicationcontrollers", "ingresses", "networkpolicies", "horizontalpodautoscalers",
    "customresourcedefinitions", "flowschemas", "prioritylevelconfigurations", "priorityclasses",
})  # fmt: skip


def key_of(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


class Store:
    """All state of one rehearsal cluster. Plural names as in RESOURCES ("pods", "events.events.k8s.io")."""

    def __init__(self, clock: Clock, *, seed: int | None = None, window: int = 10_000) -> None:
        self.clock = clock
        self.resource_version = 0
        self.random = random.Random(seed)  # noqa: S311 (names and uids of a rehearsal, no secrets)
        self._shelves = {r.plural: Shelf(window) for r in SERVED if r.stored}
        for name in SYSTEM_NAMESPACES:
            self.create("namespaces", {"metadata": {"name": name}}, manager="kube-apiserver")

    # Reading

    def shelf(self, plural: str) -> Shelf:
        """The storage behind a resource; both groups of events have one."""
        return self._shelves[RESOURCES[plural].plural]

    def record(self, plural: str, namespace: str | None, name: str) -> Record:
        """ApiError 404 when there is no such object."""
        record = self.shelf(plural).records.get(key_of(namespace, name))
        if record is None:
            raise refusals.not_found(RESOURCES[plural], name)
        return record

    def get(self, plural: str, namespace: str | None, name: str) -> Object:
        """ApiError 404 when there is no such object."""
        return self.record(plural, namespace, name).object

    def list(
        self,
        plural: str,
        namespace: str | None = None,
        labels: Mapping[str, str] | LabelSelector | None = None,
        field: Callable[[Object], bool] | None = None,
    ) -> list[Object]:
        """Objects in key order; `labels` is a selector or label values that must be equal."""
        selector = LabelSelector.of(labels) if isinstance(labels, Mapping) else labels
        prefix = f"{namespace}/" if namespace else ""
        return [
            r.object
            for _, r in self.shelf(plural).range(prefix)
            if (selector is None or selector.matches(r.object["metadata"].get("labels") or {}))
            and (field is None or field(r.object))
        ]

    def subscribe(self, plural: str, since: int | None = None) -> Subscription:
        """The changes after version `since` (None: from now on); ApiError 410 when that is too old."""
        return Subscription(self.shelf(plural), self.resource_version if since is None else since)

    def expire(self) -> None:
        """Make every version so far too old to watch from or to continue a list at, as a restart does."""
        for shelf in self._shelves.values():
            shelf.forget(self.resource_version)

    # Writing

    def create(self, plural: str, obj: Object, *, manager: str, dry_run: bool = False) -> Object:
        """ApiError 404 (no namespace), 409 AlreadyExists, 422."""
        resource = RESOURCES[plural]
        new = self._draft(resource, obj)
        metadata = new["metadata"]
        self._name(resource, metadata)
        self._check_namespace(resource, metadata)
        key = key_of(metadata.get("namespace"), metadata["name"])
        self._prepare(resource, new)
        validation.check_create(resource, new)
        if key in self.shelf(plural).records:
            raise refusals.already_exists(resource, metadata["name"])
        if plural == "pods":
            self._admit(new)
        metadata["managedFields"] = managed_fields.updated(None, new, manager, timestamp(self.clock.now()))
        return self._commit(resource, "ADDED", key, new, dry_run=dry_run)

    def restore(self, plural: str, obj: Object, *, own: bool = True) -> Object:
        """Put an object back as it was somewhere else, with its uid, times and managers; only its version is new.

        `own` False: `obj` itself is kept, so that many objects can share their unchanging parts (a large seed).
        """
        resource = RESOURCES[plural]
        new = self._draft(resource, obj) if own else obj
        key = key_of(new["metadata"].get("namespace"), new["metadata"]["name"])
        kind = "MODIFIED" if key in self.shelf(plural).records else "ADDED"
        return self._commit(resource, kind, key, new)

    def update(self, plural: str, obj: Object, *, manager: str, subresource: str = "", dry_run: bool = False) -> Object:
        """Replace. A resourceVersion in `obj` must be the present one (409). ApiError 404, 409, 422."""
        new = self._draft(RESOURCES[plural], obj)
        return self._replace(plural, new, manager=manager, subresource=subresource, dry_run=dry_run)

    def mutate(
        self,
        plural: str,
        namespace: str | None,
        name: str,
        fn: Callable[[Object], Object | None],
        *,
        manager: str,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Read, change a copy with `fn` (in place, or returning another), write. ApiError 404, 409, 422.

        `subresource`: "" writes everything but the status, "status" everything but the spec, any other both.
        """
        draft = self.record(plural, namespace, name).copy()
        result = fn(draft)
        new = draft if result is None else result
        return self._replace(plural, new, manager=manager, subresource=subresource, dry_run=dry_run)

    def apply(
        self,
        plural: str,
        obj: Object,
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply: create, or merge what `manager` wants and drop what it no longer does. ApiError 409."""
        resource = RESOURCES[plural]
        wanted = self._draft(resource, obj)
        metadata = wanted["metadata"]
        key = key_of(metadata.get("namespace"), metadata["name"])
        record = self.shelf(plural).records.get(key)
        at = timestamp(self.clock.now())
        if record is None:
            created = self.create(plural, wanted, manager=manager, dry_run=True)
            entries = apply.created(wanted, manager, at)
            new = {**created, "metadata": {**created["metadata"], "managedFields": entries}}
            return self._commit(resource, "ADDED", key, new, dry_run=dry_run)
        new, entries = apply.applied(record.copy(), wanted, manager, at, subresource, force=force)
        return self._replace(plural, new, manager=manager, subresource=subresource, dry_run=dry_run, entries=entries)

    def delete(  # noqa: PLR0913 -- what DeleteOptions can say
        self,
        plural: str,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        grace_s: int | None = None,
        propagation: str = "Background",
        resource_version: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Begin or finish a deletion; returns the object's last state. ApiError 404, 409 (preconditions).

        A bound, unfinished pod is only marked (deletionTimestamp = now + grace) until its kubelet deletes it with
        grace 0; finalizers keep any object. `propagation` Foreground or Orphan adds the finalizer for the collector.
        """
        resource = RESOURCES[plural]
        record = self.record(plural, namespace, name)
        metadata = record.object["metadata"]
        if uid is not None and uid != metadata["uid"]:
            raise refusals.precondition_failed(resource, name, "UID", uid, metadata["uid"])
        if resource_version is not None and resource_version != metadata["resourceVersion"]:
            raise refusals.precondition_failed(
                resource, name, "ResourceVersion", resource_version, metadata["resourceVersion"]
            )
        doomed = deletion.marked(resource, record.copy(), self.clock.now(), grace_s, propagation)
        key = key_of(namespace, name)
        final = deletion.is_final(resource, doomed)
        terminating = "deletionTimestamp" in metadata
        if doomed != record.object and (not final or terminating):
            shown = self._commit(resource, "MODIFIED", key, doomed, dry_run=dry_run)
            doomed = msgspec.json.decode(msgspec.json.encode(shown))
        if not final:
            return doomed
        if not terminating and plural != "pods":
            for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
                del doomed["metadata"][field]
        return self._commit(resource, "DELETED", key, doomed, dry_run=dry_run)

    def bind(self, namespace: str, name: str, node: str, *, dry_run: bool = False) -> Object:
        """The scheduler's binding: node name, PodScheduled, the node's topology labels. ApiError 404, 409."""
        pod = self.record("pods", namespace, name).copy()
        if pod["spec"].get("nodeName"):
            why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
            raise refusals.conflict(RESOURCES["pods"], name, why)
        if "deletionTimestamp" in pod["metadata"]:
            why = f"pod {name} is being deleted, cannot be assigned to a host"
            raise refusals.conflict(RESOURCES["pods"], name, why)
        bound = self.shelf("nodes").records.get(node)
        defaults.bind(pod, node, bound.object if bound else None, timestamp(self.clock.now()))
        return self._commit(RESOURCES["pods"], "MODIFIED", key_of(namespace, name), pod, dry_run=dry_run)

    def finalize(self, name: str, finalizers: builtins.list[str], *, manager: str) -> Object:
        """Set a namespace's own finalizers; the last one gone, a terminating namespace goes. ApiError 404."""

        def put(draft: Object) -> None:
            draft["spec"]["finalizers"] = finalizers

        written = self.mutate("namespaces", None, name, put, manager=manager, subresource="finalize")
        if "deletionTimestamp" in written["metadata"] and not finalizers:
            self._commit(RESOURCES["namespaces"], "DELETED", name, {**written, "metadata": {**written["metadata"]}})
        return written

    # How writing works

    def _draft(self, resource: Resource, obj: Object) -> Object:
        """A copy of our own, with kind and metadata first, as stored."""
        copied: Object = msgspec.json.decode(msgspec.json.encode(obj))
        metadata = copied.pop("metadata", None) or {}
        copied.pop("kind", None)
        copied.pop("apiVersion", None)
        stored = RESOURCES[resource.plural]
        head = {"kind": stored.kind, "apiVersion": stored.api_version, "metadata": metadata}
        return {**head, **copied}

    def _name(self, resource: Resource, metadata: Object) -> None:
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + self._suffix()
        validation.check_name(resource, metadata)

    def _suffix(self) -> str:
        return "".join(self.random.choices(NAME_LETTERS, k=5))

    def _free_address(self) -> str:
        """A cluster IP that no service has."""
        taken = {r.object["spec"].get("clusterIP") for r in self.shelf("services").records.values()}
        while True:
            number = self.random.randrange(256, 256 * 256 - 256)
            address = f"10.96.{number >> 8}.{number & 255}"
            if address not in taken:
                return address

    def _check_namespace(self, resource: Resource, metadata: Object) -> None:
        if not resource.namespaced:
            metadata.pop("namespace", None)
            return
        namespace = metadata.setdefault("namespace", "default")
        record = self.shelf("namespaces").records.get(namespace)
        if record is None:
            raise refusals.not_found(RESOURCES["namespaces"], namespace)
        if "deletionTimestamp" in record.object["metadata"]:
            raise refusals.namespace_terminating(resource, metadata.get("name", ""), namespace)

    def _admit(self, pod: Object) -> None:
        """ApiError 403 for a pod that its namespace has no account or no quota for."""
        admission.check_account(pod, self.shelf("serviceaccounts").records)
        namespace = pod["metadata"]["namespace"]
        quotas = self.list("resourcequotas", namespace)
        if quotas:
            admission.check_quotas(pod, quotas, self.list("pods", namespace))

    def _prepare(self, resource: Resource, new: Object) -> None:
        """What the server sets itself on creation: identity, defaults, an empty status."""
        metadata = new["metadata"]
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "generation"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = timestamp(self.clock.now())
        if resource.has_status and resource.plural not in {"nodes", "namespaces"}:
            new.pop("status", None)
        if resource.plural in COUNTED:
            metadata["generation"] = 1
        priority_classes = self.shelf("priorityclasses").records if resource.plural == "pods" else {}
        defaults.fill(resource, new, self._suffix, {k: r.object for k, r in priority_classes.items()})
        if resource.plural == "services":
            defaults.allot_address(new, self._free_address())
        if resource.plural == "pods" and new["spec"].get("nodeName"):
            node = self.shelf("nodes").records.get(new["spec"]["nodeName"])
            defaults.place(new, node.object if node else None)

    def _replace(
        self,
        plural: str,
        new: Object,
        *,
        manager: str,
        subresource: str,
        dry_run: bool,
        entries: builtins.list[Object] | None = None,
    ) -> Object:
        """The common end of update, patch and apply: `entries` are managedFields worked out already."""
        resource = RESOURCES[plural]
        metadata = new["metadata"]
        name = metadata.get("name", "")
        namespace = metadata.get("namespace") if resource.namespaced else None
        record = self.record(plural, namespace, name)
        old = record.object
        version = metadata.get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise refusals.conflict(resource, name)
        self._keep(resource, old, new, subresource)
        validation.check_update(resource, old, new, subresource)
        if plural in COUNTED and subresource not in {"status", "binding"} and _spec_of(old) != _spec_of(new):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        if _same(old, new) and (entries is None or entries == old["metadata"].get("managedFields")):
            return old
        if entries is None:
            at = timestamp(self.clock.now())
            entries = managed_fields.updated(old, new, manager, at, "" if subresource == "scale" else subresource)
        metadata["managedFields"] = entries
        key = key_of(namespace, name)
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and plural not in _LINGERING:
            return self._commit(resource, "DELETED", key, new, dry_run=dry_run)
        written = self._commit(resource, "MODIFIED", key, new, dry_run=dry_run)
        released = old["metadata"].get("finalizers") and not metadata.get("finalizers")
        if plural == "pods" and released and metadata.get("deletionGracePeriodSeconds") == 0:
            return self._commit(resource, "DELETED", key, {**new, "metadata": {**metadata}}, dry_run=dry_run)
        return written

    def _keep(self, resource: Resource, old: Object, new: Object, subresource: str) -> None:
        """What a write cannot change: the other half of the object, and the server's own metadata."""
        if resource.has_status and subresource == "":
            _restore_field(old, new, "status")
        elif resource.has_status and subresource == "status":
            for field in (set(old) | set(new)) - {"metadata", "status"}:
                _restore_field(old, new, field)
        metadata, was = new["metadata"], old["metadata"]
        if not metadata.get("uid"):
            metadata["uid"] = was["uid"]
        for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            _restore_field(was, metadata, field)
        if not subresource:
            defaults.fill_update(resource, old, new)

    def _commit(self, resource: Resource, kind: str, key: str, new: Object, *, dry_run: bool = False) -> Object:
        if dry_run:
            return new
        self.resource_version += 1
        new["metadata"]["resourceVersion"] = str(self.resource_version)
        self.shelf(resource.plural).put(kind, key, Record(new, self.resource_version))
        return new


def _restore_field(old: Object, new: Object, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def _spec_of(obj: Object) -> Object:
    return {k: v for k, v in obj.items() if k not in {"metadata", "status"}}


def _same(old: Object, new: Object) -> bool:
    """Equal but for version and managers."""
    ignored = {"resourceVersion", "managedFields"}
    return {k: v for k, v in old.items() if k != "metadata"} == {k: v for k, v in new.items() if k != "metadata"} and {
        k: v for k, v in old["metadata"].items() if k not in ignored
    } == {k: v for k, v in new["metadata"].items() if k not in ignored}
