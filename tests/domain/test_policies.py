"""The policy file: what it says, and errors that name the line."""

from datetime import UTC, datetime

import pytest

from fleet.domain.policies import Policy, PolicyError, policy

WINDOW = "[[window]]\nfrom = 22:00:00\nto = 06:00:00\n"
STORE = '[[store]]\nnamespace = "ml"\nclaim = "ckpt"\npath = "/mnt/ckpt"\n'
BUCKET = '[[store]]\nnamespace = "ml"\nbucket = "s3://runs/ml"\n'


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[limits]\nnodes = "x"\n', "line 2: limits.nodes: expected `int`, got `str`"),
        ("[limits]\nnode = 1\n", "line 2: limits.node: object contains unknown field `node`"),
        ("[limits]\nnodes = 0\n", "line 2: limits.nodes: has to be more than 0"),
        ("[limits]\n\nunusable_share = 1.5\n", "line 3: limits.unusable_share: is a share: at most 1"),
        ("[deadlines]\nreboot_s = -1\n", "line 2: deadlines.reboot_s: has to be more than 0"),
        (f'{WINDOW}{WINDOW}timezone = "Mars"\n', "line 7: window[1].timezone: 'Mars' is no time zone"),
        (f'{WINDOW}days = ["so"]\n', "line 4: window[0].days: 'so' is no day: mon, tue, wed, thu, fri, sat, sun"),
        ('[[window]]\nfrom = 22:00:00\nto = "x"\n', "line 3: window[0].to: invalid RFC3339 encoded time"),
        ("[pools.train]\nfloor_gpus = -1\n", "line 2: pools.train.floor_gpus: has to be 0 or more"),
        ('[pools."a b"]\nfour_eyes = ["x"]\n', "line 2: pools.a b.four_eyes: 'x' is no kind of action"),
        ('four_eyes = ["drane"]\n', "line 1: four_eyes: 'drane' is no kind of action"),
        ("\n[[freeze]]\nto = 2026-12-21T00:00:00Z\n", "line 2: freeze[0]: object missing required field `from`"),
        (
            "[[freeze]]\nfrom = 2026-12-20T00:00:00\nto = 2026-12-21T00:00:00Z\n",
            "line 2: freeze[0].from: needs an offset",
        ),
        (
            "[[freeze]]\nfrom = 2026-12-21T00:00:00Z\nto = 2026-12-20T00:00:00Z\n",
            "line 3: freeze[0].to: has to be later than from",
        ),
        ('[reboot]\ncommand = "reboot"\n', "line 2: reboot.command: has to name the node: {node}"),
        ('[[store]]\nclaim = "ckpt"\n', "line 1: store[0]: object missing required field `namespace`"),
        ('[[store]]\nnamespace = "ml"\n', "line 2: store[0].namespace: needs either a claim or a bucket"),
        (f'{STORE}bucket = "s3://runs"\n', "line 3: store[0].claim: needs either a claim or a bucket"),
        ('[[store]]\nnamespace = "ml"\nclaim = "x"\n', "line 3: store[0].claim: needs a path: where it is mounted"),
        (f"{STORE}{STORE}", "line 7: store[1].claim: is granted twice"),
        (f"{STORE}\n{STORE.replace('/mnt/ckpt', '../ckpt')}", "line 9: store[1].path: has to begin with /"),
        (f'{STORE}credential = "team"\n', "line 5: store[0].credential: is only for a bucket"),
        (f'{STORE}secret = "x"\n', "line 5: store[0].secret: object contains unknown field"),
        ('[[store]]\nnamespace = "ml"\nbucket = "runs"\n', "line 3: store[0].bucket: has to be s3://bucket"),
        (f'{BUCKET}endpoint = "minio:9000"\n', "line 4: store[0].endpoint: has to be http:// or https://"),
        ('[checkpoints]\nreported = ["llm"]\n', "line 2: checkpoints.reported: 'llm' is no workload"),
        ('[checkpoints]\nexec = ["A b"]\n', "line 2: checkpoints.exec: 'A b' is no namespace"),
        ("[limits]\nnodes = = 1\n", "line 2: "),
        ("a = [\n", "the last line: "),
    ],
)
def test_an_error_names_its_line(text: str, error: str) -> None:
    with pytest.raises(PolicyError) as raised:
        policy(text)
    assert str(raised.value).startswith(error)


def test_no_file_is_the_cautious_default() -> None:
    assert policy("") == Policy()
    assert Policy().limits.nodes_per_rack == 1
    assert not Policy().needs_second("drain", "train")
    assert Policy().closed_window("train", 0.0) == ()


def test_a_second_person_by_kind_and_by_pool() -> None:
    found = policy('four_eyes = ["maintain"]\n[pools.train]\nfour_eyes = ["drain"]\n')
    assert found.needs_second("maintain", "infer")
    assert found.needs_second("drain", "train")
    assert not found.needs_second("drain", "infer")


@pytest.mark.parametrize(
    ("now", "is_open"),
    [
        ("2026-12-05T21:59:59", False),  # a Saturday
        ("2026-12-05T22:00:00", True),
        ("2026-12-06T05:59:59", True),  # the window of Saturday reaches into Sunday
        ("2026-12-06T06:00:00", False),
        ("2026-12-06T23:00:00", False),
    ],
)
def test_a_window_over_midnight(now: str, is_open: bool) -> None:
    found = policy(f'{WINDOW}days = ["sat"]\npools = ["train"]\n')
    assert bool(found.closed_window("train", at(now))) is not is_open
    assert found.closed_window("infer", at(now)) == ()


def test_a_window_keeps_its_own_time_zone() -> None:
    found = policy(f'{WINDOW}timezone = "Europe/Paris"\n')
    assert found.closed_window("train", at("2026-12-05T21:30:00")) == ()


def test_a_freeze_says_why() -> None:
    text = (
        '[[freeze]]\nfrom = 2026-12-20T00:00:00Z\nto = 2027-01-03T00:00:00Z\nreason = "holidays"\npools = ["infer"]\n'
    )
    found = policy(text)
    frozen = found.frozen("infer", at("2026-12-24T00:00:00"))
    assert frozen is not None
    assert frozen.reason == "holidays"
    assert found.frozen("train", at("2026-12-24T00:00:00")) is None
    assert found.frozen("infer", at("2027-01-03T00:00:00")) is None


def test_a_site_says_how_it_reboots_a_node() -> None:
    found = policy('[reboot]\ncommand = "ipmi --host {node}-bmc cycle"\n')
    assert found.reboot_command("node-07") == "ipmi --host node-07-bmc cycle"
    assert policy("").reboot_command("node-07") == ""
