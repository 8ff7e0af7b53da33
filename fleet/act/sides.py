"""The blue/green pairs of a cluster, read afresh for whoever looks: the picture holds no selectors.

Owns which lists are read, for how long the answer is kept for others, and how pods come to their workloads. Must not judge. Pods
are read of the namespaces with pairs alone, and of one pair its namespace alone.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from fleet.act.collect import stated
from fleet.act.sites import Site
from fleet.domain import blue_green, owners, switching
from fleet.domain.blue_green import Pair
from fleet.domain.facts import Actor, Facts
from fleet.domain.objects import Object, Service
from fleet.domain.prospects import Prospect, prospects
from fleet.domain.releases import SERVICE, Release, parts
from fleet.domain.revisions import Workload
from fleet.domain.specs import FullPod
from fleet.domain.switching import Served, WayBack
from fleet.glances import Glances
from fleet.ports import PortError

KEPT_S = 5.0
ONE_KEPT_S = 1.0  # whoever looks at one pair may wait for its switch
NAMES_KEPT_S = 30.0  # which workload is a side of which Service
AT_ONCE = 4
NOBODY = Actor("", "", "web")  # what is asked here depends on no role


class Shown(Struct, frozen=True):
    """One pair, and the way back of its last switch."""

    pair: Pair
    service: Service
    back: WayBack | None


class Listed(Struct, frozen=True):
    """Every pair of a cluster, by the key of its Service. `pairs` None: the API server does not answer, or refuses a list."""

    at: float
    pairs: tuple[Shown, ...] | None


class Opened(Struct, frozen=True):
    """One Service as it was read. `known.service` None: there is none; `known.pair` None: it has not two sides. `workloads`: its
    sides, by key; `served`: what its EndpointSlices send requests to."""

    at: float
    known: Release
    workloads: Mapping[str, Workload] = {}
    served: Served = Served(frozenset())
    prospects: tuple[Prospect, ...] = ()

    def endpoints(self, workload: str) -> frozenset[str]:
        """UIDs of the Ready endpoints that are pods of it."""
        return self.served.ready & {pod.metadata.uid for pod in self.known.pods.get(workload, ())}

    @property
    def others(self) -> int:
        """How many Ready endpoints are pods of no side."""
        sides = self.known.pair.sides if self.known.pair else ()
        return len(self.served.ready) + self.served.foreign - sum(len(self.endpoints(side.key)) for side in sides)


class Sides:
    """Of every cluster of this process. `find`: the site of a cluster by its name; raises LookupError."""

    def __init__(self, find: Callable[[str], Site], now: Callable[[], float] = time.time) -> None:
        self._find, self._now = find, now
        self._listed: Glances[Listed] = Glances(KEPT_S, now)
        self._opened: Glances[Opened | None] = Glances(ONE_KEPT_S, now)
        self._names: Glances[Mapping[str, str]] = Glances(NAMES_KEPT_S, now)

    def listed(self, cluster: str) -> Listed:
        """At most `KEPT_S` old."""
        return self._listed.look(cluster, lambda: self._list(cluster))

    def _list(self, cluster: str) -> Listed:
        try:
            found = _pairs(self._find(cluster))
        except PortError:
            found = None
        return Listed(self._now(), found)

    def opened(self, cluster: str, namespace: str, name: str) -> Opened | None:
        """At most `ONE_KEPT_S` old. None: the API server does not answer, or refuses a list."""
        return self._opened.look(f"{cluster} {namespace}/{name}", lambda: self._open(cluster, namespace, name))

    def _open(self, cluster: str, namespace: str, name: str) -> Opened | None:
        try:
            return _opened(self._find(cluster), f"{SERVICE}/{namespace}/{name}", self._now())
        except PortError:
            return None

    def service_of(self, cluster: str, workload: str) -> str:
        """The name of the Service that the workload is a side of, "" for none; at most `NAMES_KEPT_S` old. Raises PortError."""
        namespace = parts(workload)[1]
        found = self._names.look(f"{cluster} {namespace}", lambda: _names(self._find(cluster), namespace))
        return found.get(workload, "")


def _pairs(site: Site) -> tuple[Shown, ...]:
    changer, labels = site.changer, site.policy.blue_green.labels
    services, controllers = changer.read_services(), changer.read_controllers()
    near = {one.service.partition("/")[0] for one in blue_green.pairs(services, controllers, {}, labels)}
    pods = _by_workload((pod for name in sorted(near) for pod in changer.read_pods(namespace=name)), controllers)
    of = {one.key: one for one in services}
    found = blue_green.pairs(services, controllers, pods, labels)
    return tuple(Shown(one, of[one.service], switching.way_back(of[one.service])) for one in found)


def _names(site: Site, namespace: str) -> Mapping[str, str]:
    """The name of its Service by the key of each side."""
    services = site.changer.read_services(namespace=namespace)
    controllers = site.changer.read_controllers(namespace=namespace) if services else ()
    found = blue_green.pairs(services, controllers, {}, site.policy.blue_green.labels)
    return {side.key: pair.service.partition("/")[2] for pair in found for side in pair.sides}


def _opened(site: Site, target: str, now: float) -> Opened:
    changer, (_, namespace, name) = site.changer, parts(target)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="sides") as pool:
        asked = pool.submit(changer.read_controllers, namespace=namespace)
        found = pool.submit(changer.read_pods, namespace=namespace)
        slices = pool.submit(changer.read_slices, namespace, name)
        service = changer.read_service(namespace, name)
        if service is None:
            return Opened(now, Release("switch", target, {}, now))
        known = _known(site, Release("switch", target, {}, now, service=service), found.result(), asked.result())
        if known.pair is None:
            return Opened(now, known)
        read = [pool.submit(changer.read_workload, *parts(side.key)) for side in known.pair.sides]
        workloads = {one.key: one for one in (future.result() for future in read) if one is not None}
        served = switching.served(slices.result())
    return Opened(now, known, workloads, served, prospects(_facts(site, known, now), known, workloads))


def _known(site: Site, known: Release, found: Iterable[FullPod], controllers: Iterable[Object]) -> Release:
    """With the pods by workload and the pair."""
    by_key = dict(_by_workload(found, controllers))
    strays = tuple(by_key.pop("", ()))
    pods = {key: tuple(mine) for key, mine in by_key.items()}
    service, labels = known.service, site.policy.blue_green.labels
    pair = blue_green.pair(service, controllers, pods, labels) if service else None
    return replace(known, pair=pair, pods=pods, strays=strays)


def _facts(site: Site, known: Release, now: float) -> Facts:
    return stated(site, known.kind, known.target, NOBODY, now, release=known)


def _by_workload(pods: Iterable[FullPod], controllers: Iterable[Object]) -> Mapping[str, list[FullPod]]:
    """Those of nobody are under ""."""
    known: dict[str, Any] = {
        owners.reference(type(one).__name__, one.metadata.namespace, one.metadata.name): one for one in controllers
    }
    found: dict[str, list[FullPod]] = {}
    for pod in pods:
        found.setdefault(owners.ownership(pod, known.get).workload, []).append(pod)
    return found
