"""The real kubectl on the rehearsal cluster's API: reading, describing, cordoning, patching and watching."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from fleet.simulation.server import READER
from tests.simulation.cluster import deployment, template
from tests.simulation.kubectl import WITHIN_S, Kubectl, marks, table

pytestmark = marks


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    rehearsal = Rehearsal(nodes=6, pace=0)
    rehearsal.store.create("namespaces", {"metadata": {"name": "test"}}, manager="test")
    web = deployment("web", 2, template("web", gpus=1, warmup_seconds=0))
    rehearsal.store.create("deployments", web, manager="test")
    with serving(rehearsal, tmp_path_factory.mktemp("cluster")) as served:
        yield served


@pytest.fixture(scope="module")
def kubectl(cluster: Serving, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    found = Kubectl(cluster.kubeconfig, tmp_path_factory.mktemp("home"))
    found("wait", "-n", "test", "deployment/web", "--for=condition=Available", "--timeout=30s")
    return found


@pytest.fixture(scope="module")
def node(cluster: Serving) -> str:
    name: str = cluster.call(lambda: cluster.rehearsal.store.list("nodes")[0]["metadata"]["name"])
    return name


def test_get_nodes_has_the_real_columns(kubectl: Kubectl, node: str) -> None:
    heads, rows = table(kubectl("get", "nodes"))
    assert heads == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert len(rows) == 6
    assert rows[0][:2] == [node, "Ready"]


def test_get_nodes_wide(kubectl: Kubectl) -> None:
    heads, _ = table(kubectl("get", "nodes", "-o", "wide"))
    assert heads[5:] == ["INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"]


def test_get_pods(kubectl: Kubectl) -> None:
    heads, rows = table(kubectl("get", "pods", "-n", "test"))
    assert heads == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [r[1:4] for r in rows] == [["1/1", "Running", "0"]] * 2
    wide, _ = table(kubectl("get", "pods", "-A", "-o", "wide"))
    assert wide[6:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]


def test_get_deployments(kubectl: Kubectl) -> None:
    heads, rows = table(kubectl("get", "deployments", "-n", "test", "-o", "wide"))
    assert heads == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert rows[0][:4] == ["web", "2/2", "2", "2"]
    assert rows[0][5:] == ["server", "sim.io/server:v1", "app=web"]


def test_get_names(kubectl: Kubectl) -> None:
    assert kubectl("get", "deployments", "-n", "test", "-o", "name") == "deployment.apps/web\n"


@pytest.mark.parametrize(
    "kind", ["replicasets", "services", "daemonsets", "jobs", "statefulsets", "pdb", "events", "all"]
)
def test_every_kind_can_be_got(kubectl: Kubectl, kind: str) -> None:
    assert kubectl.run("get", kind, "-A").returncode == 0


def test_get_pages_through_a_long_list(kubectl: Kubectl) -> None:
    assert len(kubectl("get", "nodes", "--chunk-size=2", "-o", "name").splitlines()) == 6


def test_selectors(kubectl: Kubectl, node: str) -> None:
    assert kubectl("get", "nodes", "-l", f"kubernetes.io/hostname={node}", "-o", "name") == f"node/{node}\n"
    found = kubectl("get", "pods", "-A", "--field-selector", f"spec.nodeName={node},status.phase=Running", "-o", "json")
    assert {p["spec"]["nodeName"] for p in json.loads(found)["items"]} <= {node}


def test_describe_node(kubectl: Kubectl, node: str) -> None:
    text = kubectl("describe", "node", node)
    assert re.search(rf"^Name:\s+{node}$", text, re.MULTILINE)
    assert re.search(r"^\s+nvidia\.com/gpu:?\s+8", text, re.MULTILINE)
    assert "Allocated resources:" in text
    assert "Non-terminated Pods:" in text


def test_describe_pod_and_deployment(kubectl: Kubectl) -> None:
    pods = kubectl("get", "pods", "-n", "test", "-o", "name").split()
    text = kubectl("describe", "-n", "test", pods[0])
    assert re.search(r"^Status:\s+Running$", text, re.MULTILINE)
    assert "Controlled By:  ReplicaSet/web-" in text
    text = kubectl("describe", "deployment", "web", "-n", "test")
    assert "Replicas:               2 desired | 2 updated | 2 total | 2 available | 0 unavailable" in text


def test_cordon_and_uncordon(kubectl: Kubectl, node: str) -> None:
    assert kubectl("cordon", node) == f"node/{node} cordoned\n"
    assert kubectl("cordon", node) == f"node/{node} already cordoned\n"
    _, rows = table(kubectl("get", "node", node))
    assert rows[0][1] == "Ready,SchedulingDisabled"
    kubectl(
        "wait", f"node/{node}", "--for=jsonpath={.spec.taints[0].key}=node.kubernetes.io/unschedulable", "--timeout=10s"
    )
    assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"
    assert kubectl("cordon", node, "--dry-run=server") == f"node/{node} cordoned (server dry run)\n"
    assert table(kubectl("get", "node", node))[1][0][1] == "Ready"


def test_patch_and_label(kubectl: Kubectl, node: str) -> None:
    label = '{"metadata":{"labels":{"vigie.dev/tried":"test"}}}'
    assert kubectl("patch", "node", node, "--type=merge", "-p", label) == f"node/{node} patched\n"
    assert kubectl("patch", "node", node, "-p", label) == f"node/{node} patched (no change)\n"
    assert kubectl("get", "nodes", "-l", "vigie.dev/tried", "-o", "name") == f"node/{node}\n"
    assert kubectl("label", "node", node, "vigie.dev/tried-") == f"node/{node} unlabeled\n"
    refused = kubectl.run("patch", "node", node, "--type=json", "-p", '[{"op":"test","path":"/spec/x","value":1}]')
    assert refused.returncode == 1
    assert "the server rejected our request due to an error in our request" in refused.stderr


def test_apply_scale_and_delete(kubectl: Kubectl) -> None:
    manifest = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "test"},
            "data": {"a": "1"},
        }
    )
    assert kubectl("apply", "-f", "-", stdin=manifest) == "configmap/settings created\n"
    assert kubectl("apply", "-f", "-", stdin=manifest) == "configmap/settings unchanged\n"
    changed = manifest.replace('"1"', '"2"')
    assert kubectl("apply", "-f", "-", stdin=changed) == "configmap/settings configured\n"
    assert kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest).endswith("applied\n")
    assert kubectl("delete", "configmap", "settings", "-n", "test").startswith('configmap "settings" deleted')
    assert kubectl("scale", "deployment", "web", "-n", "test", "--replicas=3") == "deployment.apps/web scaled\n"
    kubectl("wait", "-n", "test", "deployment/web", "--for=jsonpath={.status.availableReplicas}=3", "--timeout=30s")
    assert kubectl("scale", "deployment", "web", "-n", "test", "--replicas=2") == "deployment.apps/web scaled\n"


def test_get_watch_shows_changes(cluster: Serving, kubectl: Kubectl, node: str) -> None:
    """A watch of kubectl ends with the request timeout that it is given; until then it prints what changes."""
    watching = kubectl.begin("get", "node", node, "-w", "--request-timeout=4s")
    assert watching.stdout is not None
    assert watching.stdout.readline().startswith("NAME")
    assert "Ready" in watching.stdout.readline()

    for _ in range(100):
        if cluster.call(lambda: cluster.server.app.open_watches):
            break
        time.sleep(0.05)

    def cordon(draft: dict[str, dict[str, bool]]) -> None:
        draft["spec"]["unschedulable"] = not draft["spec"].get("unschedulable", False)

    for _ in range(2):
        cluster.call(lambda: cluster.rehearsal.store.mutate("nodes", None, node, cordon, manager="test"))
    rest, _ = watching.communicate(timeout=WITHIN_S)
    assert [line.split()[1] for line in rest.splitlines()][:2] == ["Ready,SchedulingDisabled", "Ready"]


def test_rights(cluster: Serving, kubectl: Kubectl, tmp_path: Path) -> None:
    cluster.call(lambda: cluster.server.write_kubeconfig(tmp_path / "reader", "rehearsal", READER))
    reader = Kubectl(tmp_path / "reader", tmp_path)
    assert kubectl("auth", "can-i", "delete", "pods") == "yes\n"
    assert reader("auth", "can-i", "list", "pods") == "yes\n"
    assert reader.run("auth", "can-i", "delete", "pods").stdout == "no\n"
    refused = reader.run("cordon", "any")
    assert refused.returncode == 1
    assert 'nodes "any" not found' in refused.stderr
    refused = reader.run("delete", "namespace", "test")
    assert "is forbidden: User" in refused.stderr


def test_explained_errors(kubectl: Kubectl) -> None:
    missing = kubectl.run("get", "node", "nope")
    assert (missing.returncode, missing.stderr) == (1, 'Error from server (NotFound): nodes "nope" not found\n')
    assert "Server Version: v1.36.2" in kubectl("version")
