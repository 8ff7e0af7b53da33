"""What a cluster's objects say about restarts, read over its HTTP API in pages.

Owns which kinds are listed and how one that may not be listed is told. Only lists: it never writes, and reads no Secret and no
ConfigMap. Must not judge an object.
"""

from typing import Final

import msgspec
from msgspec import Raw

from fleet.adapters.cluster_requests import Requests, tolerant
from fleet.adapters.cluster_streams import decoded
from fleet.domain.manifests import KINDS, Manifest
from fleet.domain.objects import Object
from fleet.domain.readiness_loads import SeenPod
from fleet.ports import Declared, PortError

# Where the kinds are that a rule reads. ReplicaSets are left out: nearly all are the past of a Deployment.
PATHS: Final = {
    "Deployment": "/apis/apps/v1/deployments",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Job": "/apis/batch/v1/jobs",
    "CronJob": "/apis/batch/v1/cronjobs",
    "Service": "/api/v1/services",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/horizontalpodautoscalers",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
}
PODS: Final = "/api/v1/pods"
UNREAD: Final = frozenset({403, 404})  # not allowed, or a kind that this API server does not have
_TYPES: Final[dict[str, type[Object]]] = {name: type_ for (_, name), type_ in KINDS.items()}


class KubernetesManifests(Requests):
    """`fleet.ports.Manifests` over one API server's connection."""

    def read_manifests(self) -> Declared:
        found: list[Manifest] = []
        pods: list[SeenPod] = []
        unread: list[str] = []
        for name, path in PATHS.items():
            try:
                found += (Manifest(one) for one in self._list(path, _TYPES[name]))
            except PortError as error:
                if error.status not in UNREAD:
                    raise
                unread.append(name)
        try:
            for raw in map(bytes, self._list(PODS, Raw)):
                pods.append(decoded(_SEEN, raw))
                if pods[-1].controller is None:  # of the others their owners' templates tell
                    found.append(Manifest(decoded(_POD, raw)))
        except PortError as error:
            if error.status not in UNREAD:
                raise
            unread.append("Pod")
        return Declared(tuple(found), tuple(pods), tuple(unread))


_SEEN = tolerant(msgspec.json.Decoder(SeenPod).decode)
_POD = tolerant(msgspec.json.Decoder(_TYPES["Pod"]).decode)
