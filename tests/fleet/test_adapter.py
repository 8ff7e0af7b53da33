"""The Kubernetes adapter against servers of raw sockets that do what real API servers were seen to do."""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import trustme
import yaml

from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.adapters.cluster_streams import Patience, Pauses
from fleet.domain.kube import Bookmark, Changed, Deleted, Event, Kind, Listed, Lost
from fleet.ports import PortError
from tests.fleet.scripted import (
    END,
    STREAM,
    TOKEN,
    Request,
    Script,
    Scripted,
    Wire,
    chunk,
    failure,
    item,
    line,
    page,
    reply,
    silence,
    stream,
)

QUICK = Patience(first_pause_s=0.01, longest_pause_s=0.05, answer_s=3.0, short_s=0.0)

Serve = Callable[..., tuple[Scripted, KubernetesCluster]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with contextlib.ExitStack() as stack:

        def start(answer: Callable[[Request], Wire], *, tls: bool = False, patience: Patience = QUICK):
            server = Scripted(answer, tls=tls)
            stack.callback(server.close)
            if isinstance(answer, Script):
                answer.server = server
            return server, KubernetesCluster("scripted", server.kubeconfig(tmp_path), patience)

        yield start


def collect(
    cluster: KubernetesCluster,
    enough: int | Callable[[Event], bool],
    since: str | None = None,
    kind: Kind = Kind.POD,
) -> list[Event]:
    """That many events, or all until one is enough; at most 10 s."""
    stopping, found = threading.Event(), list[Event]()
    done = threading.Event()

    def follow() -> None:
        for event in cluster.follow(kind, since, stopping):
            found.append(event)
            if len(found) == enough if isinstance(enough, int) else enough(event):
                break
        done.set()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    arrived = done.wait(10)
    stopping.set()
    cluster.close()
    thread.join(3)
    assert arrived, f"only {short(found)}"
    return found


def short(events: list[Event]) -> list[str]:
    """Events as words that compare well."""
    return [_short(event) for event in events]


def _short(event: Event) -> str:
    match event:
        case Listed(objects=objects, resource_version=version):
            return f"listed {','.join(o.metadata.name for o in objects)} @{version}"
        case Changed(object=found, resource_version=version):
            return f"changed {found.metadata.name} @{version}"
        case Deleted(name=name, resource_version=version):
            return f"deleted {name} @{version}"
        case Bookmark(resource_version=version):
            return f"bookmark @{version}"
        case Lost(reason=reason):
            return f"lost: {reason}"


def changed(name: str, version: int) -> bytes:
    return line("MODIFIED", item(name, version))


# Listing


def test_pages_are_joined_and_the_watch_goes_on_from_their_version(serve):
    lists = [
        reply(page([item("a", 3)], 9, "t1")),
        reply(page([item("b", 4)], 9, "t2")),
        reply(page([item("c", 5)], 9)),
    ]
    server, cluster = serve(Script(lists, [stream(line("DELETED", item("a", 12)), changed("b", 13))]))
    events = collect(cluster, 4)
    assert short(events) == ["listed a,b,c @9", "bookmark @9", "deleted a @12", "changed b @13"]
    assert [r.query for r in server.asked(watch=False)] == [
        {"limit": "500"},
        {"limit": "500", "continue": "t1"},
        {"limit": "500", "continue": "t2"},
    ]
    query = server.asked(watch=True)[0].query
    assert query["resourceVersion"] == "9"
    assert query["allowWatchBookmarks"] == "true"
    assert 240 <= int(query["timeoutSeconds"]) <= 300


def test_a_continue_token_that_is_too_old_means_a_fresh_list(serve):
    expired = reply(failure(410, "Expired", "The provided continue parameter is too old"), 410)
    lists = [reply(page([item("a", 3)], 9, "t1")), expired, reply(page([item("b", 20)], 21))]
    _, cluster = serve(Script(lists))
    assert short(collect(cluster, 3)) == ["lost: Expired", "listed b @21", "bookmark @21"]


def test_pages_of_different_versions_are_not_one_list(serve):
    lists = [
        reply(page([item("a", 3)], 9, "t1")),
        reply(page([item("b", 4)], 10)),
        reply(page([item("c", 11)], 12)),
    ]
    _, cluster = serve(Script(lists))
    assert short(collect(cluster, 2)) == ["lost: Expired", "listed c @12"]


def test_a_page_that_fails_is_asked_for_again_not_the_whole_list(serve):
    busy = reply(failure(429, "TooManyRequests"), 429)
    lists = [reply(page([item("a", 3)], 9, "t1")), busy, reply(page([item("b", 4)], 9))]
    server, cluster = serve(Script(lists))
    assert short(collect(cluster, 2)) == ["lost: TooManyRequests", "listed a,b @9"]
    assert [r.query.get("continue") for r in server.asked(watch=False)] == [None, "t1", "t1"]


def test_a_list_that_expires_again_and_again_is_not_asked_for_without_end(serve):
    expired = reply(failure(410, "Expired"), 410)
    lists = [reply(page([item("a", 3)], 9, "t1")), expired] * 3 + [reply(page([], 30))]
    _, cluster = serve(Script(lists))
    assert short(collect(cluster, 4)) == [*["lost: Expired"] * 3, "listed  @30"]


# Watching


def test_a_line_in_pieces_is_one_event(serve):
    whole = changed("a", 12) + changed("b", 13)
    cuts = [0, 1, 40, len(changed("a", 12)) - 1, len(changed("a", 12)), len(changed("a", 12)) + 7, len(whole)]
    pieces = [chunk(whole[i:j]) for i, j in pairwise(cuts)]
    _, cluster = serve(Script(watches=[[STREAM, *pieces, END]]))
    assert short(collect(cluster, 4))[2:] == ["changed a @12", "changed b @13"]


def test_a_watch_that_ends_in_order_goes_on_at_once_from_the_last_version(serve):
    watches = [stream(changed("a", 12), line("BOOKMARK", item("", 15))), stream(changed("a", 16))]
    server, cluster = serve(Script(watches=watches))
    assert short(collect(cluster, 6)) == [
        *("listed  @1", "bookmark @1", "changed a @12", "bookmark @15"),
        *("bookmark @15", "changed a @16"),
    ]
    assert [r.query["resourceVersion"] for r in server.asked(watch=True)][:2] == ["1", "15"]
    assert len(server.asked(watch=False)) == 1


def test_a_watch_that_ends_at_once_is_not_repeated_without_a_pause(serve):
    _, cluster = serve(Script(watches=[stream(), stream()]), patience=Patience(first_pause_s=0.01))
    assert short(collect(cluster, 5))[1:] == ["bookmark @1", "lost: short watch"] * 2


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        (b"", "cut off"),  # the connection ends between two chunks
        (b"400\r\n" + changed("b", 13)[:50], "cut off"),  # in the middle of one
        (
            chunk(changed("b", 13)[:50]) + END,
            "cut off",
        ),  # in the middle of a line, although the stream ends in order
        (b"zz\r\n", "cut off"),
        (chunk(b"<html>a proxy's page</html>\n"), "unreadable"),
        (chunk(line("ERROR", failure(500, "InternalError"))), "InternalError"),
        (chunk(line("ERROR", failure(504, "Timeout"))), "Timeout"),
    ],
)
def test_a_broken_stream_resumes_from_the_last_whole_event(serve, cut, reason):
    server, cluster = serve(Script(watches=[stream(changed("a", 12), end=cut), stream(changed("b", 13))]))
    events = short(collect(cluster, 6))
    assert events[2:] == ["changed a @12", f"lost: {reason}", "bookmark @12", "changed b @13"]
    assert [r.query["resourceVersion"] for r in server.asked(watch=True)][:2] == ["1", "12"]


