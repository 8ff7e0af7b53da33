"""Outages: Services that would send requests to nobody once pods end.

Owns which Services lose their last Ready pod. Must not know who ends the pods, nor whether somebody accepts it.
"""

from collections.abc import Iterable

from fleet.domain.blue_green import selects
from fleet.domain.capacity import finished
from fleet.domain.objects import Pod, Service
from fleet.domain.pods import is_ready

HEADLESS = "None"


def outages(services: Iterable[Service], pods: Iterable[Pod], ending: Iterable[str]) -> tuple[str, ...]:
    """Keys of the Services that send requests to a Ready pod now, and would to none without the pods `ending` (UIDs). Peers find
    each other through a headless Service: nobody's requests fail there."""
    gone, alive = frozenset(ending), [pod for pod in pods if _answers(pod)]
    return tuple(
        sorted(one.key for one in services if one.spec.cluster_ip != HEADLESS and _loses_all(one, alive, gone))
    )


def _answers(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and not finished(pod) and is_ready(pod)


def _loses_all(service: Service, alive: Iterable[Pod], gone: frozenset[str]) -> bool:
    behind = {
        pod.metadata.uid
        for pod in alive
        if pod.metadata.namespace == service.metadata.namespace and selects(service.spec.selector, pod.metadata.labels)
    }
    return bool(behind) and behind <= gone
