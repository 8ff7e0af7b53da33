"""The supervisor with real processes: restart with back-off, names, and nothing left behind."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from dashboard.supervisor import Child, StartError, Supervisor

FOREVER = "import time; print('ready', flush=True); time.sleep(60)"


def python(name: str, code: str) -> Child:
    return Child(name, [sys.executable, "-c", code], dict(os.environ))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def supervisor(tmp_path):
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with Supervisor(tmp_path) as made:
            yield made
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def look_until(supervisor, said, wanted):
    deadline = time.monotonic() + 10
    while not any(wanted in line for line in said):
        supervisor.check(said.append)
        supervisor.pause(0.02)
        assert time.monotonic() < deadline, said


def test_a_dead_child_is_named_and_started_again(supervisor):
    said = []
    child = python("worker", "print('out of memory'); raise SystemExit(3)")
    child.pause_s = 0.05
    supervisor.run(child)
    look_until(supervisor, said, "worker ended with status 3")
    assert "    out of memory" in said
    look_until(supervisor, said, "worker starts again.")
    assert child.pause_s == 0.1, "the pause doubles"


def test_a_killed_child_is_named_with_its_signal(supervisor):
    said = []
    child = python("beat", FOREVER)
    supervisor.run(child)
    supervisor.wait_line("beat", "ready", 10)
    os.kill(child.process.pid, signal.SIGKILL)
    look_until(supervisor, said, "beat ended by signal 9")


def test_nothing_is_left_of_a_family(supervisor):
    """A child that started its own child: both end, though the grandchild ignores SIGTERM."""
    grandchild = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    code = (
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {grandchild!r}])\n"
        "print('pid', p.pid, flush=True); p.wait()"
    )
    supervisor.run(python("family", code))
    supervisor.wait_line("family", "ready", 10)
    pid = next(int(line.split()[1]) for line in supervisor.last_lines("family", 5) if line.startswith("pid"))
    parent = supervisor.children["family"].process.pid
    supervisor.end()
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(parent)
    assert not alive(pid)


def test_complete_returns_the_last_line(supervisor):
    assert supervisor.complete(python("prepare", "print('noise'); print('{}')")) == "{}"
    assert "prepare" not in supervisor.children


def test_complete_passes_the_last_words_of_a_failure_on(supervisor):
    with pytest.raises(StartError, match="disk is full"):
        supervisor.complete(python("prepare", "import sys; print('disk is full'); sys.exit(1)"))


def test_a_child_may_say_much_after_it_was_ready(supervisor):
    """Also when nobody looks until then."""
    talk = "print('ready'); [print('still here', i, 'x' * 100) for i in range(1000)]; print('quiet', flush=True)"
    supervisor.run(python("talker", f"{talk}; import time; time.sleep(60)"))
    supervisor.wait_line("talker", "quiet", 10)
    supervisor.wait_line("talker", "ready", 10)


def test_wait_line_tells_a_death_from_a_delay(supervisor):
    supervisor.run(python("gone", "print('port is taken')"))
    with pytest.raises(StartError, match="gone did not start: port is taken"):
        supervisor.wait_line("gone", "ready", 10)
    supervisor.run(python("slow", FOREVER))
    with pytest.raises(StartError, match="not ready within"):
        supervisor.wait_line("slow", "never", 0.3)


def test_a_missing_binary_is_one_sentence(supervisor):
    with pytest.raises(StartError, match="cannot run /nowhere/redis-server: No such file"):
        supervisor.run(Child("redis", ["/nowhere/redis-server"], dict(os.environ)))


def test_a_signal_ends_the_watch(supervisor):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    begin = time.monotonic()
    supervisor.watch(print)
    assert supervisor.stopping
    assert time.monotonic() - begin < 5


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux only")
def test_children_do_not_outlive_a_killed_parent(tmp_path):
    """The launcher itself is killed with SIGKILL: the kernel ends its children."""
    code = (
        "import sys, os, pathlib\nfrom dashboard.supervisor import Child, Supervisor\n"
        f"with Supervisor(pathlib.Path({str(tmp_path)!r})) as s:\n"
        f"    c = Child('child', [sys.executable, '-c', {FOREVER!r}], dict(os.environ)); s.run(c)\n"
        "    s.wait_line('child', 'ready', 10); print(c.process.pid, flush=True); s.watch(print)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)
