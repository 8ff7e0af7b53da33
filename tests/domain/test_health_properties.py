"""What holds of every reading, however broken.

Nothing raises, nothing is healthy without evidence, a replay changes nothing, and the ledger's rows are a chain.
"""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.domain import gpu_rows
from fleet.domain.availability import each
from fleet.domain.gpus import NA, Answer, DriverStatus, Fault, FaultKind, Gpu, Holder, Instance, Process, Reading
from fleet.domain.health import NOT_OWNED, RULES, NodeContext, NodeHealth, assess, silent
from fleet.domain.measures import number
from fleet.domain.picture import CELL_STATES
from fleet.domain.verdicts import SEVERITY, URGENCY, usable
from tests.domain.gpu_readings import CONTEXT, NODE, START_AT, Told, gpu

EXTREMES = st.sampled_from([0, 1, -1, 2, 3, 100, 2**31, 2**63 - 1, -(2**63), 1e300, -1e300, 0.5, NA, None])
MEASURES = st.one_of(EXTREMES, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False))
MEASURED = [
    field.name
    for field in msgspec.structs.fields(Gpu)
    if field.default is None and field.name not in {"minor", "processes", "assigned", "advertised"}
]
UUIDS = st.sampled_from(["", "GPU-a", "GPU-b", "GPU-c", "GPU-/", "node-11/0000:01:00.0"])
PCIS = st.sampled_from(["", "0000:01:00.0", "0000:02:00.0", "rubbish"])
WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 10)
TEXTS = st.text(max_size=8)
FEW_VALUES = st.dictionaries(st.sampled_from(MEASURED), MEASURES, max_size=8)


@st.composite
def some_gpus(draw, most=3):
    return tuple(
        Gpu(
            uuid=draw(UUIDS),
            index=draw(WHOLE),
            pci=draw(PCIS),
            name=draw(NAMES),
            answer=draw(ANSWERS),
            processes=draw(PROCESSES),
            assigned=draw(HELD),
            instances=draw(INSTANCES),
            **draw(FEW_VALUES),
        )
        for _ in range(draw(st.integers(0, most)))
    )


NAMES = st.sampled_from(["", "NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 4090"])
ANSWERS = st.sampled_from([*[Answer.OK] * 6, *Answer])
PROCESSES = st.sampled_from([None, (), (Process(pid=1, used_bytes=2**63 - 1), Process(pid=-1, holder=Holder("", "")))])
HELD = st.sampled_from([None, (), (Holder("a", "b"), Holder(pod_uid="x"))])
INSTANCES = st.sampled_from([(), (Instance(uuid="MIG-1", gi=5, memory_used_bytes=-1e300), Instance(uuid="", gi=-1))])
MOMENTS = st.sampled_from([START_AT, START_AT - 1, 0.0, -1.0, 1e300, -1e300, 4e9]) | st.floats(
    allow_nan=False, allow_infinity=False
)
FAULTS = st.builds(
    Fault,
    kind=st.sampled_from(FaultKind),
    source=st.sampled_from(["kernel-log", "dcgm"]),
    at=MOMENTS,
    sequence=st.none() | WHOLE,
    pci=PCIS,
    uuid=UUIDS,
    code=st.none() | WHOLE | st.sampled_from([13, 31, 48, 63, 74, 79, 94, 95, 145, 149, 154]),
    gi=st.none() | WHOLE,
    ci=st.none() | WHOLE,
    fatal=st.none() | st.booleans(),
    words=st.lists(WHOLE, max_size=3).map(tuple),
    recovery=st.none() | st.tuples(WHOLE, st.integers(-1, 9)),
    text=TEXTS,
    repeated=WHOLE,
)
READINGS = st.builds(
    Reading,
    node=st.just(NODE),
    boot_id=st.sampled_from(["", "boot-1", "boot-2"]),
    agent=st.sampled_from(["agent-1", "agent-2"]),
    sequence=WHOLE,
    sent_at=MOMENTS,
    source=st.sampled_from(["nvml", "dcgm"]),
    status=st.sampled_from(DriverStatus) | st.just(DriverStatus.OK),
    driver=st.sampled_from(["", "570", "575"]),
    count=st.none() | WHOLE,
    gpus=some_gpus(),
    faults=st.lists(FAULTS, max_size=3).map(tuple),
    lost_lines=WHOLE,
    lost_faults=WHOLE,
    log_error=TEXTS,
)
CONTEXTS = st.builds(
    NodeContext,
    node=st.just(NODE),
    gpu_labelled=st.booleans(),
    physical=st.none() | st.integers(0, 16),
    capacity=st.none() | st.integers(0, 2**63 - 1),
    replicas=st.integers(-1, 10),
    upgrade_state=st.sampled_from(["", "drain-required", "validation-required", "upgrade-failed", "x"]),
    upgrade_since_at=st.none() | MOMENTS,
    mig_state=st.sampled_from(["", "pending", "failed", "success"]),
    deploy_paused=st.sampled_from(["", "true", "paused-for-mig-change"]),
)
STEPS = st.lists(
    st.tuples(st.none() | READINGS, CONTEXTS, st.sampled_from([0.0, 0.1, 5.0, 61.0, 700.0, 1e6])),
    min_size=1,
    max_size=5,
)


