"""The GPU store in Redis, for a door, a readings worker, a writer and screens that are processes.

Owns the keys under `vigie:gpus:` and the scripts that change them; everything of one cluster shares a hash tag. Must not trust
that Redis remembers.

Keys of a cluster: `readings` (stream), `last:NODE` (hash: agent → sequence), `hold` (who takes readings in, expires), `healths`
(hash), `owed` (list), `points:NODE` (list), `worker`; and of each feed (`told`, `contexts`) `FEED:epoch`, `FEED:n`, `FEED:order`
(sorted set: node by number of its last change) and `FEED:values` (hash).
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from fleet.domain.verdicts import NodeContext, NodeHealth, Transition
from fleet.live.gpus import (
    AGENT_KNOWN_S,
    MOST_AGENTS,
    MOST_OWED,
    MOST_READINGS,
    SERIES_POINTS,
    Cursor,
    Hold,
    Offered,
    Point,
    Received,
    Series,
    Settled,
    Told,
    Worker,
    series,
)
from fleet.live.redis_link import connect, reaching

log = structlog.get_logger(__name__)

T = TypeVar("T")

MOST_GONE = 5_000
POINTS_KEPT_S = 7_200

_OFFER = """
-- readings last | most agent sequence reading most_agents known_s
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[1]) then return 'full' end
local last = redis.call('HGET', KEYS[2], ARGV[2])
if last and tonumber(last) >= tonumber(ARGV[3]) then return 'replayed' end
if not last and redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[5]) then redis.call('DEL', KEYS[2]) end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[6])
redis.call('XADD', KEYS[1], '*', 'r', ARGV[4])
return 'accepted'
"""

_HOLD = """
-- hold | holder ttl_ms
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if held then return 1 end
return 2
"""

_RELEASE = """
-- hold | holder
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""

_PUT = """
-- epoch n order values | new_epoch most_gone (node value)…     value '' = gone
redis.call('SETNX', KEYS[1], ARGV[1])
for i = 3, #ARGV, 2 do
  redis.call('ZADD', KEYS[3], redis.call('INCR', KEYS[2]), ARGV[i])
  if ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[4], ARGV[i])
  else
    redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1])
  end
end
local gone = redis.call('ZCARD', KEYS[3]) - redis.call('HLEN', KEYS[4])
if gone > tonumber(ARGV[2]) then
  for _, node in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    if redis.call('HEXISTS', KEYS[4], node) == 0 then redis.call('ZREM', KEYS[3], node) end
  end
end
"""

_SINCE = """
-- epoch n order values | epoch n
local epoch, n = redis.call('GET', KEYS[1]) or '', redis.call('GET', KEYS[2]) or '0'
local found, from = {epoch, n}, '-inf'
if epoch == ARGV[1] then from = '(' .. ARGV[2] end
for _, node in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], from, '+inf')) do
  found[#found + 1] = node
  found[#found + 1] = redis.call('HGET', KEYS[4], node) or ''
end
return found
"""

_PACK = msgspec.msgpack.Encoder().encode
_HEALTHS = msgspec.msgpack.Decoder(NodeHealth)
_TRANSITIONS = msgspec.msgpack.Decoder(Transition)
_POINTS = msgspec.msgpack.Decoder(Point)
_TOLD = msgspec.msgpack.Decoder(Told)
_CONTEXTS = msgspec.msgpack.Decoder(NodeContext)
_WORKERS = msgspec.msgpack.Decoder(Worker)


