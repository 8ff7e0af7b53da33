"""The fleet as it is when the rehearsal begins: nodes, workloads and their pods, grown over months and running.

Owns how the past is made: objects are created at their own times, the real controllers' `sync` is run on them until nothing
changes, and running pods are put on their nodes directly, since nobody wants to wait for months of start-up.
"""

import gc
import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fleet.simulation import hardware, local_disks, manifests, podstatus, training_manifests
from fleet.simulation.behaviour import behaviour
from fleet.simulation.bound_volumes import bind
from fleet.simulation.budgets import Budgets
from fleet.simulation.catalogue import (
    BLOCK_NODES,
    CORDONED,
    DAEMONS,
    NAMESPACES,
    POOLS,
    WORKLOADS,
    WORN,
    Kind,
    Workload,
)
from fleet.simulation.clock import micro_stamp, parse_stamp, stamp
from fleet.simulation.controller import Controller, Process
from fleet.simulation.daemonsets import DaemonSets, daemon_pod
from fleet.simulation.deployments import Deployments
from fleet.simulation.endpoints import EndpointSlices
from fleet.simulation.gpu_troubles import ONE, Trouble
from fleet.simulation.hardware import MODELS, Place
from fleet.simulation.heartbeats import lease_of
from fleet.simulation.informer import Informers, key_of
from fleet.simulation.jobs import Jobs, job_pod
from fleet.simulation.namespaces import NamespaceDefaults
from fleet.simulation.node_lifecycle import NodeLifecycle
from fleet.simulation.ownership import HASH_LETTERS, pod_from_template, template_hash
from fleet.simulation.recorder import Recorder
from fleet.simulation.replicasets import ReplicaSets
from fleet.simulation.scheduler import Scheduler
from fleet.simulation.statefulsets import StatefulSets, stateful_pod
from fleet.simulation.store import Store

Object = dict[str, Any]

HOUR_S = 3600.0
PEOPLE = "kubectl-client-side-apply"
FILLER = Workload(
    "web", Kind.DEPLOYMENT, "web", "Portal", "par-prod/web:1", "L4", 0, cores=1, memory_gib=1, pods_age_h=30.0
)  # fmt: skip
FILLED = 50  # pods of one filler


class PastClock:
    """The time of the object that is being made; nobody sleeps in the past."""

    def __init__(self, now: float) -> None:
        self.at = now

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        raise RuntimeError(f"the past cannot be waited for ({seconds} s)")


class NoRecorder(Recorder):
    """Events of the past have expired."""

    def _create(self, event: Object, manager: str) -> Object | None:  # noqa: ARG002
        return None


def places(count: int) -> list[Place]:
    """The machines of a fleet of `count` nodes: blocks of 24 in four groups."""
    digits = max(2, len(str(count)))
    kinds = [(pool, zone, product) for pool, zone, product, number in POOLS for _ in range(number)]
    found = []
    for index in range(count):
        pool, zone, product = kinds[index % BLOCK_NODES]
        name = f"node-{index + 1:0{digits}d}"
        found.append(Place(index + 1, name, pool, zone, MODELS[product]))
    return found


