"""What people do with kubectl, against what a real cluster made kubectl print: same output, same exit status.

`tests/data/kubectl_stories.json` holds the terminal entries of the recordings. Generated names, hashes and times differ, and
are compared by their place; of lines that repeat while a rollout goes on, one is enough.
"""

import contextlib
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fleet.simulation.clock import RealClock, stamp
from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from tests.simulation.cluster import GPU, deployment, template
from tests.simulation.kubectl import Kubectl, marks

pytestmark = marks

Object = dict[str, Any]

DATA = Path(__file__).parents[1] / "data" / "kubectl_stories.json"
SPEED = 3.0
NODES = tuple(f"gpu-node-{number:02d}" for number in range(1, 9))
# What a status may begin with when kubectl is quicker or slower than the controller was.
FIRST_WORDS = re.compile(r"0 out of 4 new replicas|spec update to be observed")


@dataclass(frozen=True)
class Told:
    """One command as recorded."""

    command: str
    status: int
    stdout: list[str]
    stderr: list[str]


def story(recording: str) -> list[Told]:
    entries = json.loads(DATA.read_text())
    fields = ("command", "status", "stdout", "stderr")
    return [Told(**{f: e[f] for f in fields}) for e in entries if e["recording"] == recording]


def plain(line: str) -> str:
    """A line without what is generated, and without what differs between kubectl's own versions."""
    line = line.replace("cannot delete cannot delete", "cannot delete").replace("/TCP (http)", "/TCP")
    line = re.sub(r"\b([a-z][a-z-]*?)-[0-9a-z]{7,10}-[0-9a-z]{5}\b", r"\1-<pod>", line)
    line = re.sub(r"\bdcgm-exporter-[0-9a-z]{5}\b", "dcgm-exporter-<pod>", line)
    line = re.sub(r"pod-template-hash=[0-9a-z]+", "pod-template-hash=<hash>", line)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "<time>", line)


def steps(lines: list[str]) -> list[str]:
    """The steps that a status shows: without repetitions, and without what comes before the first new pod."""
    shown = [line for i, line in enumerate(lines) if i == 0 or line != lines[i - 1]]
    return [line for line in shown if not FIRST_WORDS.search(line)]


def parts(lines: list[str]) -> list[str]:
    """What drain says, in any order: kubectl itself has none."""
    return sorted(part for line in lines for part in re.split(r"Warning: |; |, (?=cannot )|[\[\]]", line))


def same(
    told: Told, done: "subprocess.CompletedProcess[str]", arrange: Callable[[list[str]], list[str]] = steps
) -> None:
    for wanted, found in ((told.stdout, done.stdout), (told.stderr, done.stderr)):
        lines = arrange([plain(line) for line in found.splitlines()])
        expected = arrange([plain(line) for line in wanted])
        if lines and lines[0].startswith("Waiting for deployment"):  # kubectl may have started late on a busy machine
            assert lines[-1] == expected[-1]
            expected = expected[-len(lines) :]
        assert lines == expected, told.command
    assert done.returncode == told.status, told.command


