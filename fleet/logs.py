"""What containers wrote before they ended, for whoever asks on a page: read once for many, and forgotten after some seconds.

Owns that memory, and what a refusal means. Must not hide or cut anything: `domain.log_lines` does.
"""

import time
from collections.abc import Callable

from fleet.domain.log_lines import MOST_LINES
from fleet.glances import Glances
from fleet.ports import Logs, PortError

KEPT_S = 5.0


class LastWords:
    """Of every cluster of this process. `find`: the logs of a cluster by its name; raises LookupError."""

    def __init__(self, find: Callable[[str], Logs], now: Callable[[], float] = time.time) -> None:
        self._find = find
        self._known: Glances[bytes | int] = Glances(KEPT_S, now)

    def of(self, cluster: str, pod: str, container: str) -> bytes | int:
        """The end of a container's last run; or the status with which the API server refuses: 403 its account may not, 400 and
        404 there is none. `pod`: its key. Raises PortError when there is no answer."""
        return self._known.look(f"{cluster} {pod} {container}", lambda: self._read(cluster, pod, container))

    def _read(self, cluster: str, pod: str, container: str) -> bytes | int:
        namespace, _, name = pod.partition("/")
        try:
            return self._find(cluster).last_words(namespace, name, container, MOST_LINES)
        except PortError as error:
            if error.status not in {400, 403, 404}:
                raise
            return error.status
