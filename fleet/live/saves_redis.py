"""The store of scans in Redis, for a scanner, a writer and screens that are processes.

Owns the keys under `vigie:saves:`; everything of one cluster shares a hash tag. Must not trust that Redis remembers.

Keys of a cluster: `name` and `scan` (of the last one), `found` (hash: workload → all that is known), `checks` (hash).
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import structlog

from fleet.domain.freshness import Freshness
from fleet.live.redis_link import connect, reaching
from fleet.live.saves import CHECKS_KEPT_S, DeepCheck, Scan

log = structlog.get_logger(__name__)

T = TypeVar("T")

_PACK = msgspec.msgpack.Encoder().encode


class RedisSaves:
    """`fleet.live.SaveStore`. What another version of us has written is not there."""

    def __init__(self, url: str, namespace: str = "vigie:saves") -> None:
        self._redis = connect(url)
        self._namespace = namespace

    def publish(self, cluster: str, scan: Scan, found: Mapping[str, Freshness]) -> None:
        with reaching(), self._redis.pipeline(transaction=True) as pipe:
            pipe.delete(self._key(cluster, "found"))
            for workload, freshness in found.items():
                pipe.hset(self._key(cluster, "found"), workload, _PACK(freshness))
            pipe.set(self._key(cluster, "scan"), _PACK(scan))
            pipe.set(self._key(cluster, "name"), scan.name)
            pipe.execute()

    def scan(self, cluster: str) -> Scan | None:
        with reaching():
            packed: Any = self._redis.get(self._key(cluster, "scan"))
        return _unpacked(packed, Scan)

    def newer(self, cluster: str, name: str) -> Scan | None:
        with reaching():
            last: Any = self._redis.get(self._key(cluster, "name"))
        return None if last is None or last.decode() == name else self.scan(cluster)

    def found(self, cluster: str, workload: str) -> Freshness | None:
        with reaching():
            packed: Any = self._redis.hget(self._key(cluster, "found"), workload)
        return _unpacked(packed, Freshness)

    def all_found(self, cluster: str) -> dict[str, Freshness]:
        with reaching():
            packed: Any = self._redis.hgetall(self._key(cluster, "found"))
        found = {workload.decode(): _unpacked(each, Freshness) for workload, each in packed.items()}
        return {workload: each for workload, each in sorted(found.items()) if each is not None}

    def tell(self, cluster: str, check: DeepCheck) -> None:
        key = self._key(cluster, "checks")
        with reaching(), self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(key, check.key, _PACK(check))
            pipe.expire(key, CHECKS_KEPT_S)
            pipe.execute()

    def checks(self, cluster: str) -> dict[str, DeepCheck]:
        with reaching():
            packed: Any = self._redis.hgetall(self._key(cluster, "checks"))
        found = {key.decode(): _unpacked(each, DeepCheck) for key, each in packed.items()}
        return {key: each for key, each in found.items() if each is not None}

    def _key(self, cluster: str, name: str) -> str:
        return f"{self._namespace}:{{{cluster}}}:{name}"


def _unpacked(packed: bytes | None, kind: type[T]) -> T | None:
    if packed is None:
        return None
    try:
        return msgspec.msgpack.decode(packed, type=kind)
    except msgspec.DecodeError as error:
        log.warning("what the store holds is of another version", kind=kind.__name__, reason=str(error))
        return None
