"""Vigie's door for readings, seen from a node: one POST per reading.

Owns the connection, the token and what an answer means. Must not keep readings or decide when to send one, and never puts a token
into an error.
"""

import gzip
import ssl
import urllib.parse
from enum import StrEnum
from pathlib import Path
from typing import Final

import urllib3
from msgspec import Struct

DEADLINE_S: Final = 4.0  # to connect, and to answer: less than the time between two readings
PATH: Final = "/api/v1/readings"
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
MOST_PAUSE_S: Final = 300.0
PAUSE_S: Final = 5.0  # where the door wants a pause and does not say how long
MOST_ANSWER: Final = 2_000  # characters of an answer that are looked at


class Verdict(StrEnum):
    ACCEPTED = "accepted"
    WAIT = "wait"  # the door is full, or cannot check us now
    BROKEN = "broken"  # the door cannot use this reading, and would not take it again
    REFUSED = "refused"  # it is not about the reading, but about who we are
    UNREACHABLE = "unreachable"


class Answer(Struct, frozen=True):
    """What became of a reading; `words` say why, for a log."""

    verdict: Verdict
    words: str = ""
    pause_s: float = 0.0


class Door:
    """`url` is Vigie's address. Raises ValueError, in words for whoever set it, for one that readings must not be sent to."""

    def __init__(self, url: str, token_file: Path, cluster: str = "", ca_file: Path | None = None) -> None:
        self._url = _checked(url) + PATH
        self._token_file = token_file
        self._cluster = {"Vigie-Cluster": cluster} if cluster else {}
        self._pool = urllib3.PoolManager(
            retries=False,
            timeout=urllib3.Timeout(connect=DEADLINE_S, read=DEADLINE_S),
            ssl_context=_trusting(ca_file) if self._url.startswith("https:") else None,
        )

    def post(self, reading: bytes) -> Answer:
        """Send one reading, encoded as JSON. Never raises for trouble on the way."""
        try:
            token = self._token_file.read_text().strip()  # the kubelet renews it
        except (OSError, UnicodeDecodeError) as error:
            return Answer(Verdict.REFUSED, f"cannot read the token {self._token_file}: {_reason(error)}")
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            **self._cluster,
        }
        try:
            answer = self._pool.request(
                "POST", self._url, body=gzip.compress(reading, 1), headers=headers, redirect=False
            )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            return Answer(Verdict.UNREACHABLE, f"{type(error).__name__} at {self._url}")
        return verdict(answer.status, answer.data, answer.headers.get("Retry-After", ""))

    def close(self) -> None:
        self._pool.clear()


def verdict(status: int, body: bytes, retry_after: str) -> Answer:
    """What an HTTP answer of the door means."""
    words = f"{status}: {body[:MOST_ANSWER].decode(errors='replace').strip()}"
    if status in {200, 202}:
        return Answer(Verdict.ACCEPTED)
    if status == 409:  # it came before, by a proxy that sends twice or after our deadline: what it carries is there
        return Answer(Verdict.ACCEPTED, words)
    if status in {429, 502, 503, 504}:
        return Answer(Verdict.WAIT, words, _pause_s(retry_after))
    if status in {400, 413, 415, 422}:
        return Answer(Verdict.BROKEN, words)
    return Answer(Verdict.REFUSED, words)


def _pause_s(retry_after: str) -> float:
    """Seconds. The header may be a date by HTTP; the door says seconds, and a proxy's date is not worth a calendar."""
    try:
        return min(MOST_PAUSE_S, max(0, int(retry_after[:9])))
    except ValueError:
        return PAUSE_S


def _checked(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{url!r} is no address; it looks like https://vigie.example.org")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ValueError(f"{url!r} would show the token to everybody on the way; use https")
    if parts.username or parts.query or parts.fragment:
        raise ValueError("the address must not hold a name, a password or a query")
    return url.rstrip("/")


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    """The system's authorities, or only those of the file."""
    try:
        return ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"cannot read certificates from {ca_file}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "not the expected content"
