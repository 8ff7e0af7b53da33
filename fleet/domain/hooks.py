"""How a workload is asked to save a checkpoint: the annotation by which its team declares it.

Owns `vigie.dev/checkpoint-hook`: `http:<port>/<path>` (a POST to that pod, through the pod proxy) or
`signal:<USR1|USR2|TERM|HUP>:<container>` (to process 1 of that container). Must not ask anybody, and knows no other way in: no
host, no query, no command is ever taken from an annotation.
"""

import re
from enum import StrEnum
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from fleet.domain.objects import Pod

HOOK: Final = "vigie.dev/checkpoint-hook"
SIGNALS: Final = ("USR1", "USR2", "TERM", "HUP")

_HTTP: Final = re.compile(r"http:(\d{1,5})(/[A-Za-z0-9._~!$&'()*+,;=:@%/-]{0,250})")
_SIGNAL: Final = re.compile(r"signal:([A-Z0-9]{3,4}):([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)")


class Way(StrEnum):
    HTTP = "http"
    SIGNAL = "signal"


class Hook(Struct, frozen=True):
    """Where to ask. `port` and `path` of HTTP, `signal` and `container` of a signal."""

    way: Way
    port: int = 0
    path: str = ""
    signal: str = ""
    container: str = ""

    @property
    def text(self) -> str:
        """As its team wrote it."""
        return f"http:{self.port}{self.path}" if self.way is Way.HTTP else f"signal:{self.signal}:{self.container}"


def declared(pod: Pod) -> bool:
    """Whether the pod says anything about a hook, readable or not."""
    return bool(pod.metadata.annotations.get(HOOK, "").strip())


def hook(pod: Pod) -> Hook | None:
    """The hook that the pod declares; None when it declares none, or one that means nothing to us."""
    return parsed(pod.metadata.annotations.get(HOOK, ""))


def parsed(text: str) -> Hook | None:
    said = text.strip()
    if (http := _HTTP.fullmatch(said)) and 0 < int(http[1]) < 65536 and not _leads_out(http[2]):
        return Hook(Way.HTTP, port=int(http[1]), path=http[2])
    if (signal := _SIGNAL.fullmatch(said)) and signal[1] in SIGNALS:
        return Hook(Way.SIGNAL, signal=signal[1], container=signal[2])
    return None


def _leads_out(path: str) -> bool:
    """Dots are resolved on the way: the path would end at another address of the API server."""
    return any(part in {".", ".."} for part in unquote(path).split("/"))
