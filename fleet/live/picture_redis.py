"""The picture in Redis, for writers and readers that are processes.

Owns the keys under `vigie:picture:` and the scripts that change them; everything of one cluster shares a hash tag. Must not trust
that Redis remembers: what a flush or a restart took away, the writer puts back with its next pulse.

Keys of a cluster: `lease` (token, expires), `epoch` and `holder` (of the last lease), `version` ("epoch:n"), `pulse` (JSON),
`rows:TABLE` (hash: row key → row, msgpack) and `deltas` (stream: id epoch-n → JSON), which lets readers catch up.
"""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import structlog

from fleet.domain.changes import Delta, Version, apply, decode, encode
from fleet.domain.picture import TABLES, Row, Snapshot
from fleet.live.notices import delta_notice, pulse_notice
from fleet.live.published import Lease, PictureError, Published, Pulse
from fleet.live.redis_link import connect, reaching

log = structlog.get_logger(__name__)

R = TypeVar("R")

KEPT_DELTAS = 1_000  # two minutes of steady change; catching up on more costs as much as reading everything

_ACQUIRE = """
-- lease epoch holder | token ttl_ms holder now_s
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local epoch = tonumber(redis.call('GET', KEYS[2]) or '0')
if redis.call('GET', KEYS[3]) ~= ARGV[3] then
  epoch = math.max(epoch + 1, tonumber(ARGV[4]))
  redis.call('SET', KEYS[2], string.format('%d', epoch))
  redis.call('SET', KEYS[3], ARGV[3])
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return epoch
"""

_RENEW = """
-- lease epoch holder | token ttl_ms holder epoch
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return 0 end
if tonumber(redis.call('GET', KEYS[2]) or '0') > tonumber(ARGV[4]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], ARGV[4])
redis.call('SET', KEYS[3], ARGV[3])
return 1
"""

_RELEASE = """
-- lease | token
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""

_PUBLISH = """
-- epoch version deltas rows… | epoch n kept delta (table: count key row … count key …)…     delta '' = the picture is new
local epoch, n, delta = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[4]
local known_epoch, known_n = string.match(redis.call('GET', KEYS[2]) or '0:0', '^(%d+):(%d+)$')
known_epoch, known_n = tonumber(known_epoch), tonumber(known_n)
if tonumber(redis.call('GET', KEYS[1]) or '0') > epoch or known_epoch > epoch then return 'refused' end
if known_epoch == epoch and known_n >= n then return 'refused' end
if delta == '' then
  redis.call('DEL', unpack(KEYS, 3))
elseif known_epoch ~= epoch or known_n ~= n - 1 then
  return 'gap'
end
local i = 5
local function each(command, key, width)
  local last = i + tonumber(ARGV[i]) * width
  i = i + 1
  while i <= last do
    local stop = math.min(i + 1999, last)
    redis.call(command, key, unpack(ARGV, i, stop))
    i = stop + 1
  end
end
for table = 4, #KEYS do
  each('HSET', KEYS[table], 2)
  each('HDEL', KEYS[table], 1)
