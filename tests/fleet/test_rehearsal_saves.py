"""What the default rehearsal offers to those who look for checkpoints: each way of saying where they are, each kind of place, and
the policy of `manage.py up`, which grants one of two claims."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.launcher import REHEARSAL_POLICIES
from fleet import act
from fleet.act import Actor
from fleet.adapters.checkpoints_files import FileStore
from fleet.adapters.cluster_changes import KubernetesChanges
from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.domain.checkpoints import Format
from fleet.domain.freshness import Freshness, Standing
from fleet.domain.picture import Snapshot
from fleet.domain.policies import Policy, policy
from fleet.domain.save_sites import Durability, Volumes
from fleet.domain.training import Signal, Source, Training, training
from fleet.simulation.catalogue import WORKLOADS
from fleet.simulation.clock import ManualClock
from fleet.simulation.eviction import Evictions
from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from fleet.stores import Stores
from tests.fleet import pictures
from tests.fleet.shelves import OneStore

CLAIMS = "pvc://training"
STEP_S, SAVE_S = 3.0, 0.01


@pytest.fixture(scope="module")
def seen() -> Iterator[dict[str, tuple[Training, Freshness]]]:
    """By workload: what it declares, and what is found of it."""
    with serving(Rehearsal(pace=0)) as served:
        home = served.kubeconfig.parent
        granted = policy(REHEARSAL_POLICIES.format(claims=f'"{home}/claims/training/checkpoints"')).store
        connection = KubernetesCluster("rehearsal", str(served.kubeconfig))
        changer = KubernetesChanges(connection.server)
        volumes = Volumes(
            {f"{c.metadata.namespace}/{c.metadata.name}": c for c in changer.read_claims()},
            {s.metadata.name: s for s in changer.read_storage()},
        )
        stores, found = Stores(granted, lambda grant: FileStore(home / grant.path)), {}
        for pod in changer.read_pods():
            if pod.metadata.namespace == "training" and pod.metadata.name.endswith("-0"):
                name = pod.metadata.name.removesuffix("-0")
                declared = training(pod, f"StatefulSet/training/{name}", {}, volumes)
                found[name] = (declared, stores.look(declared, time.time(), fresh=True))
        connection.close()
        yield found


OFFERED = {
    "llama-sft-70b": (Source.ANNOTATION, Durability.DURABLE, f"{CLAIMS}/checkpoints/llama-sft-70b", Standing.FRESH),
    "moe-8x7b-pretrain": (Source.ANNOTATION, Durability.DURABLE, f"{CLAIMS}/checkpoints/moe-8x7b-pretrain", Standing.FRESH),
    "protein-fold-ft": (Source.ENVIRONMENT, Durability.DURABLE, f"{CLAIMS}/checkpoints/protein-fold-ft", None),
    "diffusion-xl-ft": (
        Source.ANNOTATION, Durability.DURABLE, f"{CLAIMS}/imaging-checkpoints/diffusion-xl-ft", Standing.NOT_GRANTED,
    ),
    "vision-pretrain-3b": (Source.ARGUMENT, Durability.POD, "pod://scratch/vision-pretrain-3b", Standing.UNKNOWN),
    "speech-enc-1b": (
        Source.ARGUMENT, Durability.NODE, "host:///mnt/nvme0/checkpoints/speech-enc-1b", Standing.UNKNOWN,
    ),
    "graph-rank": (Source.NONE, Durability.UNKNOWN, "", Standing.UNKNOWN),
    "rl-policy": (Source.ANNOTATION, Durability.OBJECT, "s3://par-training/rl-policy", Standing.NOT_GRANTED),
    "vlm-sft-13b": (Source.ARGUMENT, Durability.DURABLE, f"{CLAIMS}/checkpoints/vlm-sft-13b", None),
}  # fmt: skip


@pytest.mark.parametrize("name", OFFERED)
def test_every_way_to_say_and_every_kind_of_place(seen: dict[str, tuple[Training, Freshness]], name: str) -> None:
    declared, found = seen[name]
    source, durability, uri, standing = OFFERED[name]
    assert (declared.source, declared.durability, declared.uri) == (source, durability, uri)
    assert declared.unread == ()
    assert standing in {None, found.standing}


def test_what_can_be_read_is_whole_and_resumable(seen: dict[str, tuple[Training, Freshness]]) -> None:
    formats = {
        "llama-sft-70b": Format.TRAINER,
        "moe-8x7b-pretrain": Format.MEGATRON,
        "protein-fold-ft": Format.TORCHTITAN,
    }
    for name, expected in formats.items():
        newest = seen[name][1].newest
        assert newest is not None
        assert (newest.format, newest.components.resumable) == (expected, True)
        assert seen[name][1].conflict is None


def test_one_may_be_asked_over_http_and_one_by_a_signal(seen: dict[str, tuple[Training, Freshness]]) -> None:
    http, signal = (seen[name][0].hook for name in ("llama-sft-70b", "moe-8x7b-pretrain"))
    assert http is not None
    assert signal is not None
    assert (http.port, http.path) == (29500, "/checkpoint")
    assert (signal.signal, signal.container) == (Signal.USR1, "main")
    assert policy(REHEARSAL_POLICIES.format(claims='"/c"')).checkpoints.exec == ("training",)


class Looking(OneStore):
    """A site on a rehearsal whose time stands still while a plan is made."""

    name, actions = "rehearsal", True

    def __init__(self, served: Serving, changer: KubernetesChanges) -> None:
        claims = served.kubeconfig.parent / "claims" / "training" / "checkpoints"
        self.reports = {}
        granted = policy(REHEARSAL_POLICIES.format(claims=f'"{claims}"')).store
        self.stores = Stores(granted, lambda grant: FileStore(Path(grant.path)), self)
        self.changer, self.policy = changer, Policy()
        self.now = served.rehearsal.clock.now

    def snapshot(self) -> Snapshot:
        return pictures.read([node.metadata.name for node in self.changer.read_nodes()], self.now())


@pytest.mark.django_db(transaction=True)
@pytest.mark.db
def test_the_loss_shown_before_a_drain_is_what_is_lost_by_it() -> None:
    clock = ManualClock()
    (llama,) = [w for w in WORKLOADS if w.name == "llama-sft-70b"]
    quick = replace(llama, annotations={"sim/save-seconds": f"{SAVE_S}"})
    with serving(Rehearsal(clock=clock, nodes=6, pace=0, workloads=(quick,))) as served:
        served.server.app.evictions = Evictions(served.rehearsal.store)
        connection = KubernetesCluster("rehearsal", str(served.kubeconfig))
        site = Looking(served, KubernetesChanges(connection.server))
        served.run(clock.advance(140.0))

        def told(name: str) -> float:
            page = site.changer.get_from_pod("training", "llama-sft-70b-0", 29500, "/metrics").decode()
            return float(re.search(rf"^training_{name}{{.*}} (\S+)$", page, re.MULTILINE)[1])  # type: ignore[index]

        # A step has just ended: one that is half done is lost as well, and the plan rounds up.
        served.run(clock.advance((told("checkpoint_timestamp_seconds") - SAVE_S - clock.now()) % STEP_S))
        action = act.propose(site, "drain", "node-02", "because", Actor("olga", "operator"), site.now)
        (shown,) = [pod for pod in act.plan_of(action).loss.pods if pod.training]
        assert (shown.name, shown.saved_step) == ("llama-sft-70b-1", told("checkpoint_step"))
        assert shown.steps == told("step") - told("checkpoint_step") > 0
        site.changer.evict("training", shown.name, shown.uid, dry_run=False)
        served.run(clock.advance(120.0))
        assert (told("running"), told("lost_steps"), told("resumed_step")) == (1, shown.steps, shown.saved_step)
        connection.close()
