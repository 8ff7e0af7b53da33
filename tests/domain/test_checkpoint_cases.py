"""The worked cases T1, T3 and T4 of checkpoints, to the letter."""

import json

import pytest

from fleet.domain import checkpoint_checksums, checkpoint_shelves, safetensors_files
from fleet.domain.checkpoint_files import DEEP, Finding, Look
from fleet.domain.checkpoints import NOTHING, Checkpoint, Components, Format, Moment, Note, Presence, Sign, State, state
from tests.domain import checkpoint_makers as makers
from tests.domain.checkpoint_makers import NOON, Made, clock, signs

END = 41_811


def shelf(made: Made, now: float = NOON):
    found = made.judged().values()
    hints = checkpoint_shelves.trackers("", made.listing(), Look(made))
    return checkpoint_shelves.shelf("", found, hints, now)


def step_1000(made: Made) -> Made:
    made.put("step-1000/.metadata", makers.distributed(END), "11:00:00")
    made.put("step-1000/__0_0.distcp", bytes(END), "10:59:40")
    return made.put("step-1000/__1_0.distcp", bytes(END), "10:59:40")


def half(made: Made) -> Made:
    made.put("step-1100/__0_0.distcp", bytes(END), "11:52:00")
    made.put("step-1100/__1_0.distcp", bytes(20_000), "11:52:10")
    return made.put("step-1100/.metadata.tmp", b"\x80", "11:52:11")


class TestHalfWritten:
    """T1"""

    def test_the_older_complete_one_is_the_newest(self):
        found = shelf(half(step_1000(Made())))
        assert (found.newest.step, found.newest.state, found.age.age_s) == (1000, State.COMPLETE, 3600)
        (saving,) = found.of(State.IN_PROGRESS)
        assert saving.step == 1100
        assert NOON - saving.last_byte_at == 7 * 60 + 49

    def test_after_ten_minutes_it_is_abandoned(self):
        made = half(step_1000(Made()))
        assert [c.step for c in shelf(made, NOON + 131).of(State.IN_PROGRESS)] == [1100]
        assert [c.step for c in shelf(made, NOON + 132).of(State.ABANDONED)] == [1100]
        assert shelf(made, NOON + 132).newest.step == 1000

    def test_a_slow_saver_is_given_three_of_its_saves(self):
        found = half(Made()).one()
        assert found.at(NOON + 900, usual_save_s=600).state is State.IN_PROGRESS
        assert found.at(NOON + 900, usual_save_s=10).state is State.ABANDONED

    def test_metadata_that_the_file_contradicts(self):
        """(b)"""
        made = half(step_1000(Made()))
        del made.contents["step-1100/.metadata.tmp"]
        made.put("step-1100/.metadata", makers.distributed(END), "11:52:11")
        found = shelf(made)
        assert [c.step for c in found.of(State.CORRUPT)] == [1100]
        assert found.newest.step == 1000

    def test_shards_of_the_next_save_below_the_old_metadata(self):
        """(c)"""
        made = Made().put("step-1000/.metadata", makers.distributed(END), "11:00:00")
        made.put("step-1000/__0_0.distcp", bytes(END), "11:52").put("step-1000/__1_0.distcp", bytes(END), "11:52")
        found = shelf(made)
        assert [c.state for c in found.checkpoints] == [State.INCONSISTENT]
        assert found.newest is None

    def test_a_directory_whose_name_only_contains_a_step(self):
        """(d)"""
        made = half(step_1000(Made()))
        for name in (".metadata", "__0_0.distcp", "__1_0.distcp"):
            made.put(f"old-step-1200/{name}", made.contents[f"step-1000/{name}"], "11:00")
        found = shelf(made)
        assert found.newest.step == 1000
        aside = next(c for c in found.checkpoints if c.path == "old-step-1200")
        assert (aside.step, aside.aside, aside.state) == (None, True, State.COMPLETE)


def complete(path: str, step: int, at: str, moment: Moment = Moment.MARKER) -> Checkpoint:
    whole = Components(*[Presence.PRESENT] * 5)
    return Checkpoint(path, Format.TORCH, State.COMPLETE, step, clock(at), moment, whole)


class TestClocks:
    """T3"""

    FOUND = (complete("a", 900, "12:07"), complete("b", 800, "11:55"), complete("c", 300, "11:59"))

    def test_the_highest_step_wins_with_age_zero_and_its_skew(self):
        found = checkpoint_shelves.shelf("", self.FOUND, (), NOON)
        assert found.newest.path == "a"
        assert (found.age.age_s, found.age.skew_s) == (0.0, 420.0)

    def test_a_time_in_the_future_does_not_beat_a_higher_step(self):
        found = checkpoint_shelves.shelf("", [complete("b", 800, "12:59"), complete("a", 900, "11:00")], (), NOON)
        assert found.newest.path == "a"

    def test_a_copy_keeps_the_moment_that_is_inside(self):
        made = Made().put("850/_CHECKPOINT_METADATA", orbax_root(clock("10:30:00")), "11:58")
        made.put("850/commit_success.txt", b"", "11:58")
        made.put("850/state/_METADATA", b'{"tree_metadata": {}}', "11:58")
        found = made.one()
        assert (found.step, found.moment) == (850, Moment.EMBEDDED)
        assert checkpoint_shelves.age(found, NOON).age_s == 90 * 60

    def test_a_tracker_that_says_another_is_shown(self):
        found = checkpoint_shelves.shelf("", self.FOUND, [checkpoint_shelves.Tracker("latest", "300", 300)], NOON)
        (conflict,) = found.conflicts
        assert (conflict.tracker.step, conflict.newest_step, conflict.found) == (300, 900, State.COMPLETE)

    def test_a_tracker_that_agrees_is_not(self):
        hints = [checkpoint_shelves.Tracker("latest", "900", 900), checkpoint_shelves.Tracker("latest.txt", "")]
        assert checkpoint_shelves.shelf("", self.FOUND, hints, NOON).conflicts == ()


