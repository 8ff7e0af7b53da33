"""The rehearsal's page in a browser without script: who may see it, what its forms do, and what it refuses."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from fleet.simulation.clock import ManualClock, RealClock
from fleet.simulation.page import COOKIE, PageServer
from fleet.simulation.page_texts import duration
from fleet.simulation.page_visits import CODE_S, MOST_SESSIONS, SESSION_S, Visits
from fleet.simulation.scenarios.scene import Scene
from fleet.simulation.scenarios.stage import Scenario, Stage, State
from fleet.simulation.server import ADMIN, READER, ApiServer
from fleet.simulation.server_faults import ServerFaults
from fleet.simulation.store import Store


async def label(scene: Scene) -> None:
    """A story that is told at once."""
    scene.tell("<b>told</b>")


async def endless(scene: Scene) -> None:
    scene.tell("it begins")
    await asyncio.Event().wait()


STORIES = (
    Scenario("label", "A label & more", "It sets <nothing>.", "Nowhere.", 90.0, label),
    Scenario("endless", "Without end", "It goes on.", "Here.", 5.0, endless),
)


@dataclass
class Visitor:
    """A browser: cookies, forms, no script."""

    client: httpx.AsyncClient
    server: PageServer
    stage: Stage

    async def signed_in(self) -> str:
        answer = await self.client.get(self.server.link())
        assert answer.status_code == 303
        return await self.shown()

    async def shown(self) -> str:
        answer = await self.client.get("/")
        assert answer.status_code == 200
        return answer.text

    async def post(self, path: str, form: str, origin: str = "", **fields: str) -> httpx.Response:
        headers = {"origin": origin or self.server.url}
        return await self.client.post(path, data={"form": form, **fields}, headers=headers)


@pytest.fixture
async def visitor() -> AsyncIterator[Visitor]:
    clock = RealClock()
    api = ApiServer(Store(clock, seed=1))
    stage = Stage(api.app, ServerFaults(api.app, clock), clock, STORIES)
    server = PageServer(stage)
    await server.start()
    async with httpx.AsyncClient(base_url=server.url, timeout=10) as client:
        yield Visitor(client, server, stage)
    await stage.close()
    await server.stop()


def form_of(page: str) -> str:
    found = re.search(r'name="form" value="([^"]+)"', page)
    assert found
    return found[1]


async def test_nobody_sees_anything_without_signing_in(visitor: Visitor) -> None:
    page = await visitor.shown()
    assert "Sign in" in page
    assert "A label" not in page
    answer = await visitor.post("/scenarios/label/start", "guess")
    assert answer.status_code == 403
    assert visitor.stage.performance("label").state is State.OFF


async def test_a_link_is_good_once(visitor: Visitor) -> None:
    link = visitor.server.link()
    first = await visitor.client.get(link)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite" in cookie
    assert (await visitor.client.get(link)).status_code == 403


async def test_an_administrators_token_signs_in_and_no_other(visitor: Visitor) -> None:
    auth = visitor.stage.app.auth
    for token, status in (("nope", 403), (auth.issue(READER), 403), (auth.issue(ADMIN), 303)):
        assert (await visitor.post("/sign-in", "", token=token)).status_code == status
    assert "A label &amp; more" in await visitor.shown()


async def test_scenarios_are_started_and_stopped_by_forms(visitor: Visitor) -> None:
    page = await visitor.signed_in()
    assert "It sets &lt;nothing&gt;." in page
    assert "1 min 30 s" in page
    form = form_of(page)
    assert (await visitor.post("/scenarios/label/start", form)).status_code == 303
    page = await visitor.shown()
    assert "&lt;b&gt;told&lt;/b&gt;" in page
    assert "Stop and undo" in page
    assert (await visitor.post("/scenarios/label/start", form)).status_code == 303
    assert "Refused: label is standing already" in await visitor.shown()
    assert "Refused" not in await visitor.shown(), "once is enough"
    await visitor.post("/scenarios/label/stop", form)
    assert visitor.stage.performance("label").state is State.OFF


async def test_the_page_looks_again_by_itself_only_while_something_unfolds(visitor: Visitor) -> None:
    form = form_of(await visitor.signed_in())
    assert "refresh" not in (await visitor.client.get("/")).headers
    await visitor.post("/scenarios/endless/start", form)
    assert (await visitor.client.get("/")).headers["refresh"] == "5; url=/"


async def test_speed_is_set_by_a_form(visitor: Visitor) -> None:
    form = form_of(await visitor.signed_in())
    assert (await visitor.post("/speed", form, speed="5")).status_code == 303
    assert visitor.stage.speed == 5.0
    assert '<option value="5" selected>' in await visitor.shown()
    for wrong in ("0", "1000", "much", "nan"):
        await visitor.post("/speed", form, speed=wrong)
        assert "Refused" in await visitor.shown()
    assert visitor.stage.speed == 5.0


async def test_forms_of_others_are_refused(visitor: Visitor) -> None:
    form = form_of(await visitor.signed_in())
    other = "http://127.0.0.1:8000"
    assert (await visitor.post("/scenarios/label/start", form, origin=other)).status_code == 403
    assert (await visitor.post("/scenarios/label/start", "wrong")).status_code == 403
    answer = await visitor.client.post("/scenarios/label/start", data={"form": form})
    assert answer.status_code == 403, "without an origin"
    assert visitor.stage.performance("label").state is State.OFF


async def test_other_hosts_paths_methods_and_sizes_are_refused(visitor: Visitor) -> None:
    form = form_of(await visitor.signed_in())
    assert (await visitor.client.get("/", headers={"host": "evil.example"})).status_code == 421
    assert (await visitor.client.get("/nope")).status_code == 404
    assert (await visitor.post("/scenarios/nope/start", form)).status_code == 404
    assert (await visitor.post("/nope", form)).status_code == 404
    assert (await visitor.client.put("/")).status_code == 405
    assert (await visitor.post("/speed", form, speed="1" * 5000)).status_code == 413


async def test_every_answer_is_strict(visitor: Visitor) -> None:
    await visitor.signed_in()
    for path in ("/", "/page.css", "/nope"):
        headers = (await visitor.client.get(path)).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    page = await visitor.shown()
    assert "<script" not in page
    assert "style=" not in page


async def test_signing_out_ends_the_session(visitor: Visitor) -> None:
    form = form_of(await visitor.signed_in())
    assert (await visitor.post("/sign-out", form)).status_code == 303
    assert "Sign in" in await visitor.shown()
    visitor.client.cookies.set(COOKIE, "made up")
    assert "Sign in" in await visitor.shown()


def test_codes_and_sessions_end() -> None:
    now = [0.0]
    visits = Visits(lambda: now[0])
    late, early = visits.code(), visits.code()
    key = visits.redeem(early)
    assert visits.visit(key) is not None
    now[0] = CODE_S + 1
    assert visits.redeem(late) == ""
    now[0] = SESSION_S + 1
    assert visits.visit(key) is None
    oldest = visits.begin()
    for _ in range(MOST_SESSIONS):
        visits.begin()
    assert visits.visit(oldest) is None


def test_durations_read_well() -> None:
    assert [duration(s) for s in (0.2, 45, 60, 150)] == ["1 s", "45 s", "1 min", "2 min 30 s"]


async def test_a_taken_port_is_said_to_be_so(visitor: Visitor) -> None:
    with pytest.raises(OSError, match="in use"):
        await PageServer(visitor.stage).start(int(visitor.server.url.rpartition(":")[2]))


def test_a_clock_that_is_moved_by_hand_has_speed_one() -> None:
    api = ApiServer(Store(ManualClock(), seed=1))
    assert Stage(api.app, ServerFaults(api.app, api.app.store.clock), api.app.store.clock, STORIES).speed == 1.0