class RedisGpus:
    """`fleet.live.GpuStore`."""

    def __init__(self, url: str, namespace: str = "vigie:gpus", most: int = MOST_READINGS) -> None:
        self._redis, self._namespace, self._most = connect(url), namespace, most
        self._offer, self._hold = self._redis.register_script(_OFFER), self._redis.register_script(_HOLD)
        self._release = self._redis.register_script(_RELEASE)
        self._told = Feed(self, "told", _TOLD)
        self._contexts = Feed(self, "contexts", _CONTEXTS)

    # The door

    def offer(self, cluster: str, received: Received) -> Offered:
        reading = received.reading
        agent = f"{reading.boot_id}/{reading.agent}"
        keys = [self.key(cluster, "readings"), self.key(cluster, f"last:{reading.node}")]
        arguments: list[Any] = [self._most, agent, reading.sequence, received.packed(), MOST_AGENTS, AGENT_KNOWN_S]
        with reaching():
            done: Any = self._offer(keys=keys, args=arguments)
        return Offered(done.decode())

    def waiting(self, cluster: str) -> int:
        with reaching():
            found: Any = self._redis.xlen(self.key(cluster, "readings"))
        return int(found)

    # The readings worker

    def hold(self, cluster: str, holder: str, ttl_s: float) -> Hold:
        with reaching():
            found: Any = self._hold(keys=[self.key(cluster, "hold")], args=[holder, round(ttl_s * 1000)])
        return Hold(found)

    def release(self, cluster: str, holder: str) -> None:
        with reaching():
            self._release(keys=[self.key(cluster, "hold")], args=[holder])

    def take(self, cluster: str, most: int) -> list[tuple[str, bytes]]:
        with reaching():
            found: Any = self._redis.xrange(self.key(cluster, "readings"), count=most)
        return [(name.decode(), fields[b"r"]) for name, fields in found]

    def settle(self, cluster: str, settled: Settled) -> None:
        with reaching(), self._redis.pipeline(transaction=True) as pipe:
            if settled.taken:
                pipe.xdel(self.key(cluster, "readings"), *settled.taken)
            if settled.healths:
                packed = {node: _PACK(health) for node, health in settled.healths.items()}
                pipe.hset(self.key(cluster, "healths"), mapping=packed)  # type: ignore[arg-type]  # bytes are fine
            if settled.transitions:
                pipe.rpush(self.key(cluster, "owed"), *map(_PACK, settled.transitions))
                pipe.ltrim(self.key(cluster, "owed"), -MOST_OWED, -1)
            for node, point in settled.points.items():
                name = self.key(cluster, f"points:{node}")
                pipe.rpush(name, _PACK(point))
                pipe.ltrim(name, -SERIES_POINTS, -1)
                pipe.expire(name, POINTS_KEPT_S)
            pipe.execute()

    def remembered(self, cluster: str) -> dict[str, NodeHealth]:
        with reaching():
            found: Any = self._redis.hgetall(self.key(cluster, "healths"))
        return _readable({node.decode(): packed for node, packed in found.items()}, _HEALTHS)

    def owed(self, cluster: str) -> list[Transition]:
        with reaching():
            found: Any = self._redis.lrange(self.key(cluster, "owed"), 0, -1)
        return list(_readable(dict(enumerate(found)), _TRANSITIONS).values())

    def paid(self, cluster: str, count: int) -> None:
        with reaching():
            self._redis.ltrim(self.key(cluster, "owed"), count, -1)

    def forget(self, cluster: str, nodes: Sequence[str]) -> None:
        if not nodes:
            return
        with reaching(), self._redis.pipeline(transaction=True) as pipe:
            pipe.hdel(self.key(cluster, "healths"), *nodes)
            pipe.delete(*(self.key(cluster, f"{what}:{node}") for what in ("points", "last") for node in nodes))
            pipe.execute()
        self._told.put(cluster, dict.fromkeys(nodes))

    def publish(self, cluster: str, told: Mapping[str, Told]) -> None:
        self._told.put(cluster, told)

    def say(self, cluster: str, worker: Worker) -> None:
        with reaching():
            self._redis.set(self.key(cluster, "worker"), _PACK(worker))

    def described(self, cluster: str, since: Cursor) -> tuple[Cursor, dict[str, NodeContext | None]]:
        return self._contexts.since(cluster, since)

    # The writer

    def changed(self, cluster: str, since: Cursor) -> tuple[Cursor, dict[str, Told | None]]:
        return self._told.since(cluster, since)

    def describe(self, cluster: str, contexts: Mapping[str, NodeContext | None]) -> None:
        self._contexts.put(cluster, contexts)

    # Screens

    def worker(self, cluster: str) -> Worker | None:
        with reaching():
            found: Any = self._redis.get(self.key(cluster, "worker"))
        return _readable({"": found}, _WORKERS).get("") if found else None

    def series(self, cluster: str, node: str) -> dict[str, Series]:
        with reaching():
            found: Any = self._redis.lrange(self.key(cluster, f"points:{node}"), 0, -1)
        return series(list(_readable(dict(enumerate(found)), _POINTS).values()))

    def key(self, cluster: str, name: str) -> str:
        return f"{self._namespace}:{{{cluster}}}:{name}"

    def script(self, text: str) -> Any:
        return self._redis.register_script(text)


class Feed(Generic[T]):
    """The last value of each node, and in which order they changed."""

    def __init__(self, store: RedisGpus, name: str, decoder: "msgspec.msgpack.Decoder[T]") -> None:
        self._store, self._name, self._decoder = store, name, decoder
        self._put, self._since = store.script(_PUT), store.script(_SINCE)

    def put(self, cluster: str, values: Mapping[str, T | None]) -> None:
        if not values:
            return
        pairs = [part for node, value in values.items() for part in (node, b"" if value is None else _PACK(value))]
        with reaching():
            self._put(keys=self._keys(cluster), args=[uuid.uuid4().hex, MOST_GONE, *pairs])

    def since(self, cluster: str, cursor: Cursor) -> tuple[Cursor, dict[str, T | None]]:
        with reaching():
            epoch, n, *pairs = self._since(keys=self._keys(cluster), args=list(cursor))
        packed = {node.decode(): value for node, value in zip(pairs[::2], pairs[1::2], strict=True)}
        found: dict[str, T | None] = {node: None for node, value in packed.items() if not value}
        there = {node: value for node, value in packed.items() if value}
        return (epoch.decode(), int(n)), found | _readable(there, self._decoder)

    def _keys(self, cluster: str) -> list[str]:
        return [self._store.key(cluster, f"{self._name}:{part}") for part in ("epoch", "n", "order", "values")]


K = TypeVar("K")


def _readable(packed: Mapping[K, bytes], decoder: "msgspec.msgpack.Decoder[T]") -> dict[K, T]:
    """What another version of us has written may not be: that is as if it had been forgotten."""
    found: dict[K, T] = {}
    for key, value in packed.items():
        try:
            found[key] = decoder.decode(value)
        except msgspec.MsgspecError as error:
            log.warning("something of another version is left out", what=str(key), reason=str(error))
    return found
