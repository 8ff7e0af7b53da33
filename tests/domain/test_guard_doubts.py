"""Guards in doubt: what nobody could read, what is written strangely, and what other people do at the same time."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fleet.domain import actions
from fleet.domain.draining import Answer, Meaning, Reply, classify
from fleet.domain.draining import Cause as ReplyCause
from fleet.domain.facts import Owner, Running, Saved
from fleet.domain.plans import Outcome
from fleet.domain.policies import policy
from fleet.domain.specs import Claim, FullPod
from tests.domain import cluster
from tests.domain.drains import CHAT, NOW, TRAINER, budget, node, pod, safe, service, with_pod, without
from tests.domain.test_guards import CLAIM, MOUNT, WEB, blocking, reasons

JOB = Owner("Job/lab/tune", "Job", "tune", ready=1)
BATCH = {"restartPolicy": "Never"}


def tuner(**more: Any) -> FullPod:
    spec = {**BATCH, **more.pop("spec", {})}
    return pod("tune-0", gpus=2, owner="Job", spec=spec, **more)


# --- Who trains
@pytest.mark.parametrize("word", ["Training", " training ", "trainer", "batch", "yes"])
def test_a_role_in_other_words_is_no_way_round_the_checkpoint(word: str) -> None:
    facts = with_pod(pod("exp-1", gpus=2, annotations={"vigie.dev/role": word}), WEB)
    assert ("checkpoint:lab/exp-1") in {check.key for check in actions.plan(facts, "").blocks}


def test_a_service_before_a_batch_job_does_not_make_it_a_server() -> None:
    """Metrics are scraped through one, and a notebook's board is shown by one."""
    facts = with_pod(tuner(), JOB, services=(service(), service("tune")))
    assert "checkpoint" in blocking(facts)


def test_the_launcher_of_a_gang_trains_without_a_gpu() -> None:
    label = {"app": "launcher", "jobset.sigs.k8s.io/jobset-name": "big"}
    worker = pod("worker-0", "node-2", 8, owner="Job", labels={**label, "app": "worker"})
    launcher = pod("launcher-0", gpus=0, owner="Job", labels=label)
    facts = with_pod(launcher, JOB, pods=(*safe().pods, worker, launcher))
    assert "checkpoint" in blocking(facts)
    assert (Outcome.WARN, "stops-others") in reasons(facts, "gang")


def test_a_cpu_pod_of_no_gang_is_nobody_s_training() -> None:
    assert "checkpoint" not in blocking(with_pod(pod("web-1", gpus=0), WEB))


# --- What is unknown
def test_services_that_may_not_be_read_are_not_absent() -> None:
    assert "service" in blocking(with_pod(pod("web-1", gpus=0), WEB, services=None))


@pytest.mark.parametrize(
    "known",
    [
        {"claims": None},
        {"claims": {}},
        {"claims": CLAIM, "storage": None},
        {"claims": CLAIM, "storage": {}},
    ],
)
def test_a_volume_that_nobody_knows_may_be_a_disk_of_this_node(known: dict[str, Any]) -> None:
    facts = with_pod(pod("web-1", gpus=0, spec=MOUNT), WEB, **known)
    assert blocking(facts) == {"volumes"}


def test_a_claim_that_is_bound_to_nothing_yet_is_known() -> None:
    unbound = {"lab/data": msgspec.convert({"metadata": cluster.meta("data", "lab")}, Claim)}
    assert blocking(with_pod(pod("web-1", gpus=0, spec=MOUNT), WEB, claims=unbound)) == set()


def test_a_checkpoint_from_the_future_has_no_age() -> None:
    facts = safe(saved={"trainer-0": Saved(NOW + 60, durable=True)})
    assert blocking(facts) == {"checkpoint"}
    assert actions.plan(facts, "").loss.work_s is None


def test_a_checkpoint_of_yesterday_is_no_checkpoint() -> None:
    assert blocking(safe(saved={"trainer-0": Saved(NOW - 86_400, durable=True)})) == {"checkpoint"}


def test_the_server_is_believed_about_two_budgets() -> None:
    assert blocking(safe(dry_runs={"chat-1": Answer(Meaning.TWO_BUDGETS)})) == {"server"}


# --- What dies with a pod
def test_an_ephemeral_claim_dies_with_its_pod() -> None:
    volume = {"volumes": [{"name": "shards", "ephemeral": {"volumeClaimTemplate": {}}}]}
    claim = {"lab/web-1-shards": msgspec.convert({"metadata": cluster.meta("web-1-shards", "lab")}, Claim)}
    facts = with_pod(pod("web-1", gpus=0, spec=volume), WEB, claims=claim)
    assert blocking(facts) == {"scratch"}


def test_a_job_that_may_not_fail_once_more_is_not_brought_back() -> None:
    last = Owner("Job/lab/tune", "Job", "tune", ready=1, retries=0)
    facts = with_pod(tuner(), last, saved={**safe().saved, "tune-0": Saved(NOW - 60, durable=True)})
    assert blocking(facts) == {"unmanaged"}