@pytest.mark.parametrize(
    "expired",
    [
        stream(line("ERROR", failure(410, "Expired", "too old resource version: 384 (1003)"))),
        stream(line("ERROR", failure(410, "Expired", "The resourceVersion for the provided watch is too old."))),
        reply(failure(410, "Gone"), 410),
    ],
    ids=["from the watch cache", "from etcd", "as a response"],
)
def test_a_version_that_is_too_old_means_a_fresh_list(serve, expired):
    lists = [reply(page([item("a", 3)], 9)), reply(page([item("b", 20)], 21))]
    _, cluster = serve(Script(lists, [stream(changed("a", 12)), expired, stream(changed("b", 22))]))
    events = [e for e in short(collect(cluster, 8)) if not e.startswith("bookmark")]
    assert events[:5] == ["listed a @9", "changed a @12", "lost: Expired", "listed b @21", "changed b @22"]


# Refusals


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (reply(failure(401, "Unauthorized"), 401), "Unauthorized"),
        (reply(failure(403, "Forbidden", "pods is forbidden"), 403), "Forbidden"),
        (reply(failure(429, "TooManyRequests"), 429), "TooManyRequests"),
        (reply(failure(500), 500), "HTTP 500"),
        (reply(b"<html>bad gateway</html>", 502), "HTTP 502"),
        (reply(failure(504, "Timeout"), 504), "Timeout"),
        (reply(b"<html>sign in</html>"), "unreadable"),
        (reply(b"", 302, {"Location": "http://127.0.0.1:1/"}), "HTTP 302"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"], "cut off"),
        ([b"nonsense\r\n\r\n"], "cut off"),
    ],
)
def test_what_a_server_refuses_is_trouble_and_is_tried_again(serve, answer, reason):
    """Also a 403: an API server that starts up answers so before it knows its rules."""
    refused = reply(failure(403, "Forbidden"), 403)
    _, cluster = serve(Script([answer, answer, reply(page([], 9))], [refused, stream(changed("a", 12))]))
    events = short(collect(cluster, 6))
    assert events[:3] == [f"lost: {reason}", f"lost: {reason}", "listed  @9"]
    assert events[3:] == ["lost: Forbidden", "bookmark @9", "changed a @12"]


