"""Rules over measurements that the worked cases do not reach: storms, links, fabric, temperature, configuration."""

import pytest

from fleet.domain.gpus import NA
from fleet.domain.rules import CONFIGURATION_LASTING_S, FABRIC_LASTING_S, LASTING_S, MEASURED
from tests.domain.gpu_readings import Told, eight


def storms(*per_minute):
    """Corrected errors that are added in each minute; one reading a minute."""
    told, errors = Told(), 0
    told.reads(eight(gpu0={"ecc_corrected": 0}), after_s=60.0)
    for added in per_minute:
        errors += added
        told.reads(eight(gpu0={"ecc_corrected": errors}), after_s=60.0)
    return told


@pytest.mark.parametrize(
    ("per_minute", "rules"),
    [
        ((0, 0), []),
        ((5999,), []),
        ((6000,), ["ecc-storm"]),
        ((17_700 * 60,), ["ecc-storm"]),
        ((60_000, 1200), ["ecc-storm"]),
        ((60_000, 1200, 500), []),
    ],
)
def test_a_storm_of_corrected_errors(per_minute, rules):
    told = storms(*per_minute)
    assert told.rules(0) == rules
    assert told.row(0).state == ("degraded" if rules else "ok")


def test_a_storm_says_its_rate():
    finding = storms(17_700 * 60).row(0).findings[0]
    assert (finding.evidence, finding.facts) == ("17700 corrected errors a second", (("per_s", 17_700.0),))


def test_a_counter_that_started_anew_is_no_rate():
    told = storms(60_000)
    told.reads(eight(gpu0={"ecc_corrected": 3}), after_s=60.0)
    assert told.rules(0) == ["ecc-storm"], "not known to be over"
    told.reads(eight(gpu0={"ecc_corrected": 4}), after_s=60.0)
    assert told.rules(0) == []


def test_errors_in_a_gap_are_no_storm():
    told = storms(0)
    told.reads(eight(gpu0={"ecc_corrected": 10**9}), after_s=3600.0)
    assert told.rules(0) == []


@pytest.mark.parametrize(
    ("values", "state", "reason"),
    [
        ({"temperature_margin_c": 1}, "ok", ""),
        ({"temperature_margin_c": 0}, "degraded", "temperature-margin"),
        ({"temperature_margin_c": -4}, "degraded", "temperature-margin"),
        ({"temperature_margin_c": NA, "temperature_c": 92, "slowdown_c": 92}, "degraded", "temperature-margin"),
        ({"temperature_margin_c": NA, "temperature_c": 91, "slowdown_c": 92}, "ok", ""),
        ({"temperature_margin_c": NA, "temperature_c": 92, "slowdown_c": NA}, "ok", ""),
        ({"temperature_margin_c": NA, "temperature_c": 92, "slowdown_c": 0}, "ok", ""),
        ({"sram_threshold_exceeded": 1}, "hardware-service", "sram-threshold"),
        ({"sram_threshold_exceeded": NA}, "ok", ""),
        ({"ecc_uncorrected": 1}, "degraded", "ecc-uncorrected"),
        ({"ecc_uncorrected": None}, "ok", ""),
    ],
)
def test_what_counts_at_once(values, state, reason):
    told = Told()
    told.reads(eight(gpu0=values))
    assert (told.row(0).state, told.row(0).reason) == (state, reason)


def test_a_margin_of_one_degree_does_not_flap():
    told = Told()
    states = []
    for margin in (5, 0, 1, 2, 0, 3, 1):
        told.reads(eight(gpu0={"temperature_margin_c": margin}))
        states.append(told.row(0).state)
    assert states == ["ok", "degraded", "degraded", "degraded", "degraded", "ok", "ok"]


def lasting(values, seconds, **others):
    """The rules that are open when `values` have lasted for so long."""
    told = Told()
    told.reads()
    for _ in range(int(seconds // 5) + 1):
        told.reads(eight(gpu0=values, **others))
    return told.rules(0)


LOADED = {"utilization_pct": 90}
IDLE = {"utilization_pct": 0}


@pytest.mark.parametrize(
    ("values", "seconds", "rule"),
    [
        ({"nvlinks_active": 17}, LASTING_S, "nvlink-inactive"),
        ({"nvlinks_active": 0}, LASTING_S, "nvlink-inactive"),
        (LOADED | {"pcie_width": 8}, LASTING_S, "pcie-width"),
        (LOADED | {"pcie_generation": 3}, LASTING_S, "pcie-generation"),
        ({"fabric_health": 2}, LASTING_S, "fabric-unhealthy"),
        ({"fabric_health": 3}, LASTING_S, "fabric-unhealthy"),
        ({"fabric_state": 2}, FABRIC_LASTING_S, "fabric-not-ready"),
        ({"fabric_state": 1}, FABRIC_LASTING_S, "fabric-not-ready"),
        ({"mig_pending": 1}, CONFIGURATION_LASTING_S, "configuration-pending"),
        ({"ecc_pending": 0}, CONFIGURATION_LASTING_S, "configuration-pending"),
    ],
)
def test_what_has_to_last(values, seconds, rule):
    assert lasting(values, seconds) == [rule]
    assert lasting(values, seconds - 5) == []


@pytest.mark.parametrize(
    "values",
    [
        IDLE | {"pcie_width": 8, "pcie_generation": 1},
        {"utilization_pct": NA, "pcie_width": 8},
        LOADED | {"pcie_width": NA, "pcie_generation": None},
        LOADED | {"pcie_width": 0},
        {"nvlinks": NA, "nvlinks_active": NA},
        {"mig": 1, "nvlinks_active": 0},
        {"fabric_state": 0, "fabric_health": 0},
        {"fabric_status": -3},
    ],
)
def test_what_is_no_fault_however_long_it_lasts(values):
    assert lasting(values, FABRIC_LASTING_S) == []


def test_boards_without_a_bridge_have_no_active_link():
    without = {"nvlinks_active": 0}
    assert lasting(without, LASTING_S, **{f"gpu{i}": without for i in range(1, 8)}) == []


def test_a_link_that_comes_and_goes_begins_anew():
    told = Told()
    for _ in range(4):
        for _ in range(11):
            told.reads(eight(gpu0={"nvlinks_active": 17}))
        told.reads()
    assert not any(t.reason == "nvlink-inactive" for t in told.transitions)


def test_a_slow_link_stays_known_while_the_gpu_idles():
    told = Told()
    for _ in range(14):
        told.reads(eight(gpu0=LOADED | {"pcie_width": 8}))
    told.reads(eight(gpu0=IDLE | {"pcie_width": 8}))
    assert told.rules(0) == ["pcie-width"]
    told.reads(eight(gpu0=LOADED))
    assert told.rules(0) == []


def test_tokens_are_unique():
    tokens = [rule.token for rule in MEASURED]
    assert len(set(tokens)) == len(tokens)
