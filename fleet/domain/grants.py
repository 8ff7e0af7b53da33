"""What policy lets Vigie read of checkpoints: which claims and buckets of which namespace, and how each is reached.

Owns the tables `[[store]]` and `[checkpoints]` of the policy file and the match of an address with them. Must not open
anything: a place that no grant covers is never tried.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from fleet.domain.save_sites import plain

_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_BUCKET: Final = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?")
_WORKLOAD: Final = re.compile(r"[A-Za-z]+/[^/\s]+/[^/\s]+")


class Grant(Struct, frozen=True, forbid_unknown_fields=True):
    """One store of one namespace: the claim or the bucket, "s3://bucket/prefix", that its pods save to. `path`: where it is
    mounted for Vigie; a bucket without one is asked over S3, at `endpoint`, with the entry `credential` of VIGIE_CREDENTIALS;
    "" for both: what the AWS tools would use."""

    namespace: str
    claim: str = ""
    bucket: str = ""
    path: str = ""
    endpoint: str = ""
    credential: str = ""

    @property
    def root(self) -> str:
        """The address that it covers, and everything below."""
        return f"pvc://{self.namespace}/{self.claim}" if self.claim else self.bucket.rstrip("/")

    @property
    def where(self) -> tuple[str, str]:
        """Bucket and prefix."""
        found = _BUCKET.fullmatch(self.bucket)
        return (found[1], (found[2] or "").strip("/")) if found else ("", "")


class CheckpointRules(Struct, frozen=True, forbid_unknown_fields=True):
    """`reported`: workloads, "Kind/namespace/name", whose own reports count as checkpoints. `exec`: namespaces where a signal
    may be sent into a container to ask for one."""

    reported: tuple[str, ...] = ()
    exec: tuple[str, ...] = ()


class Granted(Struct, frozen=True):
    grant: Grant
    path: str  # within the store


def granted(grants: Iterable[Grant], namespace: str, uri: str) -> Granted | None:
    """The grant that covers an address for workloads of a namespace, the narrowest if several do; None: it must not be read."""
    scheme, _, rest = uri.partition("://")
    if not rest or not plain(rest):
        return None
    address = f"{scheme}://{rest.strip('/')}"
    fitting = [each for each in grants if each.namespace == namespace and _covers(each.root, address)]
    best = max(fitting, key=lambda each: len(each.root), default=None)
    return None if best is None else Granted(best, address[len(best.root) :].strip("/"))


def _covers(root: str, address: str) -> bool:
    return address == root or address.startswith(f"{root}/")


Path = tuple[str | int, ...]


def mistakes(grants: tuple[Grant, ...], rules: CheckpointRules) -> Iterator[tuple[Path, str]]:
    """What makes no sense, each with its place in the policy file."""
    seen: set[tuple[str, str]] = set()
    for n, grant in enumerate(grants):
        for field, message in _of_grant(grant):
            yield ("store", n, field), message
        if (key := (grant.namespace, grant.root)) in seen:
            yield ("store", n, "claim" if grant.claim else "bucket"), "is granted twice in this namespace"
        seen.add(key)
    for name in rules.reported:
        if not _WORKLOAD.fullmatch(name):
            yield ("checkpoints", "reported"), f"{name!r} is no workload: Kind/namespace/name"
    for name in rules.exec:
        if not _NAME.fullmatch(name):
            yield ("checkpoints", "exec"), f"{name!r} is no namespace"


def _of_grant(grant: Grant) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(grant.namespace):
        yield "namespace", "is no name of a namespace"
    if bool(grant.claim) == bool(grant.bucket):
        yield "claim" if grant.claim else "namespace", "needs either a claim or a bucket"
    else:
        yield from _of_claim(grant) if grant.claim else _of_bucket(grant)
    if grant.path and (not grant.path.startswith("/") or not plain(grant.path)):
        yield "path", "has to begin with / and to lead nowhere else"


def _of_claim(grant: Grant) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(grant.claim):
        yield "claim", "is no name of a claim"
    if not grant.path:
        yield "claim", "needs a path: where it is mounted for Vigie"
    yield from _s3_alone(grant)


def _of_bucket(grant: Grant) -> Iterator[tuple[str, str]]:
    if not _BUCKET.fullmatch(grant.bucket) or not plain(grant.bucket.partition("://")[2]):
        yield "bucket", "has to be s3://bucket or s3://bucket/prefix"
    if grant.endpoint and not re.fullmatch(r"https?://[^\s/]+/?", grant.endpoint):
        yield "endpoint", "has to be http:// or https:// with a host, and no path"
    if grant.path:
        yield from _s3_alone(grant)


def _s3_alone(grant: Grant) -> Iterator[tuple[str, str]]:
    for field in ("endpoint", "credential"):
        if getattr(grant, field):
            yield field, "is only for a bucket that is asked over S3"