def test_an_idle_connection_that_the_server_closed_is_replaced(serve):
    _, cluster = serve(Script([[b""], reply(page([], 9))]))
    assert short(collect(cluster, 1)) == ["listed  @9"]


@pytest.mark.parametrize("where", ["header", "body"])
def test_retry_after_is_honoured(serve, where):
    headers = {"Retry-After": "1"} if where == "header" else {}
    details = {"retryAfterSeconds": 1} if where == "body" else {}
    busy = reply(failure(429, "TooManyRequests", **details), 429, headers)
    _, cluster = serve(Script([busy, reply(page([], 9))]))
    began = time.monotonic()
    lost, _listed = collect(cluster, 2)
    assert isinstance(lost, Lost)
    assert lost.retry_in_s == 1.0
    assert 1.0 <= time.monotonic() - began < 3.0


def test_nobody_listens(tmp_path):
    server = Scripted(lambda _: [])
    cluster = KubernetesCluster("scripted", server.kubeconfig(tmp_path), QUICK)
    server.close()
    assert short(collect(cluster, 2)) == ["lost: refused", "lost: refused"]
    with pytest.raises(PortError) as caught:
        cluster.version()
    assert (caught.value.retryable, caught.value.reason) == (True, "refused")


def test_pauses_grow_to_their_bound_and_start_again():
    pauses = Pauses(Patience())
    found = [pauses.next(0) for _ in range(12)]
    for n, pause_s in enumerate(found):
        bound_s = min(0.2 * 2**n, 5.0)
        assert bound_s / 2 <= pause_s <= bound_s
    assert pauses.next(45.0) == 45.0
    assert pauses.next(86_400.0) == 120.0
    pauses.reset()
    assert pauses.next(0) <= 0.2


# Another server


def test_a_server_with_another_identity_means_a_fresh_list(serve):
    """The rehearsal started anew, or an address that now leads to another cluster."""
    script = Script([reply(page([item("a", 3)], 9)), reply(page([item("b", 4)], 9))], uids=["one", "two"])
    script.watches = [stream(changed("a", 12)), stream(changed("b", 12))]
    _, cluster = serve(script)
    assert short(collect(cluster, 5))[2:] == ["changed a @12", "lost: Expired", "listed b @9"]


def test_a_server_restored_from_a_backup_means_a_fresh_list(serve):
    """To it our version lies in the future: it would accept the watch and stay silent until the end."""
    script = Script([reply(page([item("a", 3)], 900)), reply(page([item("b", 4)], 500))], [stream(changed("a", 901))])
    script.now = [reply(page([], 500))]
    _, cluster = serve(script)
    assert short(collect(cluster, 5))[2:] == ["changed a @901", "lost: Expired", "listed b @500"]


def test_a_version_that_goes_back_inside_a_stream_means_a_fresh_list(serve):
    script = Script([reply(page([], 900)), reply(page([], 950))], [stream(changed("a", 901), changed("b", 17))])
    _, cluster = serve(script)
    assert short(collect(cluster, 5))[2:] == ["changed a @901", "lost: Expired", "listed  @950"]