def orbax_root(at: float) -> bytes:
    return json.dumps({"item_handlers": {"state": "x"}, "commit_timestamp_nsecs": int(at * 1e9)}).encode()


class TestTorchZips:
    """T4"""

    DATA = makers.archive()

    def deep(self, data: bytes, name: str = "model.pt"):
        made = Made().put(name, data)
        (unit,) = made.units()
        found = made.one()
        notes = [note for note in checkpoint_checksums.check(unit, Look(made, DEEP)) if isinstance(note, Note)]
        return state([*found.notes, *notes], found.components), notes

    @pytest.mark.parametrize("share", [0.001, 0.3, 0.9, 0.999])
    def test_cut(self, share):
        """(a)"""
        found = makers.single(self.DATA[: int(len(self.DATA) * share)])
        assert found.state is State.IN_PROGRESS
        assert found.at(NOON).state is State.ABANDONED

    def test_whole(self):
        found = makers.single(self.DATA)
        assert (found.state, found.step, found.notes) == (State.COMPLETE, 1234, ())
        assert found.components == Components(*[Presence.PRESENT] * 5)
        assert self.deep(self.DATA) == (State.COMPLETE, [])

    def test_zeroed_inside(self):
        """(b)"""
        at = self.DATA.index(makers.STORAGES["0"]) + 200
        damaged = self.DATA[:at] + bytes(100) + self.DATA[at + 100 :]
        assert makers.single(damaged).state is State.COMPLETE
        judged, (note,) = self.deep(damaged)
        assert judged is State.CORRUPT
        assert (note.sign, note.detail) == (Sign.CHECKSUM, "data/0")

    def test_no_checksums(self):
        """(c)"""
        judged, (note, *_) = self.deep(makers.without_crc(self.DATA))
        assert judged is State.COMPLETE
        assert note == Note(Sign.UNCHECKED, "model.pt", "CRC not recorded")

    @pytest.mark.parametrize("count", [100, 60_000])
    def test_trailing_bytes(self, count):
        """(d)"""
        found = makers.single(self.DATA + bytes(count))
        assert found.state is State.COMPLETE
        assert found.notes == (Note(Sign.TRAILING, "model.pt", f"{count} bytes"),)

    def test_a_storage_that_is_too_short(self):
        """(e)"""
        found = makers.single(makers.archive(storages=makers.STORAGES | {"1": bytes(3996)}))
        assert found.state is State.CORRUPT
        assert found.notes == (Note(Sign.CONTRADICTS, "model.pt", "data/1 has 3996 bytes, the pickle says 4000"),)

    def test_legacy(self):
        """(f)"""
        found = makers.single(bytes.fromhex("80028a0a6cfc9c46f9206aa85019") + b".")
        assert (found.state, signs(found) >= {"unprovable"}) == (State.UNKNOWN, True)

    HEADER = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'

    def test_safetensors(self):
        """(g)"""
        whole = len(self.HEADER).to_bytes(8, "little") + self.HEADER + bytes(8)
        found = {
            n: makers.single(content, "model.safetensors").state
            for n, content in {0: whole, -1: whole[:-1], 1: whole + b"x"}.items()
        }
        assert found == {0: State.PARTIAL_STATE, -1: State.IN_PROGRESS, 1: State.CORRUPT}
        empty = makers.single(b"\x02" + bytes(7) + b"{}", "model.safetensors")
        assert empty.notes == ()
        assert empty.components.weights is Presence.EMPTY

    @pytest.mark.parametrize(
        ("header", "size", "expected"),
        [
            ('{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', 8, Sign.CONTRADICTS),  # a gap
            (
                '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
                8,
                Sign.CONTRADICTS,
            ),
            ('{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}', 8, Sign.CONTRADICTS),
            ('{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}', 8, Sign.CONTRADICTS),
            ('{"a":{"dtype":"F32"}}', 8, Sign.CONTRADICTS),
            ('{"__metadata__":{"a":1}}', 0, Sign.CONTRADICTS),
            ("[" * 50_000, 0, Sign.CONTRADICTS),
            ("{", 0, Sign.CONTRADICTS),
        ],
    )
    def test_safetensors_that_are_none(self, header, size, expected):
        made = Made().put("x.safetensors", len(header).to_bytes(8, "little") + header.encode() + bytes(size))
        with pytest.raises(Finding) as caught:
            safetensors_files.header(made.listing().files[0], Look(made))
        assert caught.value.sign is expected

    def test_a_header_larger_than_the_format_allows(self):
        assert makers.single((100_000_001).to_bytes(8, "little") + b"{}", "x.safetensors").state is State.CORRUPT

    def test_a_header_that_is_cut(self):
        assert makers.single((5000).to_bytes(8, "little") + b"{}", "x.safetensors").state is State.IN_PROGRESS


def test_only_weights_are_not_enough():
    assert state((), Components(Presence.PRESENT, Presence.ABSENT)) is State.PARTIAL_STATE
    assert state((), NOTHING) is State.PARTIAL_STATE


def test_an_empty_optimizer_is_enough():
    """Plain SGD keeps nothing."""
    assert state((), Components(Presence.PRESENT, Presence.EMPTY)) is State.COMPLETE