def node(name: str, gpus: int, beat: str) -> Object:
    """`beat`: when its kubelet last reported, or the cluster gives it up."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": beat}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"podCIDR": f"10.100.{int(name[-2:])}.0/24"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": f"10.1.0.{int(name[-2:])}"}],
            "conditions": [{**ready, "lastTransitionTime": ready["lastHeartbeatTime"]}],
        },
    }


class Town:
    """A cluster of eight nodes as the recordings had one; everything is put on it before it starts."""

    def __init__(self) -> None:
        self.rehearsal = Rehearsal(nodes=0, clock=RealClock(SPEED), pace=0, workloads=())
        self.store = self.rehearsal.store
        for daemons in self.store.list("daemonsets"):  # the rehearsal's own would be on these nodes too
            self.store.delete("daemonsets", daemons["metadata"]["namespace"], daemons["metadata"]["name"])
        for namespace in ("drain", "fleet", "rollout", "stuck", "sts", "switch"):
            self.create("namespaces", {"metadata": {"name": namespace}})
        for name in NODES:
            self.create("nodes", node(name, 8, stamp(self.store.clock.now())))

    def create(self, plural: str, obj: Object) -> Object:
        return self.store.create(plural, obj, manager="test")

    def deploy(
        self, namespace: str, name: str, replicas: int, on: str = "", pod_spec: Object | None = None, **more: Any
    ) -> None:
        pod = template(name, grace_s=3, warmup_seconds=2)
        if on:
            pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": on}
        pod["spec"] |= pod_spec or {}
        del pod["spec"]["containers"][0]["resources"]["requests"]  # as recorded: the limits stand for them
        made = deployment(name, replicas, pod, surge=0, unavailable=1, **more)
        made["metadata"]["namespace"] = namespace
        self.create("deployments", made)

    def bare(self, name: str, on: str, **spec: Any) -> None:
        pod = template(name, grace_s=2)
        metadata = {"name": name, "namespace": "drain", "labels": {"app": name}}
        self.create("pods", {"metadata": metadata, "spec": {**pod["spec"], "nodeName": on, **spec}})

    def mirror(self, on: str) -> None:
        name = f"nvidia-static-{on}"
        uid = self.store.get("nodes", None, on)["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": on, "uid": uid, "controller": True}
        notes = {"kubernetes.io/config.mirror": "6f1d2c", "kubernetes.io/config.source": "file"}
        metadata = {"name": name, "namespace": "drain", "annotations": notes, "ownerReferences": [owner]}
        self.create("pods", {"metadata": metadata, "spec": {**template(name, gpus=0)["spec"], "nodeName": on}})

    def daemons(self) -> None:
        pod = template("dcgm-exporter", gpus=0)
        spec = {"selector": {"matchLabels": {"app": "dcgm-exporter"}}, "template": pod}
        self.create("daemonsets", {"metadata": {"name": "dcgm-exporter", "namespace": "drain"}, "spec": spec})


def built() -> Town:
    town = Town()
    town.daemons()
    town.mirror("gpu-node-03")
    town.bare("bare-gpu", "gpu-node-03")
    town.bare("cache-emptydir", "gpu-node-03", volumes=[{"name": "cache", "emptyDir": {}}])
    memory = [{"name": "cache", "emptyDir": {"medium": "Memory"}}]
    town.deploy("drain", "embed", 1, on="gpu-node-03", pod_spec={"volumes": memory})
    town.deploy("drain", "solo", 1, on="gpu-node-03")
    town.deploy("fleet", "chat-llm", 1, on="gpu-node-03")
    town.deploy("drain", "llm", 1, on="gpu-node-04")
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "llm"}}}
    town.create("poddisruptionbudgets", {"metadata": {"name": "llm", "namespace": "drain"}, "spec": budget})
    town.deploy("rollout", "chat", 4)
    town.deploy("stuck", "chat", 1, pod_spec={"nodeSelector": {"nobody": "has-it"}}, progressDeadlineSeconds=3)
    return town


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(built().rehearsal, tmp_path_factory.mktemp("cluster")) as served:
        yield served


@pytest.fixture(scope="module")
def kubectl(cluster: Serving, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    found = Kubectl(cluster.kubeconfig, tmp_path_factory.mktemp("home"))
    for namespace, name in (("drain", "embed"), ("drain", "solo"), ("fleet", "chat-llm"), ("drain", "llm")):
        found("wait", "-n", namespace, f"deployment/{name}", "--for=condition=Available", "--timeout=30s")
    found("wait", "-n", "rollout", "deployment/chat", "--for=jsonpath={.status.availableReplicas}=4", "--timeout=30s")
    return found


@pytest.fixture(scope="module", autouse=True)
def blocked(kubectl: Kubectl) -> Iterator["subprocess.Popen[str]"]:
    """The drain that a budget holds up, begun first: it takes its fifteen seconds while the other stories are told."""
    told, _ = story("drain_blocked")
    process = kubectl.begin(*told.command.split()[1:])
    yield process
    process.kill()
    with contextlib.suppress(ValueError):
        process.communicate()


def run(kubectl: Kubectl, told: Told) -> "subprocess.CompletedProcess[str]":
    return kubectl.run(*told.command.split()[1:])


def renamed(told: Told) -> Told:
    """The recorded cluster had two Deployments called llm in that namespace's history; ours is called solo."""
    return Told(
        told.command, told.status, [s.replace("llm-5b8446b95c", "solo-5b8446b95c") for s in told.stdout], told.stderr
    )


def test_a_drain_says_what_it_would_lose_and_then_does_it(kubectl: Kubectl) -> None:
    for told in story("drain_kinds"):
        if "--force" in told.command:
            dry_runs(kubectl)
        same(renamed(told), run(kubectl, told), parts)


