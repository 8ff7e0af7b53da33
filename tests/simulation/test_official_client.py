"""The official Python client on the rehearsal cluster's API, over TLS with the generated kubeconfig."""

import os
import ssl
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException

from fleet.simulation.rehearsal import Rehearsal, Serving, serving


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(Rehearsal(nodes=4, pace=0), tmp_path_factory.mktemp("cluster")) as served:
        yield served


@pytest.fixture(scope="module")
def core(cluster: Serving) -> Iterator[kubernetes.client.CoreV1Api]:
    with kubernetes.config.new_client_from_config(str(cluster.kubeconfig)) as client:
        yield kubernetes.client.CoreV1Api(client)


def test_lists_and_pages(core: kubernetes.client.CoreV1Api) -> None:
    nodes = core.list_node(limit=3)
    assert len(nodes.items) == 3
    assert nodes.metadata.remaining_item_count == 1
    rest = core.list_node(limit=3, _continue=nodes.metadata._continue)
    assert len(rest.items) == 1
    assert nodes.items[0].status.allocatable["nvidia.com/gpu"] == "8"


def test_patches_and_reads_back(core: kubernetes.client.CoreV1Api) -> None:
    name = core.list_node().items[0].metadata.name
    assert core.patch_node(name, {"spec": {"unschedulable": True}}).spec.unschedulable is True
    assert core.read_node(name).spec.unschedulable is True
    assert core.patch_node(name, {"spec": {"unschedulable": None}}).spec.unschedulable is None


def test_watches(core: kubernetes.client.CoreV1Api) -> None:
    listed = core.list_node()
    name = listed.items[0].metadata.name
    core.patch_node(name, {"metadata": {"labels": {"watched": "yes"}}})
    watch = kubernetes.watch.Watch()
    stream = watch.stream(core.list_node, resource_version=listed.metadata.resource_version, timeout_seconds=5)
    event = next(e for e in stream if (e["object"].metadata.labels or {}).get("watched"))
    watch.stop()
    assert (event["type"], event["object"].metadata.name) == ("MODIFIED", name)


def test_errors(core: kubernetes.client.CoreV1Api) -> None:
    with pytest.raises(ApiException) as missing:
        core.read_node("nope")
    assert (missing.value.status, missing.value.reason) == (404, "Not Found")


def test_creates_and_deletes(core: kubernetes.client.CoreV1Api) -> None:
    settings = kubernetes.client.V1ConfigMap(metadata={"name": "settings"}, data={"a": "b"})
    assert core.create_namespaced_config_map("default", settings).metadata.uid
    core.delete_namespaced_config_map("settings", "default")
    assert "settings" not in {c.metadata.name for c in core.list_namespaced_config_map("default").items}


def test_the_kubeconfig_is_its_owners(cluster: Serving) -> None:
    assert stat.S_IMODE(cluster.kubeconfig.stat().st_mode) == 0o600
    assert cluster.kubeconfig.stat().st_uid == os.getuid()


def test_another_host_name_is_refused(cluster: Serving) -> None:
    trusting = ssl.create_default_context(cadata=cluster.server.ca_pem.decode())
    request = urllib.request.Request(f"{cluster.url}/version", headers={"Host": "rebound.example"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, context=trusting, timeout=10)
    assert refused.value.code == 421


def test_strangers_do_not_trust_it(cluster: Serving) -> None:
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"{cluster.url}/version", timeout=10)
