"""The eviction subresource of pods: reads the request, charges the budget, marks the pod and deletes it.

Owns the order of its writes and what happens between them: each is a write of its own, as in a real API server, so a budget
is charged even when the deletion is then refused. Must not decide anything; eviction_rules.py does.
"""

import random
from typing import Any

from fleet.simulation import bodies, eviction_rules, refusals
from fleet.simulation.eviction_rules import Decision, Way
from fleet.simulation.exchange import Reply, Request, Target, reply
from fleet.simulation.refusals import ApiError, bad_request
from fleet.simulation.store import Store

Object = dict[str, Any]

TRIES = 20
RETRY_S = 0.5
JITTER = 0.1
ACCEPTED: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
VERSIONS = frozenset({"policy/v1", "policy/v1beta1"})
SERVER = "kube-apiserver"


class Evictions:
    """Evicts from one store. `write_s`: how long each write takes, in the cluster's time."""

    def __init__(self, store: Store, write_s: float = 0.0) -> None:
        self.store = store
        self.write_s = write_s
        self._rng = random.Random(1)  # noqa: S311 -- for the jitter of retries

    async def evict(self, request: Request, target: Target) -> Reply:
        """POST on pods/NAME/eviction; ApiError 400, 403, 404, 409, 422, 429, 500, 504."""
        eviction = _eviction(request, target)
        options = _delete_options(request, eviction)
        self._admit(target)
        await self._evict(target, options, request.manager)
        return reply(ACCEPTED, 201)

    def _admit(self, target: Target) -> None:
        """An eviction is new content, of which a namespace that is being deleted takes none, not even for a pod that is gone."""
        found = self.store.shelf("namespaces").records.get(target.namespace)
        if found is not None and "deletionTimestamp" in found.object["metadata"]:
            raise refusals.namespace_terminating(target.resource, target.name, target.namespace)

    async def _evict(self, target: Target, options: Object, manager: str) -> None:
        for last in (*[False] * (TRIES - 1), True):
            pod = self.store.get("pods", target.namespace, target.name)
            if not eviction_rules.ignores_budgets(pod):
                break
            try:
                await self._remove(pod, options, Way.DELETE_UNCHANGED if _pending(pod) else Way.DELETE, manager)
            except ApiError as error:
                if error.status != 409 or last or _conditions(options).get("resourceVersion"):
                    raise
                await self._wait_for_retry()
            else:
                return
        decision = eviction_rules.decide(pod, self.store.list("poddisruptionbudgets", target.namespace))
        if decision.way is Way.CHARGE and decision.budget is not None:
            await self._charge(decision.budget, pod, dry_run=bool(options.get("dryRun")))
        await self._remove_decided(pod, options, decision, manager)

    async def _remove_decided(self, pod: Object, options: Object, decision: Decision, manager: str) -> None:
        try:
            await self._remove(pod, options, decision.way, manager)
        except ApiError as error:
            own_guard = decision.way is Way.DELETE_UNCHANGED and not _conditions(options).get("resourceVersion")
            if error.status == 409 and own_guard and decision.budget is not None:
                raise eviction_rules.still_processed(decision.budget["metadata"]["name"]) from error
            raise

    async def _charge(self, budget: Object, pod: Object, *, dry_run: bool) -> None:
        """Take one disruption from the budget; whoever else writes it meanwhile makes this try again."""
        metadata = budget["metadata"]
        for _ in range(TRIES):
            charged = eviction_rules.charged(budget, pod["metadata"]["name"], self.store.clock.now())
            if dry_run:
                return
            await self.store.clock.sleep(self.write_s)
            try:
                self.store.update("poddisruptionbudgets", charged, manager=SERVER, subresource="status")
            except ApiError as error:
                if error.status != 409:
                    raise
            else:
                return
            await self._wait_for_retry()
            budget = self.store.get("poddisruptionbudgets", metadata["namespace"], metadata["name"])
        raise eviction_rules.too_many_conflicts(metadata["name"])

    async def _wait_for_retry(self) -> None:
        await self.store.clock.sleep(RETRY_S * (1 + JITTER * self._rng.random()))

    async def _remove(self, seen: Object, options: Object, way: Way, manager: str) -> None:
        """Mark the pod, then delete it; ApiError 404, 409."""
        wanted = dict(_conditions(options))
        if way is Way.DELETE_UNCHANGED and not wanted.get("resourceVersion"):
            wanted["resourceVersion"] = seen["metadata"]["resourceVersion"]
        dry_run = bool(options.get("dryRun"))
        namespace, name = seen["metadata"]["namespace"], seen["metadata"]["name"]
        await self.store.clock.sleep(0.0 if dry_run else self.write_s)
        eviction_rules.check_preconditions(self.store.get("pods", namespace, name), wanted)
        if not dry_run:
            marked = self._mark(namespace, name, manager)
            if wanted.get("resourceVersion"):  # our own change does not count
                wanted["resourceVersion"] = marked["metadata"]["resourceVersion"]
            await self.store.clock.sleep(self.write_s)
        self.store.delete(
            "pods",
            namespace,
            name,
            uid=wanted.get("uid"),
            resource_version=wanted.get("resourceVersion"),
            grace_s=options.get("gracePeriodSeconds"),
            propagation=options.get("propagationPolicy") or "Background",
            dry_run=dry_run,
        )

    def _mark(self, namespace: str, name: str, manager: str) -> Object:
        now = self.store.clock.now()

        def change(pod: Object) -> Object:
            return {**pod, "status": eviction_rules.targeted(pod, now)}

        return self.store.mutate("pods", namespace, name, change, manager=manager, subresource="status")


def _pending(pod: Object) -> bool:
    return pod["status"].get("phase") == "Pending" and "deletionTimestamp" not in pod["metadata"]


def _conditions(options: Object) -> Object:
    found: Object = options.get("preconditions") or {}
    return found


def _eviction(request: Request, target: Target) -> Object:
    """The Eviction of the body, of either version; ApiError 400, 415."""
    body = request.decoded()
    if not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized (must be of type Eviction): couldn't get version/kind")
    kind, api_version = body.get("kind") or "Eviction", body.get("apiVersion") or "policy/v1"
    if kind != "Eviction" or api_version not in VERSIONS:
        version = api_version.rpartition("/")[2]
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a Eviction: '
            f"converting ({version}.{kind}) to (policy.Eviction): unknown conversion"
        )
    metadata = body.get("metadata") or {}
    if metadata.get("namespace") not in {None, "", target.namespace}:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if metadata.get("name") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    return body


def _delete_options(request: Request, eviction: Object) -> Object:
    """deleteOptions with the query's dryRun in them; ApiError 422, 500 when the two contradict each other."""
    asked = bodies.options(request, "CreateOptions")
    found = dict(eviction.get("deleteOptions") or {})
    inside, outside = list(found.get("dryRun") or ()), ["All"] if asked.dry_run else []
    if inside and outside and inside != outside:
        words = f"[{' '.join(outside)}] and [{' '.join(inside)}]"
        message = f"Internal error occurred: Non-matching dry-run options in request and content: {words}"
        raise ApiError(500, "InternalError", message, {"causes": [{"message": message.partition(": ")[2]}]})
    found["dryRun"] = inside or outside
    return bodies.checked_delete_options(found)
