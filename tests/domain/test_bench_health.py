"""What it costs to judge a node of eight GPUs: 1,000 nodes that report every 5 s are 200 readings a second.

Asserted are ratios within one run, so that a busy machine does not matter; `make bench` prints the times.
"""

from time import process_time

import msgspec
import pytest

from fleet.domain.gpus import Reading
from fleet.domain.health import assess
from tests.domain.gpu_readings import CONTEXT, NODE, START_AT, eight

READINGS = 1_000
TROUBLE = {"temperature_margin_c": -1, "remap_pending": 1, "ecc_uncorrected": 4, "clock_reasons": 0x48}


def readings(**values):
    gpus = eight(**{f"gpu{i}": values for i in range(8)})
    return [
        msgspec.json.encode(
            Reading(
                node=NODE,
                boot_id="b",
                agent="a",
                sequence=n,
                sent_at=START_AT + 5 * n,
                gpus=gpus,
                count=8,
                driver="570",
            )
        )
        for n in range(READINGS)
    ]


@pytest.mark.bench
@pytest.mark.parametrize("values", [{}, TROUBLE], ids=["healthy", "all in trouble"])
def test_judging_costs_little_more_than_decoding(values):
    wire, decoder = readings(**values), msgspec.json.Decoder(Reading)
    start = process_time()
    decoded = [decoder.decode(one) for one in wire]
    between = process_time()
    memory = None
    for n, reading in enumerate(decoded):
        memory = assess(memory, reading, CONTEXT, START_AT + 5 * n).health
    end = process_time()
    decode_us, judge_us = 1e6 * (between - start) / READINGS, 1e6 * (end - between) / READINGS
    print(f"\na reading of 8 GPUs: decoded in {decode_us:.0f} µs, judged in {judge_us:.0f} µs")
    assert memory is not None
    assert all(bool(gpu.findings) == bool(values) for gpu in memory.gpus.values())
    assert judge_us < 20 * decode_us
