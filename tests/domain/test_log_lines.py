"""The end of a log as people may see it."""

import pytest

from fleet.domain.log_lines import MOST_BYTES, MOST_LINES, ending, hidden


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("HF_TOKEN=hf_abcdefghijklmnopqrst loading", "HF_TOKEN=••• loading"),
        ('{"api_key": "abc def", "step": 3}', '{"api_key": •••, "step": 3}'),
        ("db_password: hunter2; retry", "db_password: •••; retry"),
        ("Authorization: Bearer abc.def-ghi_jkl", "Authorization: Bearer •••"),
        ("postgres://app:s3cr3t@db:5432/x", "postgres://•••@db:5432/x"),
        ("got eyJhbGciOiJI.eyJzdWIiOiIx.sig-1 back", "got ••• back"),
        ("using AKIAIOSFODNN7EXAMPLE now", "using ••• now"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter", "•••\nafter"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", "•••"),
        ("MIIE\nabc+/=\n-----END PRIVATE KEY-----\nafter", "•••\nafter"),
        ("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", None),
        ("step 12000 loss 1.8 tokens/s 52000 sequence=4096", None),
    ],
)
def test_what_looks_like_a_secret_is_hidden(written: str, shown: str | None) -> None:
    assert hidden(written) == (written if shown is None else shown)


def test_the_last_lines_are_kept_as_far_as_they_fit() -> None:
    assert ending(b"\x1b[31mone\x1b[0m\r\ntwo\x07\n\n") == ("one", "two")
    assert ending("\n".join(map(str, range(100))).encode()) == tuple(map(str, range(100 - MOST_LINES, 100)))
    long = ending(b"\n".join([b"a" * 3_000, b"b" * 3_000]))
    assert long == ("b" * 3_000,)
    (cut,) = ending("é".encode() * MOST_BYTES)
    assert len(cut.encode()) <= MOST_BYTES
    assert set(cut) == {"é"}
    assert ending(b"\xff\xfe broken") == ("�� broken",)
    assert ending(b"") == ()
