"""The blue/green pairs of a cluster, read afresh for whoever looks: the picture holds no selectors.

Owns which lists are read, and how pods come to their workloads. Must not judge. Pods are read of the namespaces with pairs alone.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from fleet.act.sites import Site
from fleet.domain import blue_green, owners, switching
from fleet.domain.blue_green import Pair
from fleet.domain.objects import Object, Service
from fleet.domain.specs import FullPod
from fleet.domain.switching import WayBack
from fleet.ports import PortError


class Shown(Struct, frozen=True):
    """One pair, and the way back of its last switch."""

    pair: Pair
    service: Service
    back: WayBack | None


def read(find: Callable[[], Site]) -> tuple[Shown, ...] | None:
    """Every pair of the cluster, by the key of its Service. None: the API server does not answer, or refuses a list."""
    try:
        return _read(find())
    except PortError:
        return None


def _read(site: Site) -> tuple[Shown, ...]:
    changer, labels = site.changer, site.policy.blue_green.labels
    services, controllers = changer.read_services(), changer.read_controllers()
    near = {one.service.partition("/")[0] for one in blue_green.pairs(services, controllers, {}, labels)}
    pods = _by_workload((pod for name in sorted(near) for pod in changer.read_pods(namespace=name)), controllers)
    of = {one.key: one for one in services}
    found = blue_green.pairs(services, controllers, pods, labels)
    return tuple(Shown(one, of[one.service], switching.way_back(of[one.service])) for one in found)


def _by_workload(pods: Iterable[FullPod], controllers: Iterable[Object]) -> Mapping[str, list[FullPod]]:
    known: dict[str, Any] = {
        owners.reference(type(one).__name__, one.metadata.namespace, one.metadata.name): one for one in controllers
    }
    found: dict[str, list[FullPod]] = {}
    for pod in pods:
        found.setdefault(owners.ownership(pod, known.get).workload, []).append(pod)
    return found