# --- Capacity
def test_a_budget_that_lets_all_go_keeps_no_service_up() -> None:
    pair = replace(CHAT, replicas=2, ready=2)
    pods = (pod("chat-1"), pod("chat-2"), *without("chat-1")[2:])
    facts = safe(
        pods=pods,
        owners={**safe().owners, "chat-1": pair, "chat-2": pair},
        budgets=(budget(maxUnavailable=2, allowed=2),),
        in_flight={"chat-1": 0, "chat-2": 0},
    )
    assert blocking(facts) == {"service"}
    assert blocking(replace(facts, budgets=(budget(minAvailable=1),))) == set()


def test_a_node_that_has_lost_all_its_gpus_is_out() -> None:
    lost = tuple(node(f"node-{n}", gpus=8, allocatable=0) for n in (5, 6))
    assert "breaker" in blocking(safe(nodes=(*safe().nodes, *lost)))


def test_nodes_that_are_about_to_be_cordoned_are_out() -> None:
    limits = "[limits]\nnodes = 9\nnodes_per_pool = 9\nnodes_per_zone = 9\nunusable_share = 0.5\n"
    others = tuple(Running("a", "drain", name, "p", "z", "r") for name in ("node-3", "node-4"))
    assert blocking(safe(policy=policy(limits), running=others)) == {"breaker"}
    floor = policy(limits.replace("0.5", "0.9") + "[pools.train]\nfloor_gpus = 16\n")
    assert blocking(safe(policy=floor, running=others)) == {"capacity-floor"}
    light = (replace(others[0], kind="uncordon"), replace(others[1], kind="cordon"))
    assert blocking(safe(policy=floor, running=light)) == set()


def test_slots_of_divided_gpus_are_not_so_many_gpus() -> None:
    divided = {"nvidia.com/mig-1g.10gb": "56"}
    nodes = (node(), node("node-2", divided), node("node-3"), node("node-4"))
    facts = safe(nodes=nodes, policy=policy("[pools.train]\nfloor_gpus = 25\n"))
    assert "capacity-floor" in blocking(facts)


def test_room_that_another_drain_s_pods_will_take_is_none() -> None:
    """One hole of four is left, and node-4 is being emptied of a pod that needs it."""
    other = pod("other-0", "node-4", 4)
    nodes = (node(), node("node-2", gpus=4), node("node-3", gpus=3), node("node-4"))
    pods = (*without("chat-1")[1:], pod("chat-3", "node-3"), other)
    pods = tuple(one for one in pods if one.metadata.name in {"trainer-0", "other-0"})
    facts = safe(
        nodes=nodes,
        pods=pods,
        owners={"trainer-0": TRAINER, "other-0": WEB},
        policy=policy("[limits]\nunusable_share = 0.9\n"),
    )
    assert blocking(facts) == set()
    assert blocking(replace(facts, running=(Running("a", "drain", "node-4", "p", "z", "r"),))) == {"placement"}


def test_room_that_a_waiting_pod_will_take_is_none() -> None:
    waiting = pod("next-0", "", 4, status={"conditions": []})
    nodes = (node(), node("node-2", gpus=4), node("node-3", gpus=3))
    one = tuple(one for one in safe().pods if one.metadata.name == "trainer-0")
    facts = safe(nodes=nodes, pods=one, owners={"trainer-0": TRAINER})
    assert blocking(facts) == set()
    assert blocking(replace(facts, pods=(*one, waiting))) == {"placement"}
    gated = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
    }
    assert blocking(replace(facts, pods=(*one, pod("next-0", "", 4, status=gated)))) == set()


def test_pods_that_stay_are_rebooted_all_the_same() -> None:
    """A DaemonSet's pod on GPUs is not drained, and does not outlive a reboot."""
    facts = with_pod(pod("daemon-1", gpus=1, owner="DaemonSet"), kind="maintain")
    assert "checkpoint" in blocking(facts)
    assert "checkpoint" not in blocking(replace(facts, kind="drain"))


def test_a_gang_is_counted_once() -> None:
    ranks = tuple(pod(f"rank-{n}", gpus=4, owner="StatefulSet") for n in range(2))
    saved = {f"rank-{n}": Saved(NOW - 3600, durable=True) for n in range(2)}
    facts = safe(pods=ranks, owners=dict.fromkeys(saved, TRAINER), saved=saved, budgets=())
    assert actions.plan(facts, "").loss.gpu_hours == pytest.approx(8.0)


# --- Replies
def test_a_number_that_no_budget_has_is_not_believed() -> None:
    text = f"The disruption budget web needs {'9' * 400} healthy pods and has 1 currently"
    assert classify(Reply(429, causes=(ReplyCause("DisruptionBudget", text),))).needs is None
