"""`manage.py up` from the outside: what it says, what it refuses, how it restarts and stops."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from dashboard import launcher
from dashboard.launcher import QUEUES
from dashboard.supervisor import StartError
from fleet.adapters.checkpoints_files import FileStore
from fleet.domain.policies import policy
from fleet.saves import Survey
from tests import machine, product
from tests.backends import redis_server

pytestmark = pytest.mark.timeout(180)


def get(running, path, token=None):
    request = urllib.request.Request(running.url + path)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


def gone(pids):
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


def refused(state, *options):
    """The one line of a start that is refused."""
    process = product.launch(state, *options)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 2, out
    lines = [line for line in out.splitlines() if line.startswith("vigie: ")]
    assert len(lines) == 1, out
    assert "Traceback" not in out
    return lines[0]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    with product.running(tmp_path_factory.mktemp("state")) as running:
        yield running


def test_it_says_where_and_who(embedded):
    text = "\n".join(embedded.output)
    assert embedded.url in text
    assert "viewer, operator, approver" in text
    assert "kubeconfig" in text


def test_one_vigie_process_beside_the_rehearsal(embedded):
    assert set(embedded.children) == {"vigie", "rehearsal"}


def test_ready_and_24_nodes_for_a_token(embedded):
    with urllib.request.urlopen(embedded.url + "/readyz", timeout=10) as reply:
        assert reply.status == 200
    items = get(embedded, "/api/v1/nodes", embedded.token())["items"]
    assert len(items) == 24
    assert items[0]["name"] == "node-01"


def test_the_snapshot_needs_a_token(embedded):
    with pytest.raises(urllib.error.HTTPError) as refusal:
        get(embedded, "/api/v1/snapshot")
    assert refusal.value.code == 401
    answer = get(embedded, "/api/v1/snapshot", embedded.token("operator"))
    assert len(answer["nodes"]) == 24


def test_state_is_private(embedded):
    home = embedded.state / "rehearsal"
    assert home.stat().st_mode & 0o077 == 0
    assert embedded.kubeconfig.stat().st_mode & 0o777 == 0o600
    for path in home.glob("secret*"):
        assert path.stat().st_mode & 0o777 == 0o600


def test_the_rehearsal_comes_with_policies_that_grant_what_its_trainers_save_to(embedded):
    (grant,) = policy((embedded.state / "rehearsal" / "policies.toml").read_text()).store
    steps = [shelf.newest.step for shelf in Survey(FileStore(Path(grant.path))).shelves() if shelf.newest]
    assert len(steps) == 3
    assert min(steps) > 10_000


def test_a_second_start_on_the_same_home_is_refused(embedded):
    assert "already runs" in refused(embedded.state, "--port", str(product.free_port()))


def test_ctrl_c_stops_everything_and_a_second_start_is_quick(tmp_path):
    with product.running(tmp_path):
        pass
    begin = time.monotonic()
    with product.running(tmp_path) as again:
        ready_s = time.monotonic() - begin
        pids = list(again.children.values())
        assert product.stop(again.process) < 5
    assert gone(pids)
    assert not (tmp_path / "rehearsal" / "running.json").exists()
    # The promise of 6 s is measured by `make bench`; here other tests may keep both cores busy.
    assert ready_s < 40, f"second start took {ready_s:.1f} s"


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "LEAST_FREE_BYTES", 10**18)
    monkeypatch.setattr(launcher.running, "STATE", tmp_path)
    with pytest.raises(StartError, match=r"has [\d.]+ MB left; make room"):
        launcher.start_logs(launcher.parse([]))


def test_a_taken_port_is_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused(tmp_path, "--port", str(port))
    assert f"port {port}" in line
    assert "PORT=" in line


@pytest.mark.parametrize("port", ["0", "70000"])
def test_an_impossible_port_is_one_line(tmp_path, port):
    process = product.launch(tmp_path, "--port", port)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "port" in out
    assert "Traceback" not in out


def test_a_missing_redis_binary_is_one_line(tmp_path):
    env = product.environment(tmp_path) | {"PATH": "/nowhere"}
    command = [sys.executable, "manage.py", "up", "--redis", "--port", str(product.free_port())]
    done = subprocess.run(command, cwd=product.ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("vigie: redis-server is not installed")


def test_a_home_that_cannot_be_written_is_one_line(tmp_path):
    """A file where the folder should be: refused for root too, whom permissions do not stop."""
    (tmp_path / "rehearsal").write_text("in the way")
    assert "cannot write to" in refused(tmp_path)


@pytest.mark.parametrize(
    ("url", "said"), [("foo", "begins with redis://"), ("redis://:secret@127.0.0.1:1/0", "no Redis server answers")]
)
def test_a_wrong_redis_address_is_one_line(tmp_path, url, said):
    line = refused(tmp_path, "--redis-url", url, "--port", str(product.free_port()))
    assert said in line
    assert "secret" not in line


def test_a_redis_server_that_runs_already(tmp_path):
    with redis_server() as url, product.running(tmp_path, "--redis-url", url) as running:
        assert set(running.children) == {"web", *QUEUES, "beat", "rehearsal"}
        assert len(get(running, "/api/v1/nodes", running.token())["items"]) == 24


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "vigie.example.org"])
def test_the_rehearsal_never_leaves_loopback(tmp_path, host):
    assert "loopback only" in refused(tmp_path, "--host", host)


def test_a_missing_kubeconfig_is_one_line(tmp_path):
    assert "no kubeconfig at /nowhere/config" in refused(tmp_path, "--kubeconfig", "/nowhere/config")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not a kubeconfig"),
        ("\x00\x01", "is not a kubeconfig"),
        ("[]", "is not a kubeconfig"),
        ("contexts: [1]", "is not a kubeconfig"),
        ("contexts: []", "has no context"),
        ("contexts: [{name: staging}]", "no context prod; it has: staging"),
    ],
)
def test_a_useless_kubeconfig_is_one_line(tmp_path, content, said):
    config = tmp_path / "config"
    config.write_text(content)
    context = ["--context", "prod"] if "staging" in content else []
    assert said in refused(tmp_path, "--kubeconfig", str(config), *context, "--port", str(product.free_port()))


def test_a_cluster_that_does_not_answer_is_said_and_the_link_is_there_at_once(tmp_path):
    config = tmp_path / "config"
    config.write_text(
        "{contexts: [{name: prod, context: {cluster: prod, user: me}}], users: [{name: me, user: {token: x}}],"
        f" clusters: [{{name: prod, cluster: {{server: 'http://127.0.0.1:{product.free_port()}'}}}}]}}"
    )
    with product.running(tmp_path, "--kubeconfig", str(config)) as real:
        assert any("/welcome/" in line for line in real.output)
        lines = []
        while not any("refused" in line for line in lines):
            lines.append(real.process.stdout.readline())
            assert lines[-1], lines
        assert "Not there yet: prod" in "".join(lines)
        assert "Ready" not in "".join(lines)


def test_a_real_cluster_gets_another_home_and_a_link(embedded, tmp_path):
    """The rehearsal stands for the real cluster: the code cannot tell."""
    state = tmp_path / "state"
    with product.running(state, "--kubeconfig", str(embedded.kubeconfig)) as real:
        text = "\n".join(real.output)
        assert "/welcome/" in text
        assert "operator" not in text
        assert (state / "cluster").is_dir()
        assert not (state / "rehearsal").exists()
        assert set(real.children) == {"vigie"}


def test_rehearsal_accounts_are_refused_with_a_real_cluster(embedded, tmp_path):
    home = tmp_path / "cluster"
    env = product.environment(tmp_path) | {"VIGIE_HOME": str(home)}
    prepare = [sys.executable, "manage.py", "prepare", "--rehearsal-account", "approver"]
    subprocess.run(prepare, cwd=product.ROOT, env=env, check=True, capture_output=True)
    line = refused(tmp_path, "--kubeconfig", str(embedded.kubeconfig), "--port", str(product.free_port()))
    assert "approver" in line
    assert "rehearsal" in line


def test_what_a_shell_exports_does_not_choose_a_cluster(tmp_path):
    env = product.environment(tmp_path) | {
        "KUBECONFIG": "/nowhere",
        "DATABASE_URL": "postgres://nowhere.invalid/other",
        "VIGIE_ACTIONS": "prod",
    }
    from dashboard import launcher

    saved = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(env)
        made = launcher.environment(launcher.parse([]))
    finally:
        os.environ.clear()
        os.environ.update(saved)
    assert "DATABASE_URL" not in made
    assert made["VIGIE_ACTIONS"] == "rehearsal"
    assert made["VIGIE_KUBECONFIG"].endswith("rehearsal/kubeconfig")


def test_a_real_cluster_is_read_only(tmp_path):
    from dashboard import launcher

    made = launcher.environment(launcher.parse(["--kubeconfig", str(tmp_path / "config")]))
    assert made["VIGIE_ACTIONS"] == made["VIGIE_POLICIES"] == ""
    options = {"--kubeconfig": "config", "--actions": "prod,lab", "--policies": "/etc/vigie/site.toml"}
    made = launcher.environment(launcher.parse([word for option in options.items() for word in option]))
    assert (made["VIGIE_ACTIONS"], made["VIGIE_POLICIES"]) == ("prod,lab", "/etc/vigie/site.toml")


def test_a_mistake_in_the_policies_is_told_with_its_line(tmp_path):
    path = tmp_path / "site.toml"
    assert "no policies at" in refused(tmp_path, "--policies", str(path))
    path.write_text("[limits]\nnodes = 0\n")
    port = str(product.free_port())
    assert "line 2: limits.nodes: has to be more than 0" in refused(tmp_path, "--policies", str(path), "--port", port)


@pytest.fixture(scope="module")
def with_redis(tmp_path_factory):
    machine.find("redis-server")
    with product.running(tmp_path_factory.mktemp("state"), "--redis") as running:
        yield running


def test_processes_on_redis(with_redis):
    assert set(with_redis.children) == {"web", *QUEUES, "beat", "redis", "rehearsal"}
    assert len(get(with_redis, "/api/v1/nodes", with_redis.token())["items"]) == 24


def test_no_secret_on_a_command_line_or_in_the_marker(with_redis):
    lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in with_redis.children.values()]
    assert not any("redis://" in line or "requirepass" in line for line in lines)
    marker = with_redis.state / "rehearsal" / "running.json"
    assert "redis://" not in marker.read_text()
    assert marker.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["watch", "redis", "beat"])
def test_a_killed_process_comes_back(with_redis, name):
    before = with_redis.children[name]
    os.kill(before, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while with_redis.children.get(name) in {None, before}:
        time.sleep(0.1)
        assert time.monotonic() < deadline
    said = with_redis.process.stdout.readline()
    while f"{name} ended by signal 9" not in said:
        said = with_redis.process.stdout.readline()
        assert said, "the launcher ended"
    token = with_redis.token()
    while True:
        try:
            assert len(get(with_redis, "/api/v1/nodes", token)["items"]) == 24
            break
        except (urllib.error.HTTPError, OSError):
            assert time.monotonic() < deadline
            time.sleep(0.2)
