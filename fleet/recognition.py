"""Who holds a token, as the cluster says, remembered for a minute.

Owns the memory and its bounds; the rules are `domain.callers`'. Must not know HTTP, and keeps digests of tokens only.
"""

import base64
import binascii
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from fleet.domain import callers
from fleet.domain.callers import Caller, Refusal
from fleet.ports import PortError, TokenReviews

log = structlog.get_logger(__name__)

GOOD_FOR_S: Final = 60.0
BAD_FOR_S: Final = 5.0
AWAY_FOR_S: Final = 1.0  # a cluster that cannot be asked is asked again after that
MOST: Final = 20_000
LONGEST_TOKEN: Final = 16_384

Verdict = Caller | Refusal


class _Claims(Struct):
    exp: float = 0.0


_CLAIMS = msgspec.json.Decoder(_Claims)


class Recognition:
    """For all clusters. `reviews`: a cluster's port, by its name. `account`: "namespace:name". `fixed`: a file of lines
    "sha256hex cluster node" for sites that give each node a token of its own."""

    def __init__(
        self,
        reviews: Callable[[str], TokenReviews],
        account: str,
        fixed: Path | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._reviews, self._account, self._now = reviews, account, now
        self._fixed = FixedTokens(fixed) if fixed else None
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], tuple[Verdict, float]] = OrderedDict()
        self._away: dict[str, tuple[Refusal, float]] = {}

    def known(self, cluster: str, token: str) -> Verdict | None:
        """The answer if it is at hand: quick, for event loops."""
        key = (cluster, digest(token))
        with self._lock:
            verdict, until = self._known.get(key, (None, 0.0))
            if verdict is not None and self._now() < until:
                self._known.move_to_end(key)
                return verdict
            refused, until = self._away.get(cluster, (None, 0.0))
            return refused if refused is not None and self._now() < until else None

    def ask(self, cluster: str, token: str) -> Verdict:
        """The answer, asked for if need be: up to a few seconds."""
        if (found := self.known(cluster, token)) is not None:
            return found
        if self._fixed is not None and (node := self._fixed.node(cluster, digest(token))):
            return self._remember(cluster, token, Caller(node))
        if not token or len(token) > LONGEST_TOKEN or not token.isascii() or not token.isprintable():
            return Refusal(401, "bad-token", "This is no token of a service account.")
        try:
            return self._remember(cluster, token, self._reviewed(cluster, token))
        except PortError as error:
            log.warning("tokens cannot be reviewed", cluster=cluster, reason=error.reason, words=str(error))
            words = f"The cluster cannot be asked about tokens now: {error.reason or 'no reason given'}."
            refused = Refusal(503, "unreviewed", words)
            with self._lock:
                self._away[cluster] = (refused, self._now() + max(AWAY_FOR_S, min(error.retry_after_s, BAD_FOR_S)))
            return refused

    def _reviewed(self, cluster: str, token: str) -> Verdict:
        port = self._reviews(cluster)
        review = port.review(token, callers.AUDIENCE)
        if (refused := callers.refusal(review, self._account)) is not None:
            return refused
        node, pod = callers.node_of(review), callers.pod_of(review)
        if not node and pod is not None:
            node = port.node_of_pod(*pod)
        if not node:
            return Refusal(403, "no-node", "The token is bound to no pod that runs on a node.")
        return Caller(node)

    def _remember(self, cluster: str, token: str, verdict: Verdict) -> Verdict:
        now = self._now()
        until = min(now + GOOD_FOR_S, expiry(token) or now + GOOD_FOR_S)
        until = until if isinstance(verdict, Caller) else now + BAD_FOR_S
        with self._lock:
            self._known[cluster, digest(token)] = (verdict, until)
            while len(self._known) > MOST:
                self._known.popitem(last=False)
            self._away.pop(cluster, None)
        return verdict


class FixedTokens:
    """Tokens that a site gave out by hand. The file is read again when it was written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_of: object = None
        self._nodes: dict[tuple[str, str], str] = {}

    def node(self, cluster: str, token_digest: str) -> str:
        """The node of a token, "" when it is not in the file."""
        try:
            state = self._path.stat()
            found = (state.st_mtime_ns, state.st_size, state.st_ino)
            if found != self._read_of:
                self._nodes = _parsed(self._path.read_text())
                self._read_of = found
        except (OSError, UnicodeDecodeError) as error:
            log.warning("the tokens of nodes cannot be read", file=str(self._path), reason=str(error))
            self._nodes, self._read_of = {}, None
        return self._nodes.get((cluster, token_digest), "")


def digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def expiry(token: str) -> float:
    """When a token says that it ends, 0 when it does not. Believed only of one that its cluster knows."""
    parts = token.split(".")
    if len(parts) != 3:
        return 0.0
    try:
        return _CLAIMS.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))).exp
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        return 0.0


def _parsed(text: str) -> dict[tuple[str, str], str]:
    """Raises nothing: a line that is not of the form is named in the log and left out."""
    found: dict[tuple[str, str], str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        if len(parts) == 3 and len(parts[0]) == 64:
            found[parts[1], parts[0].lower()] = parts[2]
        else:
            log.error("a line of the nodes' tokens is not 'sha256hex cluster node'", line=number)
    return found
