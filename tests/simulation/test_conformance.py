"""What a real API server was seen to do, line by line, and which tests hold the rehearsal to it.

The numbers are those of the notes taken from the recordings ("What a real API server answers", 36 points). A test is named
MODULE::NAME or MODULE::CLASS::NAME (of this package), a recording that is replayed as replay:NAME.
"""

import ast
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TABLES = tomllib.loads((HERE.parent / "data" / "replay.toml").read_text())
PLANS = set(TABLES) | set(TABLES["lived"])

COVERED: dict[int, tuple[str, ...]] = {
    # Eviction
    1: ("test_eviction::test_accepted_is_marked_then_told_to_go_1", "replay:eviction_flow"),
    2: ("test_eviction_rules::test_why_a_budget_refuses_2", "replay:eviction", "replay:eviction_errors"),
    3: (
        "test_eviction_rules::test_a_budget_not_yet_looked_at_says_when_to_come_back_3",
        "replay:eviction_errors",
        "replay:pdb_status",
    ),
    4: ("test_eviction_rules::test_two_budgets_are_refused_without_a_reason_4", "replay:eviction_errors"),
    5: ("test_eviction::TestBudgets::test_of_two_budgets_one_stays_stale_5", "replay:pdb_status"),
    6: (
        "test_eviction::test_a_refused_eviction_is_charged_for_two_minutes_6",
        "test_eviction_rules::test_preconditions_name_what_differs_6",
        "replay:eviction",
        "replay:eviction_409_keeps_budget",
    ),
    7: (
        "test_eviction_rules::test_pods_that_protect_nothing_are_never_asked_for_7",
        "test_eviction::test_a_pending_pod_that_changes_meanwhile_is_tried_again_7",
        "replay:eviction_errors",
        "replay:eviction_flow",
    ),
    8: (
        "test_eviction_rules::test_what_an_unready_pod_costs_8",
        "test_eviction::test_an_unready_pod_that_becomes_ready_meanwhile_is_asked_for_again_8",
        "replay:eviction_unready",
    ),
    9: ("test_eviction::test_a_dry_run_reserves_nothing_9", "replay:eviction"),
    10: ("test_eviction::test_of_four_at_once_one_gets_through_10",),
    11: (
        "test_eviction::test_dry_runs_that_contradict_each_other_11",
        "test_eviction::test_a_mirror_pod_is_not_refused_11",
        "test_eviction::test_without_rights_the_pod_is_not_even_looked_for_11",
        "replay:eviction_errors",
    ),
    12: (
        "test_eviction::test_a_budget_has_its_disruption_back_when_a_new_pod_is_ready_12",
        "replay:eviction_flow",
    ),
    # Budgets
    13: (
        "test_eviction::TestBudgets::test_of_a_deployment_13",
        "test_eviction::TestBudgets::test_of_bare_pods_13",
        "test_eviction::TestBudgets::test_an_owner_that_cannot_be_counted_fails_the_sync_13",
        "replay:pdb_status",
    ),
    14: ("replay:eviction_flow", "replay:node_notready"),
    # Patches and concurrency
    15: (
        "test_api::TestWriting::test_stale_versions_15",
        "test_api::TestWriting::test_a_patch_without_effect_keeps_the_version_15",
        "replay:cordon",
    ),
    16: ("test_patch::test_json_patch_that_fails_says_nothing_specific", "replay:service_switch"),
    17: ("test_api::TestWriting::test_fields_17", "replay:deployment_invalid", "replay:cordon"),
    18: ("test_node_lifecycle::test_cordon_and_uncordon_are_two_changes_each", "replay:cordon"),
    19: (
        "test_api::TestWriting::test_a_merge_patch_of_containers_drops_resources_19",
        "test_api::TestValidation::test_quantities_19",
        "replay:deployment_invalid",
    ),
    # Watch and list
    20: (
        "test_watching::test_too_old_is_an_event_20",
        "test_api::TestReading::test_an_old_page_offers_to_go_on_inconsistently_20",
        "replay:watch_too_old",
    ),
    21: ("test_watching::test_a_restart_ends_streams_and_expires_versions_21", "replay:list_pods"),
    22: (
        "test_api::TestReading::test_versions_22",
        "test_watching::test_a_version_to_come_is_silence_22",
        "test_watching::test_garbage_is_an_error_of_the_server_22",
        "replay:list_nodes",
        "replay:watch_pods",
    ),
    23: (
        "test_watching::test_a_selection_is_entered_and_left_23",
        "test_watching::TestInitialEvents::test_their_end_is_marked_23",
        "replay:watch_list",
    ),
    24: ("test_api::TestAccess::test_a_starting_server_24", "replay:watch_too_old"),
    # Rollouts
    25: ("test_api::TestValidation::test_deployments_25", "replay:deployment_invalid"),
    26: (
        "test_rollout::test_what_a_deployment_says_from_creation_to_completion",
        "test_rollout::test_the_old_condition_is_still_shown_right_after_a_restart",
        "replay:deployment_restart",
    ),
    27: (
        "test_rollout::test_a_rollout_without_room_misses_its_deadline_and_recovers_when_there_is_room",
        "replay:deployment_stuck",
    ),
    28: ("test_admission::test_a_quota_refuses_what_is_too_much_28", "replay:deployment_bad_pods"),
    29: (
        "test_rollout::test_a_paused_deployment_scales_but_does_not_roll",
        "test_rollout::test_rolling_back_reuses_the_old_replica_set_with_a_new_number",
        "replay:deployment_paused",
        "replay:deployment_rollback",
        "replay:deployment_kubectl",
    ),
    30: (
        "test_followers::test_a_switched_selector_changes_all_endpoints_in_one_event",
        "test_followers::test_a_pod_that_stops_is_first_not_ready_then_not_serving_then_gone",
        "replay:service_switch",
    ),
    31: (
        "test_workloads::test_a_stateful_update_goes_from_the_highest_ordinal_down_to_the_partition",
        "test_workloads::test_a_job_that_keeps_failing_gives_up",
        "replay:statefulset",
        "replay:job_eviction",
    ),
    32: (
        "test_workloads::test_daemons_run_on_every_node_cordoned_ones_too_and_come_back_there",
        "replay:drain_kinds",
    ),
    # Node loss
    33: ("test_kubelet::test_the_kubelet_of_a_silent_node_does_nothing_until_it_is_back", "replay:node_notready"),
    34: ("replay:node_notready",),
    # Auth and events
    35: (
        "test_api::TestAccess::test_unknown_tokens_and_none_35",
        "test_auth::TestTokens::test_a_deleted_accounts_token_lives_on_for_ten_seconds_35",
        "test_auth::TestImpersonation::test_each_name_and_group_needs_a_right_35",
        "test_auth::TestRoles::test_view_reads_no_nodes_and_no_secrets_35",
        "replay:rbac",
    ),
    36: ("replay:events", "test_scheduler::test_a_pod_is_bound_with_its_condition_its_zone_and_its_event"),
}
# What a line says beyond the tests named above, and why nothing holds the rehearsal to it.
NOT_COVERED: dict[int, str] = {
    11: "that kubectl filters mirror pods is kubectl's doing, not the server's",
    21: "there is no etcd to compact: a continue token lives as long as the window of changes reaches back",
    24: "how long a start takes is the scenario's choice; its phases are what is tested",
}
LINES = range(1, 37)


def named_in(module: str) -> set[str]:
    """NAME and CLASS::NAME of every test in a module of this package."""
    found = set()
    for node in ast.parse((HERE / f"{module}.py").read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}::{n.name}" for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
            }
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
    return found


@pytest.mark.parametrize("line", LINES)
def test_every_line_has_its_tests_or_a_reason(line: int) -> None:
    assert COVERED.get(line) or len(NOT_COVERED.get(line, "")) > 20


@pytest.mark.parametrize("name", sorted({n for names in COVERED.values() for n in names}))
def test_what_is_named_exists(name: str) -> None:
    kind, _, recording = name.partition("replay:")
    if not kind:
        assert recording in PLANS
        return
    module, _, test = name.partition("::")
    assert test in named_in(module)


def test_nothing_else_is_listed() -> None:
    assert set(COVERED) | set(NOT_COVERED) == set(LINES)
