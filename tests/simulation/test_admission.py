"""What a namespace has no room for, and no account."""

from typing import Any

import pytest

from fleet.simulation.machinery import Machinery
from fleet.simulation.quotas import Quotas
from tests.simulation.http import Api, container

PODS = "/api/v1/namespaces/test/pods"
QUOTAS = "/api/v1/namespaces/test/resourcequotas"


@pytest.fixture
def api() -> Api:
    made = Api()
    made.namespace()
    return made


def pod(name: str, gpus: int = 1, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [container(gpus=gpus)], **spec}}


def quota(**hard: str) -> dict[str, Any]:
    return {"metadata": {"name": "gpus"}, "spec": {"hard": {k.replace("_", "."): v for k, v in hard.items()}}}


GPUS = {"requests.nvidia.com/gpu": "10"}


async def test_a_quota_refuses_what_is_too_much_28(api: Api) -> None:
    await api.post(QUOTAS, {"metadata": {"name": "gpus"}, "spec": {"hard": GPUS}})
    assert (await api.post(PODS, pod("a", 8))).status_code == 201
    refused = await api.post(PODS, pod("b", 4))
    assert refused.status_code == 403
    assert refused.json()["message"] == (
        'pods "b" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=4, '
        "used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=10"
    )
    assert refused.json()["details"] == {"name": "b", "kind": "pods"}
    assert (await api.post(PODS, pod("b", 2))).status_code == 201


async def test_a_quota_counts_pods_and_finished_ones_no_more(api: Api) -> None:
    await api.post(QUOTAS, quota(pods="1"))
    await api.post(PODS, pod("a"))
    refused = await api.post(PODS, pod("b"))
    assert refused.json()["message"].endswith("exceeded quota: gpus, requested: pods=1, used: pods=1, limited: pods=1")
    api.store.mutate(
        "pods", "test", "a", lambda p: {**p, "status": {"phase": "Succeeded"}}, manager="kubelet", subresource="status"
    )
    assert (await api.post(PODS, pod("b"))).status_code == 201


async def test_what_a_quota_counts_must_be_said(api: Api) -> None:
    await api.post(QUOTAS, quota(requests_cpu="4"))
    refused = await api.post(PODS, pod("a"))
    assert refused.json()["message"].endswith("failed quota: gpus: must specify requests.cpu for: main")


async def test_other_namespaces_have_their_own_room(api: Api) -> None:
    await api.post(QUOTAS, quota(pods="0"))
    assert (await api.post("/api/v1/namespaces/default/pods", pod("a"))).status_code == 201


async def test_a_dry_run_is_refused_alike(api: Api) -> None:
    await api.post(QUOTAS, quota(pods="0"))
    assert (await api.post(PODS, pod("a"), dryRun="All")).status_code == 403


async def test_a_missing_service_account(api: Api) -> None:
    refused = await api.post(PODS, pod("nosa", serviceAccountName="missing"))
    assert refused.status_code == 403
    assert refused.json()["message"] == (
        'pods "nosa" is forbidden: error looking up service account test/missing: serviceaccount "missing" not found'
    )
    await api.post("/api/v1/namespaces/test/serviceaccounts", {"metadata": {"name": "missing"}})
    assert (await api.post(PODS, pod("nosa", serviceAccountName="missing"))).status_code == 201


async def test_a_terminating_namespace_takes_nothing_new(api: Api) -> None:
    """T4: the cause tells it from a lack of rights."""
    await api.delete("/api/v1/namespaces/test")
    refused = await api.post(PODS, pod("late"))
    assert refused.status_code == 403
    (cause,) = refused.json()["details"]["causes"]
    assert cause == {
        "reason": "NamespaceTerminating",
        "message": "namespace test is being terminated",
        "field": "metadata.namespace",
    }


async def test_the_controller_shows_what_is_used(api: Api) -> None:
    machinery = Machinery(api.store, api.clock)
    machinery.controllers = {c: k for c, k in machinery.controllers.items() if c is Quotas}
    machinery.start()
    hard = {**GPUS, "requests.memory": "8Gi", "requests.cpu": "1500m"}
    await api.post(PODS, pod("a", 8))
    await api.post(QUOTAS, {"metadata": {"name": "gpus"}, "spec": {"hard": hard}})
    await api.clock.advance(1)
    status = (await api.get(f"{QUOTAS}/gpus")).json()["status"]
    assert status["hard"] == hard
    assert status["used"] == {"requests.nvidia.com/gpu": "8", "requests.memory": "0", "requests.cpu": "0"}
    await api.delete(f"{PODS}/a")
    await api.clock.advance(1)
    assert (await api.get(f"{QUOTAS}/gpus")).json()["status"]["used"]["requests.nvidia.com/gpu"] == "0"
    machinery.check()
    await machinery.stop()
