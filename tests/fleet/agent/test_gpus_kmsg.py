"""The kernel log: records in pieces, records that were overwritten, and what is no record."""

import errno
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.adapters.gpus_kmsg import KernelRecords, boot_offset_s

OFF_BUS = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."


def record(sequence, text, at_us=5_140_900, flags="-"):
    return f"4,{sequence},{at_us},{flags};{text}\n".encode()


@pytest.fixture
def pipe(tmp_path):
    """Like the device: what was read is gone, and reading does not wait. Holds both ends open."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    yield path, lambda data: os.write(writer, data)
    os.close(writer)


def records(path, **options):
    return KernelRecords(path, lambda: 1_000_000.0, **options)


def test_records_of_the_driver_with_the_time_that_they_are_of(pipe):
    path, write = pipe
    log = records(path)
    write(record(339, OFF_BUS) + record(340, "eth0: link up") + record(341, "nvidia-nvswitch3: SXid …", 6_000_000, "c"))
    found = log.read()
    assert found.lines == [(339, 1_000_005.1409, OFF_BUS), (341, 1_000_006.0, "nvidia-nvswitch3: SXid …")]
    assert (found.lost, found.error) == (0, "")
    assert log.read().lines == []
    write(record(342, OFF_BUS))
    assert [line[0] for line in log.read().lines] == [342]


def test_properties_of_a_record_are_no_lines(pipe):
    path, write = pipe
    write(record(1, OFF_BUS) + b" SUBSYSTEM=pci\n DEVICE=+pci:0000:01:00.0 NVRM\n" + record(2, OFF_BUS))
    assert [line[0] for line in records(path).read().lines] == [1, 2]


def test_a_record_that_comes_in_two_pieces(pipe):
    path, write = pipe
    log = records(path)
    whole = record(7, OFF_BUS)
    write(whole[:20])
    assert log.read().lines == []
    write(whole[20:])
    assert log.read().lines[0][2] == OFF_BUS


def test_lines_that_nobody_read_in_time_are_counted(pipe):
    path, write = pipe
    log = records(path)
    write(record(10, "a") + record(11, OFF_BUS))
    assert log.read().lost == 0  # what was before the first record is not our loss
    write(record(42, OFF_BUS))
    found = log.read()
    assert (found.lost, len(found.lines)) == (30, 1)


def test_a_pipe_whose_writer_comes_and_goes(tmp_path):
    """As in a pod, where another container copies the log: it begins anew with each writer, and may stop within a record."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    log = records(path)
    log.read()
    with path.open("wb", buffering=0) as writer:
        writer.write(record(1, OFF_BUS) + record(2, OFF_BUS) + b"4,3")
        assert log.wait(60)
        assert [line[0] for line in log.read().lines] == [1, 2]
    assert log.read().lines == []
    with pytest.raises(OSError, match="nobody writes"):
        log.wait(0)
    with path.open("wb", buffering=0) as writer:
        writer.write(record(1, OFF_BUS) + record(2, OFF_BUS) + record(3, OFF_BUS))
        found = log.read()
    assert ([line[0] for line in found.lines], found.lost) == ([3], 0)


class Device:
    """Gives one record a read, as the device does, and errors where they are put."""

    def __init__(self, *given):
        self.given = list(given)

    def __call__(self, file, size):
        if not self.given:
            raise BlockingIOError
        if isinstance(one := self.given.pop(0), OSError):
            raise one
        return one


def test_after_overwritten_records_it_goes_on_with_the_oldest_that_is_left(tmp_path):
    (tmp_path / "kmsg").touch()
    gone = BrokenPipeError(errno.EPIPE, "overwritten")
    log = records(tmp_path / "kmsg", take=Device(record(1, OFF_BUS), gone, record(9, OFF_BUS), record(10, "x")))
    found = log.read()
    assert ([line[0] for line in found.lines], found.lost) == ([1, 9], 7)


def test_a_log_that_is_opened_again_does_not_say_everything_again(tmp_path):
    (tmp_path / "kmsg").touch()
    broken = OSError(errno.EIO, "Input/output error")
    device = Device(record(1, OFF_BUS), record(2, OFF_BUS))
    log = records(tmp_path / "kmsg", take=device)
    assert len(log.read().lines) == 2
    device.given = [broken]
    found = log.read()
    assert (found.lines, found.error) == ([], f"{tmp_path / 'kmsg'}: Input/output error")
    device.given = [record(1, OFF_BUS), record(2, OFF_BUS), record(3, OFF_BUS)]
    found = log.read()
    assert ([line[0] for line in found.lines], found.lost) == ([3], 0)


def test_without_a_log_it_says_so_and_takes_it_when_it_comes(tmp_path):
    path = tmp_path / "kmsg"
    log = records(path)
    assert log.read().error == f"{path}: No such file or directory"
    with pytest.raises(OSError, match="No such file"):
        log.wait(0)
    path.write_bytes(record(1, OFF_BUS))
    assert (log.read().error, log.wait(0)) == ("", True)


def test_waiting_ends_with_the_next_record(pipe):
    path, write = pipe
    log = records(path)
    assert not log.wait(0)
    write(record(1, OFF_BUS))
    assert log.wait(60)
    log.read()
    assert not log.wait(0)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=80) | st.just(record(5, OFF_BUS)) | st.just(b"4,99999999999999999999,1,-;NVRM\n")))
def test_no_bytes_raise(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("log") / "kmsg"
    path.write_bytes(b"".join(pieces))
    found = records(path).read()
    assert found.error == ""
    assert all(isinstance(text, str) and sequence >= 0 for sequence, _, text in found.lines)


def test_this_machines_own_log():
    """Where it may be read, every record has a place and a time; where not, it says why."""
    log = KernelRecords(Path("/dev/kmsg"))
    found = log.read()
    if found.error:
        assert found.error.startswith("/dev/kmsg: ")
        assert found.lines == []
    else:
        assert log.read().lost == 0
        assert all(0 < at <= time.time() + 60 for _, at, _ in found.lines)
    assert 0 < boot_offset_s() < time.time()