def test_without_the_right_to_read_the_identity_streams_go_on(serve):
    script = Script(watches=[stream(changed("a", 12)), stream(changed("a", 13))])

    def answer(request: Request) -> Wire:
        if request.path.endswith("/kube-system"):
            return reply(failure(403, "Forbidden"), 403)
        return script(request)

    _, cluster = serve(answer)
    assert short(collect(cluster, 5))[2:] == ["changed a @12", "bookmark @12", "changed a @13"]


def test_a_stream_resumes_where_an_earlier_one_ended(serve):
    script = Script(watches=[stream(changed("a", 12)), stream(changed("a", 13))])
    server, cluster = serve(script)
    assert short(collect(cluster, 3))[-1] == "changed a @12"
    assert short(collect(cluster, 2, since="12")) == ["bookmark @12", "changed a @13"]
    assert len(server.asked(watch=False)) == 1


# Silence and ending


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("before", [STREAM + chunk(changed("a", 12)), STREAM, b"HTTP/1.1 200 OK\r\n", b""])
def test_close_wakes_a_stream_that_is_silent(serve, tls, before):
    script = Script()
    server, cluster = serve(script, tls=tls)
    waiting = threading.Event()

    def quiet() -> Iterator[bytes]:
        yield before
        waiting.set()
        server.over.wait(30)

    script.watches = [quiet()]
    stopping, events = threading.Event(), list[Event]()
    thread = threading.Thread(target=lambda: events.extend(cluster.follow(Kind.POD, None, stopping)), daemon=True)
    thread.start()
    assert waiting.wait(5)
    time.sleep(0.1)  # so that it is surely blocked in its read
    stopping.set()
    began = time.monotonic()
    while thread.is_alive() and time.monotonic() - began < 5:
        cluster.close()
        thread.join(0.02)
    assert not thread.is_alive()
    assert time.monotonic() - began < 3.0
    assert not [e for e in events if isinstance(e, Lost)], "ending is no trouble"


def test_close_is_no_end_for_streams_that_are_not_to_stop(serve):
    server, cluster = serve(Script(watches=[], uids=["one"]))
    stopping, events = threading.Event(), list[Event]()
    thread = threading.Thread(target=lambda: events.extend(cluster.follow(Kind.POD, None, stopping)), daemon=True)
    thread.start()
    _wait(lambda: len(server.asked(watch=True)) == 1)
    time.sleep(0.05)
    cluster.close()
    _wait(lambda: len(server.asked(watch=True)) == 2)
    stopping.set()
    _wait(lambda: cluster.close() or not thread.is_alive())