def dry_runs(kubectl: Kubectl) -> None:
    """Neither kind of dry run changes anything; the client's does not even ask the server about budgets."""
    drain = ("drain", "gpu-node-03", "--ignore-daemonsets", "--delete-emptydir-data", "--force")
    before = kubectl("get", "pods", "-A", "-o", "name")
    done = kubectl.run(*drain, "--dry-run=client")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "node/gpu-node-03 cordoned (dry run)"
    assert lines[-1] == "node/gpu-node-03 drained (dry run)"
    assert sum(line.startswith("evicting pod ") and line.endswith(" (dry run)") for line in lines) == 5
    done = kubectl.run(*drain, "--dry-run=server")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "node/gpu-node-03 cordoned (server dry run)"
    assert sum(line.startswith("evicting pod ") and line.endswith(" (server dry run)") for line in lines) == 5
    assert kubectl("get", "pods", "-A", "-o", "name") == before
    assert kubectl("get", "node", "gpu-node-03", "-o", "jsonpath={.spec.unschedulable}") == ""


def test_cordoning_twice_and_back(kubectl: Kubectl) -> None:
    for told in story("cordon"):
        same(told, run(kubectl, told))


def test_releasing_and_going_back(kubectl: Kubectl) -> None:
    """The recorded Deployment had been restarted once before."""
    chat = ("-n", "rollout", "deployment/chat")
    kubectl("rollout", "restart", *chat)
    kubectl("rollout", "status", *chat, "--timeout=60s")
    for told in story("deployment_kubectl"):
        same(told, run(kubectl, told))


def test_a_rollout_past_its_deadline(kubectl: Kubectl) -> None:
    kubectl("wait", "-n", "stuck", "deployment/chat", "--for=condition=Progressing=false", "--timeout=30s")
    (told,) = story("deployment_stuck")
    same(told, run(kubectl, told))


def test_a_partitioned_rollout(cluster: Serving, kubectl: Kubectl) -> None:
    pod = template("shard", grace_s=2, warmup_seconds=0)
    spec = {"serviceName": "shard", "replicas": 4, "selector": {"matchLabels": {"app": "shard"}}, "template": pod}
    spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    made = {"metadata": {"name": "shard", "namespace": "sts"}, "spec": spec}
    cluster.call(lambda: cluster.rehearsal.store.create("statefulsets", made, manager="test"))
    shard = ("-n", "sts", "statefulset/shard")
    kubectl("wait", *shard, "--for=jsonpath={.status.readyReplicas}=4", "--timeout=30s")
    kubectl("set", "image", *shard, "server=sim.io/server:v2")
    kubectl("wait", *shard, "--for=jsonpath={.status.updatedReplicas}=2", "--timeout=30s")
    kubectl("wait", *shard, "--for=jsonpath={.status.readyReplicas}=4", "--timeout=30s")
    status, undo = story("statefulset")
    same(status, run(kubectl, status))
    same(undo, run(kubectl, undo))


def test_switching_a_service(cluster: Serving, kubectl: Kubectl) -> None:
    """Blue to green as people do it; the slice follows."""
    for colour in ("blue", "green"):
        pod = template(f"shop-{colour}", gpus=0, warmup_seconds=0)
        made = deployment(f"shop-{colour}", 2, pod)
        made["metadata"]["namespace"] = "switch"
        cluster.call(partial(cluster.rehearsal.store.create, "deployments", made, manager="test"))
    service = {
        "metadata": {"name": "shop", "namespace": "switch"},
        "spec": {"selector": {"app": "shop-blue"}, "ports": [{"port": 80, "targetPort": 8000}]},
    }
    cluster.call(lambda: cluster.rehearsal.store.create("services", service, manager="test"))
    for colour in ("blue", "green"):
        kubectl("wait", "-n", "switch", f"deployment/shop-{colour}", "--for=condition=Available", "--timeout=30s")
    patch = json.dumps({"spec": {"selector": {"app": "shop-green"}}})
    assert kubectl("patch", "service", "shop", "-n", "switch", "-p", patch) == "service/shop patched\n"
    assert kubectl("patch", "service", "shop", "-n", "switch", "-p", patch) == "service/shop patched (no change)\n"
    slices = ("endpointslices", "-n", "switch", "-l", "kubernetes.io/service-name=shop")
    kubectl("wait", *slices, "--for=jsonpath={.endpoints[0].conditions.ready}=true", "--timeout=10s")
    followed = threading.Event()
    for _ in range(100):
        names = kubectl("get", *slices, "-o", "jsonpath={.items[*].endpoints[*].targetRef.name}").split()
        if len(names) == 2 and all(name.startswith("shop-green-") for name in names):
            return
        followed.wait(0.05)
    raise AssertionError(names)


def test_a_drain_that_a_budget_holds_up(kubectl: Kubectl, blocked: "subprocess.Popen[str]") -> None:
    told, uncordon = story("drain_blocked")
    stdout, stderr = blocked.communicate(timeout=30)
    same(told, subprocess.CompletedProcess(blocked.args, blocked.returncode, stdout, stderr))
    same(uncordon, run(kubectl, uncordon))