end
if delta ~= '' then
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[3], ARGV[1] .. '-' .. ARGV[2], 'delta', delta)
end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[1] .. ':' .. ARGV[2])
return 'done'
"""

_PULSE = """
-- epoch version pulse | epoch pulse
if tonumber(redis.call('GET', KEYS[1]) or '0') > tonumber(ARGV[1]) then return 'refused' end
redis.call('SET', KEYS[3], ARGV[2])
return redis.call('GET', KEYS[2]) or 'gone'
"""

_ROWS: Mapping[str, msgspec.msgpack.Decoder[Any]] = {
    name: msgspec.msgpack.Decoder(row_type) for name, row_type in TABLES.items()
}
_PULSES = msgspec.json.Decoder(Pulse)
_PACK = msgspec.msgpack.Encoder().encode


class RedisPicture:
    """`fleet.live.Picture`. `notify` is called after each write; reading keeps a copy per cluster and fetches what it misses."""

    def __init__(self, url: str, notify: Callable[[Mapping[str, Any]], None], namespace: str = "vigie:picture") -> None:
        self._redis = connect(url)
        self._notify, self._namespace = notify, namespace
        scripts = {
            "acquire": _ACQUIRE,
            "renew": _RENEW,
            "release": _RELEASE,
            "publish": _PUBLISH,
            "pulse": _PULSE,
        }
        self._scripts = {name: self._redis.register_script(text) for name, text in scripts.items()}
        self._written: dict[str, tuple[Version, Snapshot]] = {}  # what this process, as a writer, published last
        self._pulses: dict[str, Pulse] = {}
        self._copies: dict[str, Published] = {}
        self._copies_lock = threading.Lock()

    def acquire(self, cluster: str, holder: str, ttl_s: float) -> Lease | None:
        token = uuid.uuid4().hex
        epoch = self._run("acquire", cluster, _LEASE, token, _ms(ttl_s), holder, int(time.time()))
        return Lease(cluster, holder, token, epoch, ttl_s) if epoch else None

    def renew(self, lease: Lease) -> bool:
        arguments = (lease.token, _ms(lease.ttl_s), lease.holder, lease.epoch)
        return bool(self._run("renew", lease.cluster, _LEASE, *arguments))

    def release(self, lease: Lease) -> None:
        self._run("release", lease.cluster, ("lease",), lease.token)

    def publish(self, cluster: str, version: Version, delta: Delta | None, snapshot: Snapshot) -> bool:
        encoded = b"" if delta is None else encode(delta)
        done = self._write(cluster, version, encoded, _changed(delta, snapshot) if delta else _whole(snapshot))
        if done == b"gap":  # Redis has forgotten what the delta leads on from
            done = self._write(cluster, version, b"", _whole(snapshot))
        if done != b"done":
            return False
        self._written[cluster] = (version, snapshot)
        self._notify(delta_notice(cluster, version, self._pulses.get(cluster), encoded))
        return True

    def pulse(self, cluster: str, version: Version, pulse: Pulse) -> bool:
        self._pulses[cluster] = pulse
        found = self._run("pulse", cluster, ("epoch", "version", "pulse"), version.epoch, msgspec.json.encode(pulse))
        if found == b"refused":
            return False
        if found == b"gone" and cluster in self._written:
            written, snapshot = self._written[cluster]
            if written.epoch == version.epoch and self._write(cluster, written, b"", _whole(snapshot)) == b"refused":
                return False
        self._notify(pulse_notice(cluster, version, pulse))
        return True

    def read(self, cluster: str) -> Published | None:
        """The picture as this process can know it: while Redis is away, what was read last, whose pulse tells its age."""
        with self._copies_lock:
            copy = self._copies.get(cluster)
            try:
                found = self._caught_up(cluster, copy) if copy else self._read_whole(cluster)
            except PictureError as error:
                if copy is None:
                    raise
                log.warning("the picture is away; showing the last one", cluster=cluster, reason=str(error))
                return copy
            if found is not None:
                self._copies[cluster] = found
            return found

    def version(self, cluster: str) -> Version | None:
        with reaching():
            found: Any = self._redis.get(self._key(cluster, "version"))
        return _version(found)

    def last_pulse(self, cluster: str) -> Pulse | None:
        with reaching():
            found: Any = self._redis.get(self._key(cluster, "pulse"))
        return _PULSES.decode(found) if found else None

    def clusters(self) -> list[str]:
        with reaching():
            members: Any = self._redis.smembers(f"{self._namespace}:clusters")
        return sorted(name.decode() for name in members)

    def _write(self, cluster: str, version: Version, delta: bytes, rows: list[Any]) -> bytes:
        names = ("epoch", "version", "deltas", *(f"rows:{table}" for table in TABLES))
        done: bytes = self._run("publish", cluster, names, version.epoch, version.n, KEPT_DELTAS, delta, *rows)
        if done == b"done" and not delta:
            with reaching():
                self._redis.sadd(f"{self._namespace}:clusters", cluster)
        return done

    def _caught_up(self, cluster: str, copy: Published) -> Published | None:
        """The copy, brought to the current version by the deltas since then; read anew when they are not all there."""
        epoch, n = copy.version.epoch, copy.version.n
        with reaching(), self._redis.pipeline(transaction=True) as pipe:
            pipe.mget(self._key(cluster, "version"), self._key(cluster, "pulse"))
            pipe.xrange(self._key(cluster, "deltas"), min=f"{epoch}-{n + 1}")
            (version_bytes, pulse), deltas = pipe.execute()
        version = _version(version_bytes)
        if version is None or pulse is None:
            return (
                copy  # Redis was flushed: until the writer has put the picture back, the last one stands, with its age
            )
        if version.epoch != epoch or version.n < n or len(deltas) != version.n - n:
            return self._read_whole(cluster)
        snapshot = apply(copy.snapshot, *(decode(fields[b"delta"]) for _, fields in deltas))
        return Published(snapshot, version, _PULSES.decode(pulse))

    def _read_whole(self, cluster: str) -> Published | None:
        with reaching(), self._redis.pipeline(transaction=True) as pipe:
            pipe.mget(self._key(cluster, "version"), self._key(cluster, "pulse"))
            for table in TABLES:
                pipe.hgetall(self._key(cluster, f"rows:{table}"))
            (version_bytes, pulse), *tables = pipe.execute()
        version = _version(version_bytes)
        if version is None or pulse is None:
            return None
        rows = {name: _decoded(name, found) for name, found in zip(TABLES, tables, strict=True)}
        return Published(Snapshot(**rows), version, _PULSES.decode(pulse))

    def _run(self, script: str, cluster: str, names: tuple[str, ...], *arguments: Any) -> Any:
        with reaching():
            return self._scripts[script](keys=[self._key(cluster, name) for name in names], args=arguments)

    def _key(self, cluster: str, name: str) -> str:
        return f"{self._namespace}:{{{cluster}}}:{name}"


_LEASE = ("lease", "epoch", "holder")


def _changed(delta: Delta, snapshot: Snapshot) -> list[Any]:
    """The publish script's arguments for the rows that a delta touches."""
    arguments: list[Any] = []
    for table in TABLES:
        rows, found = getattr(snapshot, table), delta.tables.get(table)
        touched = [key for group in found.groups for key in group.ids] if found else []
        arguments += _table({key: rows[key] for key in touched}, found.gone if found else ())
    return arguments


def _whole(snapshot: Snapshot) -> list[Any]:
    """The publish script's arguments for every row."""
    return [argument for table in TABLES for argument in _table(getattr(snapshot, table), ())]


def _table(rows: Mapping[str, Row], gone: tuple[str, ...]) -> list[Any]:
    pairs = [part for key, row in rows.items() for part in (key, _PACK(row))]
    return [len(rows), *pairs, len(gone), *gone]


def _decoded(table: str, found: Mapping[bytes, bytes]) -> dict[str, Any]:
    decoder = _ROWS[table]
    return {key.decode(): decoder.decode(found[key]) for key in sorted(found)}


def _version(found: bytes | None) -> Version | None:
    if found is None:
        return None
    epoch, n = found.split(b":")
    return Version(int(epoch), int(n))


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
