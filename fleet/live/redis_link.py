"""The way to Redis: how long a call may take, and what its failure is called.

Owns connections. Must not know a key.
"""

import contextlib
from collections.abc import Iterator

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet.live.published import PictureError

CALL_WITHIN_S = 2.0
CONNECT_WITHIN_S = 1.0


def connect(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        socket_timeout=CALL_WITHIN_S,
        socket_connect_timeout=CONNECT_WITHIN_S,
        retry=Retry(NoBackoff(), 0),  # a script that was cut off may have run: the writer decides what to do
    )


@contextlib.contextmanager
def reaching() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        raise PictureError(f"{type(error).__name__}: {error}") from error
