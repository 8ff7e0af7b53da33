"""People, clusters and a running web server for the tests of the web face."""

import asyncio
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn
from django.contrib.auth.models import User
from django.test import Client
from django.utils import translation

from dashboard import accounts, consumers
from dashboard.access import Role
from fleet import live
from tests.dashboard.handshakes import cookie_of
from tests.dashboard.pictures import Writer, nodes

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _quick_hashes(settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def _own_language() -> Iterator[None]:
    """A request leaves its language behind on the thread: no other test reads French for it."""
    yield
    translation.deactivate()


@pytest.fixture
def people(db) -> dict[str, User]:
    """One account per role, named after it, and one without a role."""
    found = {role.value: accounts.add(role.value, role, PASSWORD) for role in Role}
    found["nobody"] = User.objects.create_user("nobody", password=PASSWORD)
    return found


@pytest.fixture
def as_person(people):
    """A browser in which this person is signed in; None for nobody."""

    def signed_in(name: str | None) -> Client:
        client = Client()
        if name is not None:
            client.force_login(people[name])
        return client

    return signed_in


@pytest.fixture
def cookies(transactional_db, as_person) -> dict[str | None, str]:
    """What the browser of each person sends; made before any event loop runs."""
    return {name: cookie_of(as_person(name)) for name in (None, "nobody", *Role)}


@pytest.fixture
async def hub_ends():
    """For tests that open sockets on their own event loop."""
    yield
    await consumers.hub().stop()


@pytest.fixture
def clusters(settings, tmp_path: Path) -> tuple[str, str]:
    """Two configured clusters, one with a slash in its name. The names are new each time: a picture store may be shared."""
    names = tuple(f"{word}-{uuid.uuid4().hex[:8]}" for word in ("paris", "arn:aws:eks:eu-north-1:1:cluster/helsinki"))
    contexts = "".join(f"- name: '{name}'\n  context: {{cluster: '{name}', user: '{name}'}}\n" for name in names)
    path = tmp_path / "kubeconfig"
    path.write_text(f"apiVersion: v1\nkind: Config\ncontexts:\n{contexts}")
    settings.VIGIE_KUBECONFIG = str(path)
    settings.VIGIE_CONTEXTS = ()
    return names


@pytest.fixture
def writer(clusters) -> Writer:
    """Writes the first cluster; 24 nodes are published."""
    found = Writer(clusters[0])
    found.publish(nodes())
    return found


@dataclass
class Served:
    """A web server in a thread of this process."""

    port: int
    loop: asyncio.AbstractEventLoop

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws/"

    def run(self, coroutine):
        """The result of a coroutine that runs on the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)


class Announcing(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets=None) -> None:
        await super().startup(sockets)
        self.up.set()


@pytest.fixture
def served(transactional_db) -> Iterator[Served]:
    from dashboard.asgi import application

    config = uvicorn.Config(application, port=0, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
    server, loops = Announcing(config), []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        live.attach(loops[0])
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert server.up.wait(20)
    try:
        yield Served(server.servers[0].sockets[0].getsockname()[1], loops[0])
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