def told(steps):
    """What each step comes to; the memory goes through its store every time."""
    memory, now = None, START_AT
    for drawn, context, after_s in steps:
        now += after_s
        reading = drawn and msgspec.json.decode(msgspec.json.encode(drawn), type=Reading)
        if reading is not None:
            assessed = assess(memory, reading, context, now)
        elif memory is not None:
            assessed = silent(memory, context, now)
        else:
            continue
        yield reading, memory, assessed, now
        memory = msgspec.msgpack.decode(msgspec.msgpack.encode(assessed.health), type=NodeHealth)
        assert memory == assessed.health


def everything_can_be_stored_and_sent(story):
    for _, _, assessed, _ in story:
        for part in (assessed.rows, assessed.standing, assessed.transitions):
            msgspec.json.encode(part)
            msgspec.msgpack.encode(part)
        assert assessed.rows.keys() == assessed.health.gpus.keys()
        for row in assessed.rows.values():
            assert {gpu_rows.cell(row, allocated) for allocated in (True, False)} <= CELL_STATES.keys()
            assert row.state in SEVERITY
            assert row.action in URGENCY
        found = [*assessed.standing.findings, *(f for row in assessed.rows.values() for f in row.findings)]
        for finding in found:
            assert finding.rule in RULES or finding.rule.startswith(("xid", "sxid", "off-bus", "api-mismatch"))


def nothing_is_healthy_without_a_number_of_its_own(story):
    for _, before, assessed, now in story:
        for key, row in assessed.rows.items():
            assert gpu_rows.cell(row, allocated=False) != "f" or usable(row.state, row.soft)
            if not usable(row.state, row.soft):
                continue
            health = assessed.health.gpus[key]
            assert health.read_at is not None
            assert any(number(getattr(health.gpu, name)) is not None for name in MEASURED)
            assert health.read_at == assessed.health.read_at or before == assessed.health or now - health.read_at <= 60


def the_same_reading_twice_changes_nothing(story):
    for reading, _, assessed, now in story:
        if reading is not None:
            again = assess(assessed.health, reading, CONTEXT, now)
            assert again.health == assessed.health
            assert again.transitions == ()
            assert again.rows == assessed.rows


def transitions_are_a_chain_and_lead_to_what_is_remembered(story):
    states = {}
    for _, _, assessed, _ in story:
        for transition in assessed.transitions:
            assert transition.from_state == states.get(transition.gpu, NOT_OWNED)
            states[transition.gpu] = transition.to_state
        owned = {gpu: state for gpu, state in states.items() if state != NOT_OWNED}
        assert owned == {key: gpu.state for key, gpu in assessed.health.gpus.items()}


def time_of_transitions_never_runs_backwards(story):
    rows = [transition for _, _, assessed, _ in story for transition in assessed.transitions]
    for earlier, later in pairwise(rows):
        assert earlier.at <= later.at
    assert all(part.owned_s >= 0 for part in each(rows, START_AT, START_AT + 1e7).values())


@given(STEPS)
def test_whatever_a_node_says(steps):
    story = list(told(steps))
    everything_can_be_stored_and_sent(story)
    nothing_is_healthy_without_a_number_of_its_own(story)
    the_same_reading_twice_changes_nothing(story)
    transitions_are_a_chain_and_lead_to_what_is_remembered(story)
    time_of_transitions_never_runs_backwards(story)


@pytest.mark.parametrize("count", [0, 1, 64, 200])
def test_any_number_of_gpus(count):
    told = Told()
    assessed = told.reads([gpu(board % 150) for board in range(count)])
    assert len(assessed.rows) == min(count, 150)
    assert assessed.standing.known == len(assessed.rows)


def numbered(draw_gpus):
    """Readings of one agent, in their order."""
    return [
        Reading(
            node=NODE,
            boot_id="boot-1",
            agent="agent-1",
            sequence=n,
            sent_at=START_AT + 5 * n,
            gpus=gpus,
            count=len(gpus),
        )
        for n, gpus in enumerate(draw_gpus)
    ]


@given(st.lists(some_gpus(), min_size=1, max_size=6), st.randoms())
def test_late_and_doubled_readings_are_as_if_they_had_not_come(gpus, random):
    """What arrives after a newer one is left out: the state is that of the readings that were newest when they came."""
    stream = [reading for reading in numbered(gpus) for _ in range(2)]
    random.shuffle(stream)
    memory, newest, kept = None, -1, []
    for place, reading in enumerate(stream):
        memory = assess(memory, reading, CONTEXT, START_AT + 100 + place).health
        if reading.sequence > newest:
            newest = reading.sequence
            kept.append((place, reading))
    alone = None
    for place, reading in kept:
        alone = assess(alone, reading, CONTEXT, START_AT + 100 + place).health
    assert memory == alone
