"""The opcode reader: it recovers what the reference says, runs nothing, and ends within its bounds whatever it is given."""

import collections
import pickle
import pickletools
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from fleet.domain import pickles
from fleet.domain.checkpoint_files import QUICK, Finding, Limits, Look
from fleet.domain.checkpoints import Sign
from fleet.domain.pickle_machine import Opaque

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text() | st.binary()
)
KEYS = st.text() | st.integers(-(2**31) + 1, 2**31 - 1)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5) | st.tuples(inner, inner),
)


def read(data: bytes, limits: Limits = QUICK):
    return pickles.read(data, Look(None, limits))


def sign(data: bytes, limits: Limits = QUICK) -> Sign:
    with pytest.raises(Finding) as caught:
        read(data, limits)
    return caught.value.sign


ANSWERS = {None, Sign.ENDS_EARLY, Sign.CONTRADICTS, Sign.LIMIT, Sign.REFUSED}


def outcome(data: bytes) -> Sign | None:
    """None: it has a value. Anything else than a finding that is raised is a failure."""
    try:
        read(data)
    except Finding as found:
        return found.sign
    return None


@given(TREES, st.integers(3, 5))
def test_plain_values_come_back_as_they_were(value, protocol):
    found = read(pickle.dumps(value, protocol))
    assert found.value == value
    assert found.globals == set()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(max_codepoint=126, min_codepoint=32)),
        lambda inner: st.lists(inner, max_size=4),
    )
)
def test_old_protocols_too(value):
    for protocol in (0, 1, 2):
        assert read(pickle.dumps(value, protocol)).end == len(pickle.dumps(value, protocol))


def test_dictionaries_of_the_library_are_dictionaries():
    found = read(pickle.dumps({"a": collections.OrderedDict(x=1), "b": collections.defaultdict(list, y=[2])}))
    assert found.value == {"a": {"x": 1}, "b": {"y": [2]}}


def test_what_would_be_called_is_named_and_not_called(tmp_path):
    target = tmp_path / "made"
    hostile = f"cposix\nsystem\n(Vtouch {target}\ntR.".encode()
    found = read(b"\x80\x02}X\x05\x00\x00\x00epochK\x03sX\x04\x00\x00\x00evil" + hostile[:-1] + b"s.")
    assert found.value["epoch"] == 3
    assert found.value["evil"].name == "posix system"
    assert found.globals == {"posix system"}
    assert not target.exists()


def test_the_first_of_a_chain_ends_where_the_next_begins():
    data = pickle.dumps(1) + pickle.dumps({"a": 2})
    first = read(data)
    assert pickles.read(data, Look(None), first.end).value == {"a": 2}


def test_a_bomb_of_shared_lists_is_read_and_not_walked():
    """Each list holds the one before ten times: 10^30 leaves."""
    bomb = (
        b"]q\x00"
        + b"".join(b"](" + b"h" + bytes([n]) + (b"h" + bytes([n])) * 9 + b"eq" + bytes([n + 1]) for n in range(30))
        + b"."
    )
    assert len(bomb) < 1000
    assert len(read(bomb).value) == 10


def test_lists_in_lists_do_not_recurse():
    value, depth = read(b"]" * 200_000 + b"a" * 199_999 + b".").value, 1
    while value:
        (value,), depth = value, depth + 1
    assert depth == 200_000


def test_objects_in_objects_do_not_recurse_when_they_go():
    deep = b"ca\nb\nq\x00" + b"(t" + b"R" + b"\x85q\x010" + b"h\x00h\x01R\x85q\x010" * 60_000 + b"h\x01."
    value, depth = read(deep).value, 0
    while value and isinstance(value[0], Opaque):
        value, depth = value[0].args, depth + 1
    assert depth == 60_001


