"""Stores and servers for the tests of the read path."""

import os
import uuid
from collections.abc import Iterator

import pytest

from fleet import wiring
from fleet.live.picture_redis import RedisPicture
from tests.backends import redis_server


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A real Redis: the session's, else one of our own."""
    if url := os.environ.get("REDIS_URL"):
        yield url
        return
    with redis_server() as url:
        yield url


class Notified(list[dict]):
    """The notices that a store has sent."""

    def send(self, notice) -> None:
        self.append(dict(notice))


@pytest.fixture
def notified() -> Notified:
    return Notified()


@pytest.fixture
def redis_pictures(redis_url, notified):
    """Makes stores that are as separate as processes, on the same keys."""
    namespace = f"test:{uuid.uuid4().hex}"
    return lambda: RedisPicture(redis_url, notified.send, namespace)


@pytest.fixture
def go_on() -> Iterator[None]:
    """The process's `stopping`, clear before and after."""
    wiring.stopping.clear()
    yield
    wiring.stopping.clear()
