"""Archives and directories that were made to mislead: a verdict that never says complete, and a name for what is wrong."""

import tracemalloc
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain.checkpoint_files import QUICK, Limits, Look, Omitted, Why
from fleet.domain.checkpoint_verdicts import judge
from fleet.domain.checkpoints import Sign, State
from tests.domain import checkpoint_makers as makers
from tests.domain.checkpoint_makers import Call, Global, Made, signs

EVIL = Call(Global("posix", "system"), ("true",))


def member(name: str, content: bytes = b"x"):
    return ((name, content),)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (makers.archive(extra=member("other/data.pkl", b"N.")), "two members data.pkl"),
        (makers.archive(extra=member("archive/data.pkl", b"N.")), "two members"),
        (makers.archive(extra=member("/etc/passwd")), "/etc/passwd"),
        (makers.archive(extra=member("archive/../../x")), "../../x"),
        (makers.archive(extra=member("archive\\..\\x")), "x"),
        (makers.archive(extra=member("C:/x")), "C:/x"),
        (makers.zipped([("archive/data.pkl", b"N." * 5000)], zipfile.ZIP_DEFLATED), "compressed"),
    ],
)
def test_tricks_in_archives_are_refused(data, words):
    found = makers.single(data)
    assert found.state is State.UNKNOWN
    assert found.notes[0].sign is Sign.REFUSED
    assert words in found.notes[0].detail


def test_encrypted_members_are_refused():
    data = bytearray(makers.archive())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert signs(makers.single(bytes(data))) == {"refused"}


def test_members_that_overlap_are_refused():
    data = bytearray(makers.archive())
    first = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", first + 4)
    data[second + 42 : second + 46] = (data.index(b"PK\x03\x04", 4) - 20).to_bytes(4, "little")
    assert makers.single(bytes(data)).state in {State.UNKNOWN, State.CORRUPT}


def test_a_directory_that_says_it_has_more_members_than_bytes():
    data = bytearray(makers.archive())
    end = data.rindex(b"PK\x05\x06")
    data[end + 10 : end + 12] = (60_001).to_bytes(2, "little")
    assert signs(makers.single(bytes(data))) == {"limit"}
    data[end + 10 : end + 12] = (50_000).to_bytes(2, "little")
    assert makers.single(bytes(data)).state is State.CORRUPT


def test_what_unpickling_would_call_is_named_and_the_rest_still_judged():
    found = makers.single(makers.archive(makers.FULL | {"hook": EVIL}))
    assert found.state is State.COMPLETE
    assert [note.detail for note in found.notes] == ["posix system"]
    assert found.notes[0].sign is Sign.FOREIGN


def test_a_name_cannot_write_on_the_terminal():
    found = makers.single(makers.archive(makers.FULL | {"hook": Call(Global("a", "\x1b[2Jb"), ())}))
    assert "\x1b" not in found.notes[0].detail


def test_a_pickle_that_is_no_dictionary_proves_nothing():
    assert makers.single(makers.archive(EVIL, {})).components.weights.value == "unknown"


def test_no_archive_of_torch():
    assert makers.single(makers.zipped([("a.txt", b"x")])).state is State.CORRUPT
    assert makers.single(b"\x7fELF" + bytes(100)).state is State.CORRUPT


@pytest.mark.parametrize("why", [Why.CHANGED, Why.GONE])
def test_a_file_that_changes_while_it_is_read_is_being_written(why):
    made = Made(broken={"model.pt": why}).put("model.pt", makers.archive())
    assert made.one().state is State.IN_PROGRESS


def test_a_file_that_may_not_be_read_is_named():
    made = Made(broken={"model.pt": Why.DENIED}).put("model.pt", makers.archive())
    found = made.one()
    assert found.state is State.UNKNOWN
    assert (found.notes[0].sign, found.notes[0].path, found.notes[0].detail) == (Sign.UNREADABLE, "model.pt", "denied")


def test_a_directory_below_that_may_not_be_listed_is_never_complete():
    made = Made(omitted=(Omitted("step-1/secret", Why.DENIED),))
    made.put("step-1/.metadata", makers.distributed(400)).put("step-1/__0_0.distcp", bytes(400))
    found = made.put("step-1/__1_0.distcp", bytes(400)).one()
    assert found.state is State.UNKNOWN
    assert "unreadable" in signs(found)


