"""Each guard alone: a drain that nothing but it stands against, so that without it the drain would go on and something be
lost."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fleet.domain import actions, guards
from fleet.domain.actions import ACTIONS
from fleet.domain.draining import Answer, Meaning
from fleet.domain.facts import Actor, Facts, Machine, Owner, Permission, Running, Saved
from fleet.domain.guards import PODS, SITE, Waiver
from fleet.domain.losses import Draft
from fleet.domain.plans import Check, Outcome
from fleet.domain.policies import policy
from fleet.domain.specs import Claim, Storage
from tests.domain import cluster
from tests.domain.drains import (
    NODE,
    NOW,
    TRAINER,
    budget,
    node,
    pod,
    safe,
    service,
    with_pod,
    without,
)

SCRATCH = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
WEB = Owner("Deployment/lab/web", "Deployment", "web", replicas=2, ready=2)
SOLO = Owner("Deployment/lab/solo", "Deployment", "solo", replicas=1, ready=1)
MOUNT = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
CLAIM = {"lab/data": msgspec.convert({"metadata": cluster.meta("data", "lab"), "spec": {"volumeName": "pv"}}, Claim)}
ELSEWHERE = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]}]
}
DISK = {"pv": msgspec.convert({"metadata": {"name": "pv"}, "spec": {"nodeAffinity": {"required": ELSEWHERE}}}, Storage)}


def checks(facts: Facts) -> tuple[Check, ...]:
    return guards.run(ACTIONS[facts.kind].guards, Draft(facts))


def blocking(facts: Facts) -> set[str]:
    return {check.guard for check in checks(facts) if check.outcome is Outcome.BLOCK}


RACK = "topology.kubernetes.io/rack"
NO_GPUS = dict.fromkeys((*cluster.LABELS, "nvidia.com/gpu.product"), "")


def other(zone: str = "z", rack: str = "r", pool: str = "p", target: str = "node-9") -> Running:
    return Running("a", "drain", target, pool, zone, rack)


def test_a_safe_drain_is_not_blocked_and_every_guard_has_looked() -> None:
    found = checks(safe())
    assert blocking(safe()) == set()
    assert {check.guard for check in found} == {*SITE, *PODS}


ALONE = [
    pytest.param("role", safe(actor=Actor("vera", "viewer")), id="a viewer"),
    pytest.param("cluster-open", safe(actions_allowed=False), id="a read-only cluster"),
    pytest.param("target-known", safe(target="node-77", pods=()), id="no such node"),
    pytest.param("fresh", safe(read_at=NOW - 31), id="old facts"),
    pytest.param(
        "permissions",
        safe(permissions=(Permission("create", "pods/eviction", "lab", False),)),
        id="no right to evict in one namespace",
    ),
    pytest.param("alone", safe(running=(other(target=NODE),)), id="another action on the node"),
    pytest.param(
        "window", safe(policy=policy("[[window]]\nfrom = 02:00:00\nto = 03:00:00\n")), id="outside the window"
    ),
    pytest.param(
        "window",
        safe(policy=policy("[[freeze]]\nfrom = 2026-01-01T00:00:00Z\nto = 2027-01-01T00:00:00Z\n")),
        id="in a freeze",
    ),
    pytest.param(
        "control-plane",
        safe(nodes=(node(labels={"node-role.kubernetes.io/control-plane": ""}), *safe().nodes[1:])),
        id="a node of the control plane",
    ),
    pytest.param("failure-domain", safe(running=(other(rack=f"rack-{NODE}"),)), id="the same rack"),
    pytest.param(
        "failure-domain",
        safe(running=(other(zone="eu-west-1a"), other(zone="eu-west-1a", rack="s", target="n"))),
        id="zone",
    ),
    pytest.param(
        "failure-domain",
        safe(nodes=(node(labels={RACK: ""}), *safe().nodes[1:]), running=(other(rack="", pool="train"),)),
        id="the rack of neither is known",
    ),
    pytest.param(
        "breaker",
        safe(nodes=(*safe().nodes, node("node-5", ready="False")), policy=policy("[limits]\nunusable_share = 0.3\n")),
        id="too many nodes out already",
    ),
    pytest.param(
        "capacity-floor", safe(policy=policy("[pools.train]\nfloor_gpus = 25\n")), id="too few GPUs left in the pool"
    ),
    pytest.param("node-answers", safe(nodes=(node(ready="Unknown"), *safe().nodes[1:])), id="a silent kubelet"),
    pytest.param("telemetry", safe(machine=Machine(True, NOW - 61)), id="no reading for a minute"),
    pytest.param("telemetry", safe(machine=Machine()), id="no picture, or nobody measures its GPUs"),
    pytest.param("checkpoint", safe(saved={}), id="nobody knows the last checkpoint"),
    pytest.param(
        "checkpoint", safe(saved={"trainer-0": Saved(NOW - 60, durable=False)}), id="the checkpoint dies with the pod"
    ),
    pytest.param("checkpoint", safe(saved={"trainer-0": Saved(NOW - 60)}), id="nobody knows whether it does"),
    pytest.param("scratch", with_pod(pod("web-1", gpus=0, spec=SCRATCH), WEB), id="an emptyDir"),
    pytest.param("unmanaged", with_pod(pod("bare-1", gpus=0, owner="")), id="nobody brings it back"),
    pytest.param(
        "unmanaged", with_pod(pod("gone-1", gpus=0, owner="DaemonSet")), id="its DaemonSet does not exist any more"
    ),
    pytest.param(
        "undisturbed",
        with_pod(pod("web-1", gpus=0, annotations={"karpenter.sh/do-not-disrupt": "true"}), WEB),
        id="it asks not to be disrupted",
    ),
    pytest.param("budgets-known", safe(budgets=None), id="budgets may not be read"),
    pytest.param("one-budget", safe(budgets=(budget("a"), budget("b"))), id="two budgets on one pod"),
    pytest.param("budgets", safe(budgets=(budget(allowed=0, minAvailable=3),)), id="a budget that never lets one go"),
    pytest.param(
        "budgets",
        with_pod(
            pod("canary-1", gpus=0, owner="Rollout"),
            Owner("Rollout/lab/canary", "Rollout", "canary"),
            budgets=(budget(), budget("canary", "canary", allowed=0, maxUnavailable=1)),
        ),
        id="nobody tells how many an unknown controller wants",
    ),
    pytest.param(
        "placement", safe(nodes=(node(), node("node-2", gpus=3), node("node-3", gpus=3))), id="no hole of four"
    ),
    pytest.param(
        "volumes", with_pod(pod("web-1", gpus=0, spec=MOUNT), WEB, claims=CLAIM, storage=DISK), id="a disk of this node"
    ),
    pytest.param(
        "volumes",
        replace(
            with_pod(pod("web-1", gpus=0, spec=MOUNT), WEB, claims=CLAIM, storage=DISK),
            nodes=(*safe().nodes, node("node-5", cordoned=True)),
            policy=policy("[limits]\nunusable_share = 0.9\n"),
        ),
        id="a disk of this node, and another node is cordoned",
    ),
    pytest.param(
        "service",
        with_pod(
            pod("solo-1", gpus=0), SOLO, services=(service(), service("solo")), in_flight={"chat-1": 0, "solo-1": 0}
        ),
        id="the only pod of a service",
    ),
    pytest.param("daemons-known", with_pod(pod("d-1", gpus=0, owner="DaemonSet"), daemon_sets=None), id="daemons"),
    pytest.param("server", safe(dry_runs={"chat-1": Answer(Meaning.REJECTED)}), id="the server refuses for good"),
]


@pytest.mark.parametrize(("guard", "facts"), ALONE)
def test_only_this_guard_stands_against_it(guard: str, facts: Facts) -> None:
    assert blocking(facts) == {guard}
    for check in checks(facts):
        if check.outcome is Outcome.BLOCK:
            assert check.remedy, "a refusal says how to make it safe"
            assert check.reason


def test_every_guard_that_can_block_has_its_case() -> None:
    warns_only = {"requests", "gang", "cordon-owner"}
    assert {param.values[0] for param in ALONE} == {*SITE, *PODS} - warns_only


def reasons(facts: Facts, guard: str) -> list[tuple[Outcome, str]]:
    return [(check.outcome, check.reason) for check in checks(facts) if check.guard == guard]


@pytest.mark.parametrize(
    ("guard", "facts", "reason"),
    [
        ("cordon-owner", safe(nodes=(node(cordoned=True), *safe().nodes[1:])), "stays-cordoned"),
        ("checkpoint", safe(), "age"),
        ("requests", safe(in_flight={}), "unknown"),
        ("requests", safe(in_flight={"chat-1": 7}), "in-flight"),
        ("service", safe(), "fewer"),
        (
            "gang",
            safe(
                pods=(
                    *without("trainer-0"),
                    pod("trainer-0", gpus=4, owner="StatefulSet"),
                    pod("trainer-1", "node-4", 4),
                ),
                owners={**safe().owners, "trainer-1": TRAINER},
            ),
            "stops-others",
        ),
        (
            "scratch",
            with_pod(pod("web-1", gpus=0, spec=SCRATCH, annotations={"vigie.dev/scratch": "scratch"}), WEB),
            "declared",
        ),
        (
            "budgets",
            safe(budgets=(budget(allowed=0),)),
            "waits",
        ),
    ],
)
def test_what_is_told_but_does_not_block(guard: str, facts: Facts, reason: str) -> None:
    assert blocking(facts) == set()
    assert (Outcome.WARN, reason) in reasons(facts, guard)


def test_a_node_without_gpus_needs_no_readings() -> None:
    facts = safe(nodes=(node(gpus={}, labels=NO_GPUS), *safe().nodes[1:]), pods=(), machine=Machine())
    assert "telemetry" not in blocking(facts)


def test_nodes_without_labels_are_one_domain_of_their_pool() -> None:
    here = node(labels={RACK: "", "topology.kubernetes.io/zone": ""})
    limits = policy("[limits]\nnodes = 9\nnodes_per_pool = 9\nnodes_per_rack = 3\n")

    def crowded(*running: Running) -> set[str]:
        facts = safe(nodes=(here, *safe().nodes[1:]), running=running, policy=limits)
        return {check.reason for check in checks(facts) if check.guard == "failure-domain"} - {""}

    two = [other(zone="", rack="", pool="train", target=name) for name in ("a", "b")]
    assert crowded(*two) == {"zone-unknown"}
    assert crowded(*two, other(zone="", rack="", pool="train", target="c")) == {"zone-unknown", "rack-unknown"}
    assert crowded(two[0], other(zone="", rack="", pool="infer")) == set()


def test_a_foreign_cordon_is_respected_by_an_uncordon() -> None:
    foreign = safe(kind="uncordon", nodes=(node(cordoned=True), *safe().nodes[1:]))
    assert blocking(foreign) == {"cordon-owner"}
    assert blocking(msgspec.structs.replace(foreign, cordoned_by="M-12")) == set()


def test_a_server_whose_number_is_lower_than_ours_is_believed() -> None:
    assert reasons(safe(budgets=(budget(allowed=0),)), "budgets") == [(Outcome.WARN, "waits")]


# --- Waivers -------------------------------------------------------------------------------------------------------------------
BLOCKED = safe(saved={})
KEY = "checkpoint:lab/trainer-0"


@pytest.mark.parametrize(
    ("waivers", "stands"),
    [
        ([], True),
        ([Waiver(KEY, "its owner says so", "ada", "approver")], False),
        ([Waiver(KEY, "   ", "ada", "approver")], True),
        ([Waiver(KEY, "I want to", "olga", "operator")], True),
        ([Waiver("checkpoint:lab/other-0", "its owner says so", "ada", "approver")], True),
        ([Waiver("checkpoint:", "all of them", "ada", "approver")], True),
    ],
)
def test_a_waiver_lifts_exactly_its_check(waivers: list[Waiver], stands: bool) -> None:
    assert bool(guards.standing(checks(BLOCKED), waivers)) is stands


def test_what_nobody_may_lift_stands() -> None:
    facts = safe(budgets=(budget("a"), budget("b")))
    waivers = [Waiver(check.key, "because", "ada", "approver") for check in checks(facts)]
    assert {check.guard for check in guards.standing(checks(facts), waivers)} == {"one-budget"}


# --- Plans ---------------------------------------------------------------------------------------------------------------------
def test_a_plan_shows_what_would_be_lost_and_goes_from_least_to_most() -> None:
    found = actions.plan(safe(), "row remap")
    assert found.pods == ("chat-1", "trainer-0")
    trainer = next(one for one in found.loss.pods if one.name == "trainer-0")
    assert trainer.work_s == 60
    assert found.loss.gpu_hours == pytest.approx(60 * 4 / 3600)
    assert trainer.comes_back_on == "node-2"
    assert [step.kind for step in found.steps] == ["cordon", "drain", "release", "prove"]
    assert found.kubectl == (f"kubectl cordon {NODE}", f"kubectl drain {NODE} --ignore-daemonsets --timeout=60m")


def test_unknown_work_makes_the_whole_loss_unknown_never_nothing() -> None:
    found = actions.plan(safe(saved={}), "")
    assert found.loss.work_s is None
    assert found.loss.gpu_hours is None


def test_nothing_to_lose_is_not_applicable_which_is_not_zero() -> None:
    found = actions.plan(safe(pods=without("trainer-0")), "")
    assert found.loss.work_s == "n/a"


def test_maintenance_is_the_whole_path() -> None:
    found = actions.plan(safe(kind="maintain"), "")
    steps = [step.kind.value for step in found.steps]
    assert steps == ["cordon", "drain", "release", "reboot", "verify", "uncordon", "prove"]
    assert dict(found.steps[3].facts) == {"boot_id": f"boot-{NODE}", "command": None}
    said = actions.plan(safe(kind="maintain", policy=policy('[reboot]\ncommand = "bmc cycle {node}"\n')), "")
    assert dict(said.steps[3].facts)["command"] == f"bmc cycle {NODE}"
    assert f"bmc cycle {NODE}" in said.kubectl


def digest(**more: Any) -> str:
    return actions.plan(safe(**more), "").digest


def test_the_digest_is_of_the_decision() -> None:
    before = digest()
    assert digest(now=NOW + 10, read_at=NOW + 9) == before, "an age is no decision"
    changed = [
        digest(pods=without("trainer-0")),
        digest(saved={}),
        digest(kind="maintain"),
        digest(budgets=(budget(allowed=0),)),
        digest(nodes=(msgspec.structs.replace(node(), metadata=msgspec.structs.replace(node().metadata, uid="new")),)),
    ]
    assert before not in changed
    assert len(set(changed)) == len(changed)


def test_pods_of_nodes_that_are_being_emptied_are_no_place_to_go() -> None:
    facts = safe(running=(other(target="node-4"),), policy=policy("[limits]\nnodes_per_zone = 9\n"))
    assert Draft(facts).placed["trainer-0"] in {"node-2", "node-3"}


def test_what_passes_needs_no_words() -> None:
    for check in checks(safe()):
        assert check.outcome is not Outcome.PASS or not (check.remedy or check.reason)
