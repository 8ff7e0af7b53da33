"""What a container wrote before it ended: `pods/log` of its last run.

Owns that request alone. Must not follow a log, nor keep one.
"""

from urllib.parse import quote

from fleet.adapters.cluster_kubernetes import ApiServer

WITHIN_S = 2.0
MOST_BYTES = 65_536  # lines may be long; the caller takes the end of them


class KubernetesLogs:
    """`fleet.ports.Logs`."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def last_words(self, namespace: str, pod: str, container: str, lines: int) -> bytes:
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/log"
        query = {"container": container, "previous": "true", "tailLines": str(lines), "limitBytes": str(MOST_BYTES)}
        return self._server.read(path, query, within_s=WITHIN_S, most_bytes=MOST_BYTES)
