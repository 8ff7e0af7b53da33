"""The registers of NVLink errors, against the rows of NVIDIA's tables."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain import nvlink
from fleet.domain.xid_catalogue import Bucket

NEWER_THAN_R575 = {144: [1], 145: range(3, 9), 146: range(9, 14), 147: [14], 148: [15]}


@pytest.mark.parametrize(
    ("xid", "words", "sub_code", "unit", "immediate", "investigate"),
    [
        (149, (0x004505C6, 0), 4, "NETIR_LINK_DOWN", "RESET_GPU", "INVESTIGATE_LINK_SI"),
        (149, (0x025001C6, 0), 37, "NETIR_LINK_DOWN", "RESET_GPU", "INVESTIGATE_PEER_DEVICE"),
        (149, (0x026001C6, 0), 38, "NETIR_LINK_DOWN", "IGNORE", "INVESTIGATE_SW_USER"),
        (149, (0x02800011, 0), 40, "NETIR_LINK_DOWN", "IGNORE", "INVESTIGATE_HOST"),
        (149, (0x00000013, 0), 0, "NETIR_BER_EVENT", "IGNORE", "INVESTIGATE_LINK_SI_AND_CABLES"),
        (149, (0x00000014, 1), 0, "NETIR_MFDE_EVENT", "RESET_GPU", "CONTACT_SUPPORT"),
        (149, (0x00000014, 3), 0, "NETIR_MFDE_EVENT", "IGNORE", "IGNORE"),
        (149, (0x00000018, 9), 0, "NETIR_INT", "RESET_GPU", "IGNORE (sympathetic)"),
        (145, (0x4, 0x40), 0, "RLW_REMAP", "RESET_GPU", "CONTACT_SUPPORT"),
        (145, (0x4, 0x1), 0, "RLW_REMAP", "XID_154_EVAL", "CONTACT_SUPPORT"),
        (145, (0x82, 0x40, 0, 0, 0, 0), 0, "RLW_REMAP", "RESET_GPU", "CONTACT_SUPPORT"),
        (145, (0x0409A0C2, 8, 1, 0, 0x100000, 4), 0, "RLW_RXPIPE", "IGNORE", "CONTACT_SUPPORT"),
        (144, (0x1, 0x2), 0, "SAW_MVB", "RESET_GPU", "CONTACT_SUPPORT"),
        (144, (0x1, 0x1), 0, "SAW_MVB", "IGNORE", "CONTACT_SUPPORT"),
        (146, (0xA, 0x4), 0, "TLW_RX_PIPE0", "RESET_GPU", "CONTACT_SUPPORT"),
        (150, (0, 0), 0, "MSE", "RESET_GPU", "CONTACT_SUPPORT"),
    ],
)
def test_worked_lines(xid, words, sub_code, unit, immediate, investigate):
    assert nvlink.decode(xid, words) == nvlink.Decoded(unit, sub_code, Bucket(immediate), investigate)


@pytest.mark.parametrize(
    ("xid", "buckets"),
    [
        (144, {Bucket.IGNORE: 4, Bucket.RESET_GPU: 2}),
        (145, {Bucket.IGNORE: 16, Bucket.RESET_GPU: 9, Bucket.XID_154_EVAL: 8}),
        (146, {Bucket.IGNORE: 15, Bucket.RESET_GPU: 5}),
        (147, {Bucket.IGNORE: 2}),
        (148, {Bucket.IGNORE: 1}),
    ],
)
def test_rows_by_bucket(xid, buckets):
    """One row per unit and bit of its status."""
    rows = (nvlink.decode(xid, (unit, 1 << bit)) for unit in NEWER_THAN_R575[xid] for bit in range(32))
    assert Counter(row.immediate for row in rows if row) == buckets


def test_rows_by_bucket_of_the_link_itself():
    words = [(sub_code << 20 | 17, 0) for sub_code in range(64)]
    words += [(unit, status) for unit in (19, 20) for status in range(16)] + [(24, 0)]
    rows = [nvlink.decode(149, each) for each in words]
    assert Counter(row.immediate for row in rows if row) == {Bucket.RESET_GPU: 24, Bucket.IGNORE: 7}


@pytest.mark.parametrize(
    ("xid", "old", "new"),
    [
        (144, 0x021, 1),
        (145, 0x0C2, 6),
        (146, 0x123, 9),
        (146, 0x163, 12),
        (147, 0x184, 14),
        (148, 0x005, 15),
        (149, 0x226, 19),
        (149, 0x006, 24),
    ],
)
def test_both_layouts_of_the_first_word_say_the_same(xid, old, new):
    for status in (0, 1, 2, 4, 0x40, 1 << 31):
        assert nvlink.decode(xid, (old, status)) == nvlink.decode(xid, (new, status))
    assert nvlink.decode(xid, (old | 0xFC00_0000, 1)) == nvlink.decode(xid, (old, 1))


@pytest.mark.parametrize(
    ("xid", "words"),
    [
        (145, ()),
        (145, (0x1F, 1)),  # no unit of that Xid
        (144, (0x4, 1)),  # a unit of another Xid
        (145, (0x4, 0x400)),  # a bit that no row has
        (145, (0x4, 0)),
        (145, (0x00100004, 1)),  # only a link that went down has a sub-code
        (149, (0x03F00011, 0)),
        (149, (0x14, 2)),
        (151, (1, 1)),
    ],
)
def test_what_no_row_fits(xid, words):
    assert nvlink.decode(xid, words) is None


def test_several_bits_are_as_grave_as_the_gravest():
    assert nvlink.decode(145, (0x4, 0x1 | 0x40 | 0x100)).immediate is Bucket.RESET_GPU
    assert nvlink.decode(145, (0x4, 0x1 | 0x100)).immediate is Bucket.XID_154_EVAL
    assert nvlink.decode(149, (0x14, 7)).immediate is Bucket.RESET_GPU  # a number, not bits


@pytest.mark.parametrize("first", [0x4C2, 0x86])
def test_a_promoted_error_wants_a_reset(first):
    assert nvlink.decode(145, (first, 1)).immediate is Bucket.RESET_GPU
    assert nvlink.decode(145, (first, 8)).immediate is Bucket.IGNORE


def test_a_line_that_says_fatal_promotes_only_what_can_be_promoted():
    assert nvlink.decode(145, (0x6, 1), fatal=True).immediate is Bucket.RESET_GPU
    assert nvlink.decode(145, (0x6, 1), fatal=False).immediate is Bucket.IGNORE
    assert nvlink.decode(149, (0x026001C6, 0), fatal=True).immediate is Bucket.IGNORE


@pytest.mark.parametrize(
    ("words", "immediate", "investigate"),
    [
        ((0x10000, 0, 0, 0, 0, 0, 0), "RESET_GPU", "CHECK_MECHANICALS"),
        ((0, 0, 0x10000, 0, 0, 0, 0), "RESET_GPU", "CONTACT_SUPPORT"),
        ((1 | 1 << 23, 0, 0, 0, 1 << 20, 0, 0), "IGNORE", "IGNORE"),
        ((1 << 1, 0, 0, 1 << 16, 0, 0, 0), "IGNORE", "IGNORE (sympathetic)"),
        ((1 << 1 | 1 << 4, 0, 0, 0, 0, 0, 0), "RESET_GPU", "CONTACT_SUPPORT"),
        ((0, 0, 0, 1 << 18, 0, 0, 0), "RESET_GPU", "CONTACT_SUPPORT"),  # the fabric has to be reset
        ((0, 0, 0, 0, 0, 0, 0), "RESET_GPU", "CONTACT_SUPPORT"),
        ((), "RESET_GPU", "CONTACT_SUPPORT"),
    ],
)
def test_registers_of_the_older_links(words, immediate, investigate):
    assert nvlink.decode_74(words) == nvlink.Decoded("", 0, Bucket(immediate), investigate)


@given(st.integers(0, 300), st.lists(st.integers(0, 2**32 - 1), max_size=9), st.none() | st.booleans())
def test_any_registers_can_be_asked(xid, words, fatal):
    decoded = nvlink.decode(xid, words, fatal=fatal)
    assert decoded is None or decoded.immediate in (Bucket.IGNORE, Bucket.XID_154_EVAL, Bucket.RESET_GPU)
    assert nvlink.decode_74(words).immediate in (Bucket.IGNORE, Bucket.RESET_GPU)
