"""Rollouts by hand, for the demo fleet: one that is held up as on the mock, and one of each other standing."""

import msgspec

from fleet.domain.attention import Concern, of_workload
from fleet.domain.picture import AttentionRow, PodRow, Snapshot
from fleet.domain.rollout_picture import HoldupRow, RolloutRow

HELD = "Deployment/ml/llm-chat"
WORDS = "0/24 nodes are available: 1 node(s) were unschedulable, 23 Insufficient nvidia.com/gpu. <b>"
OLD, NEW = "7d4b", "c91e"


def rollouts(now: float) -> dict[str, RolloutRow]:
    hole = HoldupRow(
        "no-hole", "bad", 3, "ml/llm-chat-c91e-f6cpw", now - 460, WORDS, (("gpus", 8), ("coming", 2), ("may_go", 0))
    )
    held = RolloutRow(
        "Deployment", verdict="rolling", step="updated", have=8, want=10, desired=10, available=8, surge=3,
        unavailable=2, max_pods=13, min_available=8, revision="42", was="41", template=NEW, old=5, new=8, terminating=1,
        old_gpus=5, new_gpus=40, terminating_gpus=1, gpus_per_pod=8, gpus_per_old_pod=1,
        answering=5, old_stages=(("ready", 5), ("stopping", 1)),
        new_stages=(("placing", 3), ("pulling", 1), ("warming-up", 1), ("ready", 3)), started_at=now - 590, deadline_at=now + 310,
        ready_after_s=190.0, seen=3, holdups=(hole,),
    )  # fmt: skip
    done = RolloutRow("Deployment", have=3, want=3, desired=3, available=3, surge=1, unavailable=0, max_pods=4, min_available=3,
                      revision="7", template="a", new=3, new_gpus=12, gpus_per_pod=4, new_stages=(("ready", 3),))  # fmt: skip
    row = msgspec.structs.replace
    crash = HoldupRow("probe", "warn", 1, "ml/asr-batch-1", now - 95, "Readiness probe failed", (("times", 7),))
    return {
        HELD: held,
        "Deployment/ml/embed-api": row(
            done, verdict="rolling", step="available", have=2, new_stages=(("starting", 1), ("ready", 2)), old=1, was="6",
            old_stages=(("ready", 1),), old_gpus=4, started_at=now - 120, eta_at=now + 61, ready_after_s=48.0, seen=2,
        ),
        "Deployment/ml/asr-batch": row(done, verdict="rolling", step="ready", new_stages=(("warming-up", 3),), holdups=(crash,)),
        "Deployment/ml/graph-rank": row(done, verdict="failed", step="updated", have=1, was="6", revision="7"),
        "Deployment/ml/rl-policy-2": row(
            done, verdict="paused", paused=True, holdups=(HoldupRow("paused", "note", since_at=now - 9_000),)
        ),
        "Deployment/ml/ocr-api": row(done, remarks=("terminating", "answering"), terminating=2, terminating_gpus=8, answering=2,
                                     old_stages=(("stopping", 2),)),
        "Deployment/web/gateway": row(done, verdict="not-observed", holdups=(HoldupRow("not-observed", "note"),)),
        "Deployment/ml/notebooks": done,
        "StatefulSet/ml/rl-policy": RolloutRow("StatefulSet", strategy="OnDelete", verdict="manual", step="updated", have=1,
                                               want=4, desired=4, old=3, new=1,
                                               old_stages=(("ready", 3),), new_stages=(("ready", 1),)),
        "DaemonSet/kube-system/dcgm-exporter": RolloutRow("DaemonSet", desired=24, available=24, surge=0, unavailable=1,
                                                          max_pods=24, min_available=23, template="x", new=24,
                                                          new_stages=(("ready", 24),)),
    }  # fmt: skip


def pods(now: float) -> dict[str, PodRow]:
    """Those of the one that is held up."""
    found = [_pod(f"{OLD}-{i}", now - 5e5, stage="ready", node=f"node-{13 + i}", gpus=1) for i in range(5)]
    found.append(
        _pod(f"{OLD}-9", now - 5e5, stage="stopping", node="node-17", gpus=1, terminating_at=now + 20, grace_s=60)
    )
    found += [_pod(f"{NEW}-{i}", now - 590 + 60 * i, stage="ready", node="node-13", gpus=8) for i in range(3)]
    found.append(_pod(f"{NEW}-hv4rg", now - 300, stage="warming-up", node="node-17", gpus=8))
    found.append(_pod(f"{NEW}-xs8lj", now - 120, stage="pulling", node="node-13", gpus=8))
    found += [
        _pod(f"{NEW}-{name}", now - 460, stage="placing", gpus=8, waiting_reason="Unschedulable", waiting_message=WORDS)
        for name in ("f6cpw", "m3gkd", "t8zvn")
    ]
    return {f"ml/{pod.name}": pod for pod in found}


def _pod(suffix: str, made_at: float, *, stage: str, gpus: int, node: str = "", **more: object) -> PodRow:
    ready_at = made_at + 190 if stage == "ready" else None
    return PodRow(
        suffix, "ml", f"llm-chat-{suffix}", node=node, status=stage, gpus=gpus, resources=(("nvidia.com/gpu", gpus),),
        workload=HELD, owner_kind="Deployment", owner_name="llm-chat", template=suffix[:4], stage=stage,
        created_at=made_at, ready_at=ready_at,
        bound_at=made_at + 1 if node else None, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def concern(now: float) -> AttentionRow:
    """The one that is held up, as what needs a person."""
    serving = (("desired", 10), ("available", 8), ("deadline", now + 310))
    hole = (("remedy", "uncordon"), ("place", "node-16"), ("gpus", 8), ("product", "A100"), ("hole", 1))
    facts = (("causes", "no-hole"), ("late", 0), ("old", 5), *serving, ("count", 3), *hole)
    return of_workload(Concern.ROLLOUT_HELD, HELD, now - 460, facts)


def shown(found: Snapshot, now: float) -> Snapshot:
    """The demo fleet with these rollouts, and with the pods of the one that is held up."""
    told = concern(now)
    attention = {**found.attention, f"{told.kind}:{told.subject}": told}
    others = {key: pod for key, pod in found.pods.items() if pod.workload != HELD}
    return msgspec.structs.replace(found, rollouts=rollouts(now), pods={**others, **pods(now)}, attention=attention)