def test_deep_tuples_as_keys_are_not_hashed():
    deep = b"}" + b")" + b"\x85" * 100_000 + b"Ns."
    (key,) = read(deep).value
    assert isinstance(key, Opaque)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"(" * 700_000, Sign.LIMIT),  # opcodes
        (b"}" * 500_000 + b".", Sign.LIMIT),  # memory
        (b"N" + b"\x94" * 500_000 + b".", Sign.LIMIT),  # memo
        (b"X" + struct.pack("<I", 2**31) + b"x", Sign.ENDS_EARLY),
        (b"\x8e" + struct.pack("<Q", 2**63) + b"x", Sign.ENDS_EARLY),
        (b"I" + b"9" * 100_000 + b"\n.", Sign.CONTRADICTS),
        (b"c" + b"a" * 1000 + b"\nb\n.", Sign.REFUSED),
        (b"", Sign.ENDS_EARLY),
        (b"\x80\x04", Sign.ENDS_EARLY),
        (b"\x80\x09N.", Sign.CONTRADICTS),
        (b"\xff", Sign.CONTRADICTS),
        (b".", Sign.CONTRADICTS),
        (b"N(t", Sign.ENDS_EARLY),
        (b"h\x07.", Sign.CONTRADICTS),
        (b"]]Ns.", Sign.CONTRADICTS),
        (b"}](Nu.", Sign.CONTRADICTS),
        (b"}]Ns.", Sign.CONTRADICTS),
        (b"NNa.", Sign.CONTRADICTS),
        (b"e.", Sign.CONTRADICTS),
        (b"NN\x93.", Sign.CONTRADICTS),
    ],
)
def test_what_is_malformed_or_too_much_is_named(data, expected):
    assert sign(data) is expected


def test_long_strings_are_passed_over():
    found = read(pickle.dumps({"text": "x" * 100_000, "after": 1}))
    assert isinstance(found.value["text"], Opaque)
    assert found.value["after"] == 1


def test_numbers_that_collide_are_no_keys():
    """2^61-1 and its multiples have one hash: a dict of them takes time that grows with its square."""
    prime = 2**61 - 1
    assert all(isinstance(key, Opaque) for key in read(pickle.dumps({prime * n: 0 for n in range(1, 50)})).value)


@given(st.binary(max_size=300))
def test_any_bytes_give_a_value_or_a_named_finding(data):
    assert outcome(data) in ANSWERS


OPCODES = [opcode.code.encode("latin-1") for opcode in pickletools.opcodes]


@given(
    st.lists(st.sampled_from([*OPCODES, b"\x00", b"\x01", b"a\n", b"1\n", b"\x04\x00\x00\x00"]), max_size=60),
    st.booleans(),
)
def test_any_opcodes_give_a_value_or_a_named_finding(pieces, stops):
    assert outcome(b"".join(pieces) + (b"." if stops else b"")) in ANSWERS


@given(TREES, st.data())
def test_a_pickle_with_one_byte_changed_gives_an_answer(value, data):
    whole = bytearray(pickle.dumps(value, 4))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    assert outcome(bytes(whole)) in ANSWERS


def test_every_opcode_is_known():
    known = {code.code.encode("latin-1")[0] for code in pickletools.opcodes}
    assert known == {*pickles._HANDLERS, pickles._STOP}


@pytest.mark.parametrize("protocol", [2, 4])
def test_the_state_of_a_generator_comes_back_as_it_was(protocol):
    """Its numbers are read many at a time."""
    state = (*random.Random(7).getstate(), [-1, 2**31, -(2**31), 0, 2**32 - 1, 2**33, 5, 2**31 - 1, 2**40, 2**31])
    assert read(pickle.dumps(state, protocol)).value == state


def test_numbers_that_are_read_many_at_a_time_count_one_by_one():
    data = pickle.dumps(list(range(2**31, 2**31 + 900)), 2)
    most = len(list(pickletools.genops(data)))
    look = Look(None, structs.replace(QUICK, opcodes=most))
    pickles.read(data, look)
    assert look.opcodes == most
    assert sign(data, structs.replace(QUICK, opcodes=most - 1)) is Sign.LIMIT
    for length in range(len(data)):
        assert outcome(data[:length]) in {Sign.ENDS_EARLY, Sign.CONTRADICTS}