def test_metadata_that_names_a_file_outside():
    made = Made().put("step-1/.metadata", makers.metadata({"model.w": ("../../etc/passwd", 0, 5)}, ["model.w"]))
    assert "missing" in signs(made.one())
    assert made.read_bytes == len(made.contents["step-1/.metadata"])


@pytest.mark.parametrize("value", [{"a": 1}, [1], EVIL, None])
def test_metadata_that_is_another_object(value):
    assert Made().put("step-1/.metadata", makers.pickled(value)).one().state is State.CORRUPT


def test_an_index_that_names_a_file_outside():
    made = Made().put("step-5/model.safetensors.index.json", b'{"weight_map": {"w": "../secret.safetensors"}}')
    assert signs(made.one()) == {"refused"}


def test_json_of_too_many_values_is_refused_before_it_is_read():
    made = Made().put("step-5/model.safetensors.index.json", b'{"weight_map": {' + b'"a":"",' * 300_000 + b'"b":""}}')
    assert signs(made.one()) == {"limit"}


TENTH = Limits(QUICK.read_bytes // 10, 800, QUICK.part_bytes // 10, QUICK.opcodes // 10, QUICK.object_bytes // 10)
BOMBS = {
    "lists": b"]" * 700_000 + b".",
    "dictionaries": b"}" * 50_000 + b".",
    "text": (b"X\xff\x0f\x00\x00" + "é".encode() * 2047 + b"a") * 190 + b".",
    "globals": b"".join(b"c%0149d\n%0149d\n" % (n, n) for n in range(2500)) + b".",
    "marks": b"(" * 59_900 + b".",
    "memo": b"N" + b"\x94" * 59_900 + b".",
    "keys": b"}(" + b"".join(b"J" + n.to_bytes(4, "little") + b"N" for n in range(25_000)) + b"u.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_stay_within_fifty_megabytes(name):
    """As allocated by Python, the file itself apart; with a tenth of every limit, for tracing is slow."""
    made = Made().put("model.pt", makers.archive(pickle_=BOMBS[name], storages={}))
    (unit,) = made.units()
    tracemalloc.start()
    try:
        found = judge(unit, Look(made, TENTH))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000
    assert found.state in {State.UNKNOWN, State.CORRUPT}


def test_a_look_never_reads_more_than_it_may():
    made = Made()
    for shard in range(20):
        made.put(f"checkpoint_1/random_states_{shard}.pkl", makers.archive())
        made.put("checkpoint_1/optimizer.bin", makers.archive(pickle_=b"N" * 7_900_000 + b"0" * 7_899_999 + b"."))
    (unit,) = made.units()
    look = Look(made)
    judge(unit, look)
    assert look.read_bytes <= QUICK.read_bytes


WHOLE = makers.archive()


@given(st.data())
def test_an_archive_with_bytes_changed_gets_a_verdict(data):
    changed = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, 900) | st.integers(len(WHOLE) - 900, len(WHOLE) - 1))
        changed[place] = data.draw(st.integers(0, 255))
    assert makers.single(bytes(changed)).state in State


@given(
    st.binary(max_size=400),
    st.sampled_from(["m.pt", "m.ckpt", "m.safetensors", "checkpoint_5", "ckpt-1.index", "m.nemo"]),
)
def test_any_bytes_under_any_name_get_a_verdict(content, name):
    for found in Made().put(name, content).judged().values():
        assert found.state is not State.COMPLETE


NAMES = ("checkpoint-5", "step-5", "global_step5", "iter_0000005", "checkpoint_5", "5", "release", "a-step=5.ckpt", "x")
FILES = (
    *(
        ".metadata",
        "__0_0.distcp",
        "trainer_state.json",
        "model.safetensors",
        "optimizer.pt",
        "metadata.json",
        "latest",
    ),
    *(
        "mp_rank_00_model_states.pt",
        "mp_rank_00/model_optim_rng.pt",
        "_CHECKPOINT_METADATA",
        "state/_METADATA",
        "meta.pt",
    ),
    *("commit_success.txt", "random_states_0.pkl", "model.safetensors.index.json", "integrity.json", "common.pt"),
)
CONTENTS = st.sampled_from(
    [b"", b"{}", b"[]", b"null", makers.archive(), makers.distributed(400), bytes(400)]
) | st.binary(max_size=60)


@given(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(FILES), CONTENTS, min_size=1))
def test_any_directory_gets_a_verdict(name, files):
    made = Made()
    for path, content in files.items():
        made.put(f"{name}/{path}", content)
    assert all(found.state in State for found in made.judged().values())