class Seed:
    """Fills an empty store; the same seed, counts and time give the same objects."""

    def __init__(self, store: Store, seed: int, workloads: tuple[Workload, ...] = WORKLOADS) -> None:
        self.store = store
        self.workloads = workloads
        self.rng = random.Random(f"{seed}/fleet")  # noqa: S311 -- not for secrets
        self.now = store.clock.now()
        self.clock = PastClock(self.now)
        self._process = Process(store, self.clock, self.rng)
        self._process.recorder = NoRecorder(store, self.clock, self.rng)
        self._controllers: dict[type[Controller], Controller] = {}
        self._models: dict[str, Object] = {}
        self._names: set[tuple[str, str]] = set()
        self._next_ip: dict[str, int] = {}
        self._cluster_ips = 0

    @property
    def informers(self) -> Informers:
        return self._process.informers

    def plant(self, nodes: int = BLOCK_NODES, pods: int | None = None) -> None:
        """`nodes` machines with the catalogue's workloads; servers without GPUs fill up to `pods` pods in all."""
        real, self.store.clock = self.store.clock, self.clock
        collecting = gc.isenabled()
        gc.disable()  # nothing here is garbage: collecting in between doubles the time of a large fleet
        try:
            machines = places(nodes)
            self._namespaces()
            for place in machines:
                self._node(place)
            self._daemons(machines)
            for block in range((nodes + BLOCK_NODES - 1) // BLOCK_NODES):
                part = machines[block * BLOCK_NODES : (block + 1) * BLOCK_NODES]
                for workload in self.workloads:
                    self._workload(_of_block(workload, block), part)
            if pods is not None:
                self._fill(machines, pods)
            self._cordon(machines)
            self._wear(machines)
            self._wait()
        finally:
            self.store.clock = real
            if collecting:
                gc.enable()

    def _at(self, age_s: float) -> None:
        self.clock.at = self.now - age_s

    def _settle(self, kind: type[Controller], key: str) -> None:
        """Run a controller's sync on one object until it writes nothing more."""
        if kind not in self._controllers:
            self._controllers[kind] = kind(self._process)
        for _ in range(20):
            before = self.store.resource_version
            self._controllers[kind].sync(key)
            if self.store.resource_version == before:
                return
        raise RuntimeError(f"{kind.__name__} does not come to rest on {key}")

    # Nodes

    def _namespaces(self) -> None:
        self._at(400 * 24 * HOUR_S)
        for name in NAMESPACES:
            self.store.create("namespaces", {"metadata": {"name": name}}, manager=PEOPLE)
        for namespace in self.informers["namespaces"].all():
            self._settle(NamespaceDefaults, key_of(namespace))

    def _node(self, place: Place) -> None:
        age_s = self.rng.uniform(60, 300) * 24 * HOUR_S
        self._at(age_s)
        up_since = self.now - min(age_s, self.rng.uniform(9, 84) * 24 * HOUR_S)
        beat = self.now - self.rng.uniform(5, 290)
        made = hardware.node(place, self.rng, up_since, beat)
        node = self.store.create("nodes", made, manager="kubelet")
        renewed = micro_stamp(self.now - self.rng.uniform(0, 9.5))
        self.store.create("leases", lease_of(node, renewed), manager="kubelet")

    def _cordon(self, machines: list[Place]) -> None:
        """One node has been left cordoned six days ago."""
        if len(machines) < CORDONED:
            return
        name = machines[CORDONED - 1].name
        self._at(6 * 24 * HOUR_S + 2.5 * HOUR_S)

        def cordon(draft: Object) -> None:
            draft["spec"]["unschedulable"] = True

        self.store.mutate("nodes", None, name, cordon, manager="kubectl-cordon")
        self._settle(NodeLifecycle, name)

    def _wear(self, machines: list[Place]) -> None:
        """One GPU has had a memory error: a row waits for the next reset to be remapped."""
        node, slot = WORN
        if len(machines) < node:
            return

        def wear(draft: Object) -> None:
            draft["metadata"]["annotations"][f"{ONE}{slot}"] = str(Trouble.REMAP_PENDING)

        self._at(2 * 24 * HOUR_S)
        self.store.mutate("nodes", None, machines[node - 1].name, wear, manager="rehearsal")

    # Workloads

    def _daemons(self, machines: list[Place]) -> None:
        for daemon in DAEMONS:
            self._at(58 * 24 * HOUR_S)
            if daemon.account:
                account = {"metadata": {"name": daemon.account, "namespace": daemon.namespace}}
                self.store.create("serviceaccounts", account, manager="helm")
            owner = self.store.create("daemonsets", manifests.daemon_set(daemon), manager="helm")
            identity = template_hash(owner["spec"]["template"])
            for place in machines:
                age_s = self.rng.uniform(8, 57) * 24 * HOUR_S
                self._pod(daemon_pod(owner, place.name, identity), place, age_s)
            self._settle(DaemonSets, key_of(owner))

    def _workload(self, workload: Workload, part: list[Place]) -> None:
        on = {n: count for n, count in workload.on.items() if n <= len(part)}
        workload = replace(workload, on=on)
        if not workload.replicas and workload.kind in {Kind.JOB, Kind.POD}:
            return
        self._at(workload.age_h * HOUR_S)
        self._cluster_ips += 1
        address = f"10.96.{self._cluster_ips // 250}.{self._cluster_ips % 250 + 1}"
        reached = manifests.service(workload, address)
        if reached is not None:
            self.store.create("services", reached, manager=PEOPLE)
        budgets = manifests.budgets(workload)
        for budget in budgets:
            self.store.create("poddisruptionbudgets", budget, manager=PEOPLE)
        scaler = manifests.autoscaler(workload)
        if scaler is not None:
            self.store.create("horizontalpodautoscalers", scaler, manager=PEOPLE)
        where = [part[n - 1] for n, count in on.items() for _ in range(count)]
        if workload.disk_gib and where:
            self._disk(workload, where[0])
        if workload.saving and (claim := training_manifests.claimed(workload.saving)):
            bind(self.store, training_manifests.share(workload.namespace, claim), PEOPLE)
        _PLANTED[workload.kind](self, workload, where)
        key = f"{workload.namespace}/{workload.name}"
        self._at(workload.pods_age_h * HOUR_S * 0.5)
        if reached is not None:
            self._settle(EndpointSlices, key)
        for budget in budgets:
            self._settle(Budgets, f"{workload.namespace}/{budget['metadata']['name']}")

    def _disk(self, workload: Workload, place: Place) -> None:
        """A volume on a disk of one machine, claimed."""
        if not self.store.list("storageclasses"):
            self.store.create("storageclasses", local_disks.storage_class(), manager="helm")
        bind(self.store, local_disks.disk(workload, place.name), PEOPLE)

    def _deployment(self, workload: Workload, where: list[Place]) -> None:
        """First with its previous image, if it has one, and no pods, so that there is a revision to go back to."""
        key = f"{workload.namespace}/{workload.name}"
        first = workload.previous_image or workload.image
        replicas = 0 if workload.previous_image else len(where)
        made = self.store.create("deployments", manifests.controller(workload, first, replicas), manager=PEOPLE)
        self._settle(Deployments, key)
        self._at(workload.pods_age_h * HOUR_S)
        if workload.previous_image:
            self._release(made, workload.image, len(where))
            self._settle(Deployments, key)
        owner = next(
            r
            for r in self.informers["replicasets"].indexed("controller", made["metadata"]["uid"])
            if r["spec"]["template"]["spec"]["containers"][0]["image"] == workload.image
        )
        for place in where:
            pod = pod_from_template(owner, owner["spec"]["template"])
            self._pod(pod, place, self._pod_age_s(workload))
        self._at(workload.pods_age_h * HOUR_S * 0.5)
        for replica_set in self.informers["replicasets"].indexed("controller", made["metadata"]["uid"]):
            self._settle(ReplicaSets, key_of(replica_set))
        self._settle(Deployments, key)

    def _release(self, deployment: Object, image: str, replicas: int) -> None:
        def release(draft: Object) -> None:
            draft["spec"]["template"]["spec"]["containers"][0]["image"] = image
            draft["spec"]["replicas"] = replicas

        self._change("deployments", deployment, release)

    def _stateful_set(self, workload: Workload, where: list[Place]) -> None:
        made = manifests.controller(workload, workload.image, workload.replicas)
        owner = self.store.create("statefulsets", made, manager=PEOPLE)
        revision = f"{workload.name}-{template_hash(owner['spec']['template'])}"
        age_s = workload.pods_age_h * HOUR_S - 40
        for ordinal, place in enumerate(where):
            pod = stateful_pod(owner, owner["spec"]["template"], revision, ordinal)
            self._pod(pod, place, age_s - 60 * ordinal)
        self._settle(StatefulSets, key_of(owner))

    def _job(self, workload: Workload, where: list[Place]) -> None:
        made = manifests.controller(workload, workload.image, workload.replicas)
        owner = self.store.create("jobs", made, manager="batch-queue")
        runs_s = (workload.run_s or HOUR_S) * 0.4
        for place in where:
            self._pod(job_pod(owner, None), place, self.rng.uniform(60, runs_s))
        self._at(workload.age_h * HOUR_S)
        self._settle(Jobs, key_of(owner))

    def _bare_pod(self, workload: Workload, where: list[Place]) -> None:
        made = manifests.controller(workload, workload.image, workload.replicas)
        for place in where:
            self._pod(made, place, self._pod_age_s(workload))

    def _fill(self, machines: list[Place], pods: int) -> None:
        """Small servers, as many as are missing to `pods`, in Deployments of FILLED."""
        missing = pods - len(self.store.list("pods"))
        for number in range((max(0, missing) + FILLED - 1) // FILLED):
            count = min(FILLED, missing - FILLED * number)
            workload = replace(FILLER, name=f"web-{number:03d}", age_h=24.0 * 30)
            where = [machines[(FILLED * number + i) % len(machines)] for i in range(count)]
            self._at(workload.age_h * HOUR_S)
            self._deployment(workload, where)

    def _wait(self) -> None:
        """What has no node yet has been told why; that is recent enough for its event to be there still."""
        scheduler = Scheduler(self._process)
        scheduler.recorder = Recorder(self.store, self.clock, self.rng)
        scheduler.start_keys()
        for pod in self.informers["pods"].all():
            if not pod["spec"].get("nodeName"):
                self._at(self.now - _created_at(pod))
                scheduler.sync(key_of(pod))

    def _change(self, plural: str, obj: Object, fn: Callable[[Object], Object | None]) -> None:
        namespace, name = obj["metadata"].get("namespace"), obj["metadata"]["name"]
        self.store.mutate(plural, namespace, name, fn, manager=PEOPLE)

    def _pod_age_s(self, workload: Workload) -> float:
        return workload.pods_age_h * HOUR_S * self.rng.uniform(0.55, 0.98)

    # Pods

    def _pod(self, wanted: Object, place: Place, age_s: float) -> None:
        """A pod that has long been running on `place`."""
        created_at = self.now - age_s
        self._at(age_s)
        pod = self._like(wanted, place.name, created_at)
        pod["metadata"]["labels"] = {
            **wanted["metadata"]["labels"],
            "topology.kubernetes.io/region": hardware.REGION,
            "topology.kubernetes.io/zone": place.zone,
        }
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
        pod["status"]["conditions"] = [{**scheduled, "lastTransitionTime": stamp(created_at)}]
        does = behaviour(pod)
        started_at = min(self.now - 1, created_at + does.pull_s)
        ready_at = min(self.now, started_at + does.warmup_s)
        pod["status"] |= {"startTime": stamp(created_at), "hostIP": place.address, "hostIPs": [{"ip": place.address}]}
        ip = place.address if pod["spec"].get("hostNetwork") else self._ip(place)
        pod["status"] = podstatus.running(pod, ip, started_at, ready=True, ready_at=ready_at)
        self.store.restore("pods", pod, own=False)

    def _like(self, wanted: Object, node: str, created_at: float) -> Object:
        """What the server would make of `wanted`: worked out once per owner, the unchanging parts are shared."""
        metadata = wanted["metadata"]
        owners = metadata.get("ownerReferences")
        owner, manager = (owners[0]["uid"], "kube-controller-manager") if owners else (metadata["name"], "kubectl-run")
        if owner not in self._models:
            self._models[owner] = self.store.create("pods", wanted, manager=manager, dry_run=True)
        model = self._models[owner]
        own = {
            "name": metadata.get("name") or self._name(metadata["generateName"], metadata["namespace"]),
            "uid": str(uuid.UUID(int=self.rng.getrandbits(128), version=4)),
            "creationTimestamp": stamp(created_at),
        }
        spec: Object = {**model["spec"], "nodeName": node}
        spec |= {k: wanted["spec"][k] for k in ("affinity", "hostname") if k in wanted["spec"]}
        return {
            **model,
            "metadata": {**model["metadata"], **own},
            "spec": spec,
            "status": dict(model["status"]),
        }

    def _name(self, prefix: str, namespace: str) -> str:
        while True:
            name = prefix + "".join(self.rng.choices(HASH_LETTERS, k=5))
            if (namespace, name) not in self._names:
                self._names.add((namespace, name))
                return name

    def _ip(self, place: Place) -> str:
        self._next_ip[place.name] = self._next_ip.get(place.name, 1) + 1
        return f"{place.pod_prefix}.{self._next_ip[place.name]}"


_PLANTED: dict[Kind, Callable[[Seed, Workload, list[Place]], None]] = {
    Kind.DEPLOYMENT: Seed._deployment,
    Kind.STATEFUL_SET: Seed._stateful_set,
    Kind.JOB: Seed._job,
    Kind.POD: Seed._bare_pod,
}


def _created_at(obj: Object) -> float:
    return parse_stamp(obj["metadata"]["creationTimestamp"])


def _of_block(workload: Workload, block: int) -> Workload:
    return workload if block == 0 else replace(workload, name=f"{workload.name}-{block + 1}")