def _wait(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def test_a_peer_that_is_silent_for_too_long_is_given_up(serve):
    patience = Patience(first_pause_s=0.01, watch_s=(0.2, 0.3), slack_s=0.1, short_s=0.0)
    _, cluster = serve(Script(), patience=patience)
    began = time.monotonic()
    assert short(collect(cluster, 3)) == ["listed  @1", "bookmark @1", "lost: silent"]
    assert 0.3 <= time.monotonic() - began < 4.0


def test_a_stream_that_missed_its_bookmarks_is_opened_again_from_where_it_was(serve):
    """Its server answers, it is silent: long before the watch should have ended."""
    script = Script(watches=[stream(changed("a", 12), end=b"")])
    server, cluster = serve(script, patience=Patience(first_pause_s=0.01, silence_s=0.3))

    def quiet() -> Iterator[bytes]:
        yield from [STREAM, chunk(changed("a", 12))]
        server.over.wait(30)

    script.watches = [quiet(), stream(changed("b", 13))]
    assert short(collect(cluster, 6))[2:] == ["changed a @12", "lost: silent", "bookmark @12", "changed b @13"]
    assert [r.query["resourceVersion"] for r in server.asked(watch=True)][:2] == ["1", "12"]


def test_events_have_no_bookmarks_to_miss(serve):
    """They are not in the API server's watch cache."""
    _, cluster = serve(Script(), patience=Patience(silence_s=0.05, watch_s=(0.5, 0.6), slack_s=0.1))
    began = time.monotonic()
    assert short(collect(cluster, 3, kind=Kind.EVENT))[2] == "lost: silent"
    assert time.monotonic() - began >= 0.5


def test_silence_is_borne_for_150_s_at_most():
    assert Patience().silence_s <= 150


def test_watches_keep_their_connection_alive(serve):
    """A peer that has vanished is noticed by the kernel, within half a minute."""
    server, cluster = serve(Script())
    stopping = threading.Event()
    thread = threading.Thread(target=lambda: list(cluster.follow(Kind.POD, None, stopping)), daemon=True)
    thread.start()
    deadline = time.monotonic() + 5
    while not server.asked(watch=True) and time.monotonic() < deadline:
        time.sleep(0.01)
    options = [(s, s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) for s in set(cluster.server._sockets._open)]
    alive = [s for s, kept in options if kept]
    idle_s, interval_s, count = (
        alive[0].getsockopt(socket.IPPROTO_TCP, option)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    )
    stopping.set()
    while thread.is_alive() and time.monotonic() < deadline + 5:
        cluster.close()
        thread.join(0.02)
    assert len(alive) == len(options) > 0
    assert idle_s + interval_s * count <= 30


def test_a_server_that_never_answers_is_given_up_sooner_than_a_stream(serve):
    patience = Patience(first_pause_s=0.01, answer_s=0.2)
    server, cluster = serve(lambda _: silence(server), patience=patience)
    assert short(collect(cluster, 1)) == ["lost: silent"]


# The probe, and what nobody may see


def test_version(serve):
    _, cluster = serve(lambda _: reply({"major": "1", "gitVersion": "v1.36.2"}))
    assert cluster.version() == "v1.36.2"


def test_version_has_a_deadline(serve):
    server, cluster = serve(lambda _: silence(server), patience=Patience(version_s=0.3))
    began = time.monotonic()
    with pytest.raises(PortError) as caught:
        cluster.version()
    assert caught.value.reason == "silent"
    assert time.monotonic() - began < 4.0


def test_the_token_is_sent_and_shown_to_nobody_else(serve, caplog):
    caplog.set_level(logging.DEBUG)
    server, cluster = serve(Script([reply(failure(403, "Forbidden"), 403)]), tls=True)
    events = collect(cluster, 2)
    assert server.requests[0].headers["authorization"] == f"bearer {TOKEN}"
    with pytest.raises(PortError) as caught:
        cluster.version()
    assert TOKEN not in f"{events} {caught.value!r} {caplog.text} {cluster.__dict__}"


def test_a_broken_kubeconfig_is_trouble_that_can_be_mended(serve, tmp_path):
    server, _ = serve(Script())
    path = tmp_path / "broken"
    path.write_text("users: [{name: x, user: {token: very-secret}}]")
    cluster = KubernetesCluster("scripted", str(path), QUICK)
    with pytest.raises(PortError) as caught:
        cluster.version()
    assert caught.value.reason == "credentials"
    assert "very-secret" not in str(caught.value)
    path.write_text(Path(server.kubeconfig(tmp_path)).read_text())
    assert short(collect(cluster, 1)) == ["listed  @1"]


def test_after_a_token_has_expired_the_file_of_the_next_one_is_read(serve, tmp_path):
    """The kubeconfig itself stays as it is: a short-lived token lies in a file of its own."""
    good = ["first"]

    def answer(request: Request) -> Wire:
        if request.headers.get("authorization") != f"bearer {good[0]}":
            return reply(failure(401, "Unauthorized"), 401)
        return reply({"gitVersion": "v1.36.2"})

    server, _ = serve(answer)
    content = yaml.safe_load(Path(server.kubeconfig(tmp_path)).read_text())
    content["users"][0]["user"] = {"tokenFile": str(tmp_path / "token")}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(content))
    (tmp_path / "token").write_text("first")
    cluster = KubernetesCluster("scripted", str(tmp_path / "kubeconfig"), Patience(credentials_s=0.0))
    assert cluster.version() == "v1.36.2"
    good[0] = "second"
    with pytest.raises(PortError, match="no"):
        cluster.version()
    (tmp_path / "token").write_text("second")
    assert cluster.version() == "v1.36.2"


def test_refused_credentials_are_not_loaded_again_each_time(serve, monkeypatch):
    """A plugin may ask a person, or a server far away."""
    _, cluster = serve(lambda _: reply(failure(401, "Unauthorized"), 401))
    made = list[int]()
    configure = cluster.server._configure
    monkeypatch.setattr(cluster.server, "_configure", lambda: made.append(1) or configure())
    for _ in range(5):
        with pytest.raises(PortError):
            cluster.version()
    assert len(made) == 1


def test_a_server_whose_certificate_we_do_not_trust(serve, tmp_path):
    _, cluster = serve(Script(), tls=True)
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    assert short(collect(cluster, 1)) == ["lost: certificate"]
