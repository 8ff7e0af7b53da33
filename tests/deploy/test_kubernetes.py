"""The kustomize base: fit for an API server, hardened, and started as `make up REDIS=1` starts."""

import base64
import copy
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from fleet.simulation.rehearsal import Rehearsal, serving
from fleet.simulation.resources import SERVED
from tests.deploy import models
from tests.deploy.files import (
    AGENT,
    BASE,
    DCGM,
    MAINTENANCE,
    RELEASES,
    RUNS,
    SAVE_HOOKS,
    SAVE_SIGNALS,
    Object,
    built,
    commands,
    containers,
    kustomization,
    manifest,
    manifests,
    pod_of,
    services,
    workloads,
)
from tests.simulation.kubectl import marks


class Api:
    """The rehearsal's API server over HTTPS, as its admin."""

    def __init__(self, kubeconfig: Object) -> None:
        server = kubeconfig["clusters"][0]["cluster"]
        context = ssl.create_default_context(cadata=base64.b64decode(server["certificate-authority-data"]).decode())
        headers = {"Authorization": f"Bearer {kubeconfig['users'][0]['user']['token']}"}
        self.client = httpx.Client(base_url=server["server"], verify=context, headers=headers, timeout=30)

    def dry_run(self, sent: Object) -> httpx.Response:
        """Create the object, all checks included, and do not keep it."""
        return self.client.post(path(sent), json=sent, params={"dryRun": "All", "fieldValidation": "Strict"})


def path(sent: Object) -> str:
    group, _, version = sent["apiVersion"].rpartition("/")
    resource = next(r for r in SERVED if (r.group, r.version, r.kind) == (group, version, sent["kind"]))
    place = f"/namespaces/{sent['metadata']['namespace']}" if resource.namespaced else ""
    return f"/{'apis/' + group if group else 'api'}/{version}{place}/{resource.plural}"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serving(Rehearsal(nodes=2, pace=0), tmp_path_factory.mktemp("cluster")) as cluster:
        found = Api(yaml.safe_load(cluster.kubeconfig.read_text()))
        with found.client:
            # As `kubectl apply -k` does, the namespaces come first and are there for the rest.
            for folder, name in ((BASE, "vigie"), (AGENT, "vigie-agent")):
                made = found.client.post("/api/v1/namespaces", json=manifest("Namespace", name, folder))
                assert made.status_code in {201, 409}, made.text
            yield found


@pytest.fixture(scope="module")
def scraping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site's overlay that adds the component for dcgm-exporter."""
    return overlay(tmp_path_factory.mktemp("overlay"), DCGM)


@pytest.fixture(scope="module")
def maintaining(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site's overlay that lets Vigie drain nodes."""
    return overlay(tmp_path_factory.mktemp("overlay"), MAINTENANCE)


def overlay(folder: Path, component: Path) -> Path:
    added = {name: [os.path.relpath(path, folder)] for name, path in (("resources", BASE), ("components", component))}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(added))
    return folder


EVERYWHERE = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
CLUSTER_KINDS = {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
KINDS = {
    BASE: {"ConfigMap", "Service", "Deployment", "Job", "PodDisruptionBudget", "NetworkPolicy"},
    AGENT: {"ConfigMap", "DaemonSet", "NetworkPolicy"},
}


class TestSchema:
    pytestmark = marks

    @pytest.mark.parametrize("folder", [BASE, AGENT])
    def test_an_api_server_takes_every_object(self, api: Api, folder: Path) -> None:
        for found in built(folder):
            answer = api.dry_run(found)
            there = found["kind"] == "Namespace" and answer.json().get("reason") == "AlreadyExists"
            assert answer.status_code == 201 or there, answer.text
            assert "warning" not in answer.headers, answer.headers["warning"]

    def test_nothing_stayed_of_the_dry_run(self, api: Api) -> None:
        for found in built():
            if found["kind"] != "Namespace":
                assert api.client.get(f"{path(found)}/{found['metadata']['name']}").status_code == 404

    @pytest.mark.parametrize("folder", [BASE, AGENT])
    def test_every_object_fits_the_published_models(self, folder: Path) -> None:
        assert [p for found in built(folder) for p in models.problems(found)] == []

    @pytest.mark.parametrize(("folder", "namespace"), [(BASE, "vigie"), (AGENT, "vigie-agent")])
    def test_everything_is_in_our_namespace(self, folder: Path, namespace: str) -> None:
        assert {m["metadata"]["namespace"] for m in built(folder) if m["kind"] not in EVERYWHERE} == {namespace}

    @pytest.mark.parametrize("folder", [BASE, AGENT])
    def test_no_secret_is_in_it(self, folder: Path) -> None:
        found = {m["kind"] for m in built(folder)}
        assert found - CLUSTER_KINDS == KINDS[folder]

    @pytest.mark.parametrize("folder", [BASE, AGENT, DCGM, MAINTENANCE, SAVE_HOOKS, SAVE_SIGNALS, RELEASES])
    def test_all_files_are_part_of_it(self, folder: Path) -> None:
        assert {p.name for p in folder.iterdir()} == {"kustomization.yaml", *kustomization(folder)["resources"]}

    def test_the_component_lets_the_readings_worker_scrape(self, api: Api, scraping: Path) -> None:
        found = built(scraping)
        assert [p for one in found for p in models.problems(one)] == []
        pods = {one["metadata"]["name"]: pod_of(one) for one in found if one["kind"] == "Deployment"}
        readings = pods["readings"]
        assert (readings["serviceAccountName"], readings["automountServiceAccountToken"]) == ("vigie-readings", True)
        told = next(one["data"] for one in found if one["kind"] == "ConfigMap")
        assert (told["VIGIE_DCGM"], told["VIGIE_SECURE"]) == ("proxy", "1")
        assert {r["metadata"]["namespace"] for r in found if r["kind"] == "Role"} == {"gpu-operator"}
        for one in found:
            if one["kind"] in {"Deployment", "Role", "RoleBinding", "NetworkPolicy"}:
                assert api.dry_run(one).status_code == 201

    def test_the_component_lets_the_actions_worker_drain(self, api: Api, maintaining: Path) -> None:
        found = built(maintaining)
        assert [p for one in found for p in models.problems(one)] == []
        pods = {one["metadata"]["name"]: pod_of(one) for one in found if one["kind"] == "Deployment"}
        actions = pods["actions"]
        assert (actions["serviceAccountName"], actions["automountServiceAccountToken"]) == ("vigie-actions", True)
        told = next(one["data"] for one in found if one["kind"] == "ConfigMap")
        assert (told["VIGIE_ACTIONS"], told["VIGIE_CONTEXTS"]) == ("in-cluster", "in-cluster")
        for one in found:
            if one["kind"] in {"Deployment", "ClusterRole", "ClusterRoleBinding", "NetworkPolicy"}:
                assert api.dry_run(one).status_code == 201


@pytest.mark.parametrize(
    ("where", "value", "complaint"),
    [
        ("replica", 2, "unknown"),
        ("replicas", "2", "int"),
        ("template.spec.containers.0.readinessProbe.periodSecond", 5, "unknown"),
        ("template.spec.containers.0.ports.0.containerPort", "8000", "int"),
        ("template.spec.containers.0.command", "python", "list"),
        ("template.spec.securityContext.runAsNonRoot", "yes", "bool"),
    ],
)
def test_the_checks_see_a_wrong_field(api: Api, where: str, value: object, complaint: str) -> None:
    wrong = copy.deepcopy(manifest("Deployment", "web"))
    wrong["metadata"]["namespace"] = "vigie"
    place, *steps = wrong["spec"], *where.split(".")
    for step in steps[:-1]:
        place = place[int(step)] if step.isdigit() else place[step]
    place[steps[-1]] = value
    assert complaint in " ".join(models.problems(wrong))
    assert api.dry_run(wrong).status_code == 400


# What runs


def test_the_command_lines_are_those_of_compose() -> None:
    assert {name: pod_of(workloads()[name])["containers"][0]["command"] for name in RUNS} == commands()


def test_redis_is_the_one_of_compose() -> None:
    written = [word.replace("$$", "$") for word in services()["redis"]["entrypoint"]]
    redis = pod_of(workloads()["redis"])["containers"][0]
    assert redis["command"] == written
    assert redis["image"] == services()["redis"]["image"]
    assert redis["readinessProbe"]["exec"]["command"][2] == services()["redis"]["healthcheck"]["test"][1].replace(
        "$$", "$"
    )


def test_web_is_probed_with_a_host_that_it_knows() -> None:
    web = pod_of(workloads()["web"])["containers"][0]
    probes = {kind: web[f"{kind}Probe"]["httpGet"] for kind in ("readiness", "liveness", "startup")}
    assert {kind: probe["path"] for kind, probe in probes.items()} == {
        "readiness": "/readyz",
        "liveness": "/healthz",
        "startup": "/healthz",
    }
    hosts = {
        header["value"] for probe in probes.values() for header in probe["httpHeaders"] if header["name"] == "Host"
    }
    known = next(s for s in kustomization()["configMapGenerator"][0]["literals"] if s.startswith("VIGIE_HOSTS="))
    assert hosts == {"localhost"} <= set(known.partition("=")[2].split(","))


def test_the_shape_of_each_workload() -> None:
    shape = {
        name: (w["kind"], w["spec"].get("replicas"), w["spec"].get("strategy", {}).get("type"))
        for name, w in workloads().items()
    }
    assert shape == {
        "prepare": ("Job", None, None),
        "web": ("Deployment", 2, None),
        "watch": ("Deployment", 1, None),
        "readings": ("Deployment", 1, None),
        "actions": ("Deployment", 1, None),
        "checkpoints": ("Deployment", 1, None),
        "beat": ("Deployment", 1, "Recreate"),
        "redis": ("Deployment", 1, "Recreate"),
    }


def test_the_budget_leaves_room_for_a_drain() -> None:
    budget, web = manifest("PodDisruptionBudget", "web")["spec"], workloads()["web"]
    assert budget["minAvailable"] < web["spec"]["replicas"]
    assert budget["selector"] == web["spec"]["selector"]


def test_selectors_find_their_pods() -> None:
    labels = {name: w["spec"]["template"]["metadata"]["labels"] for name, w in workloads().items()}
    for found in manifests():
        if found["kind"] == "Service":
            assert found["spec"]["selector"] == labels[found["metadata"]["name"]]
    assert all(w["spec"].get("selector", {}).get("matchLabels") in (labels[n], None) for n, w in workloads().items())


# How it is confined


@pytest.mark.parametrize("name", list(workloads()))
def test_a_pod_meets_the_restricted_standard(name: str) -> None:
    found = pod_of(workloads()[name])
    context = found["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert found["enableServiceLinks"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(found)
    assert all(set(volume) <= {"name", "emptyDir"} for volume in found["volumes"])


@pytest.mark.parametrize(("name", "container"), list(containers()))
def test_a_container_is_confined(name: str, container: Object) -> None:
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert container["resources"]["limits"]["memory"]
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    tag = container["image"].rpartition(":")[2]
    assert tag[0].isdigit(), "pinned by major version at least"


@pytest.mark.parametrize(("name", "container"), list(containers()))
def test_secrets_come_by_reference(name: str, container: Object) -> None:
    for entry in container["env"]:
        secret = any(word in entry["name"] for word in ("SECRET", "PASSWORD", "DATABASE"))
        assert ("valueFrom" in entry) is secret, entry["name"]
        assert "$(REDIS_PASSWORD)" in entry.get("value", "$(REDIS_PASSWORD)")


def test_only_three_speak_to_the_cluster_each_with_its_own_account() -> None:
    with_token = {name for name, w in workloads().items() if pod_of(w)["automountServiceAccountToken"]}
    named = {
        name: pod_of(w)["serviceAccountName"] for name, w in workloads().items() if "serviceAccountName" in pod_of(w)
    }
    assert with_token == {"watch", "web", "checkpoints"}
    assert named == {"watch": "vigie-watch", "web": "vigie-web", "checkpoints": "vigie-checkpoints"}


def reached(direction: str, name: str) -> list[Object]:
    """The rules that let a workload's pods send (egress) or be sent to (ingress)."""
    label = workloads()[name]["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
    policies = [m["spec"] for m in manifests() if m["kind"] == "NetworkPolicy"]
    assert {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]} in policies  # nothing else
    return [rule for p in policies if selects(p["podSelector"], label) for rule in p.get(direction, ())]


def selects(selector: Object, component: str) -> bool:
    wanted = selector.get("matchLabels", {}).get("app.kubernetes.io/component", component)
    return wanted == component and all(component in e["values"] for e in selector.get("matchExpressions", ()))


@pytest.mark.parametrize(
    ("name", "into", "out"),
    [
        ("web", {8000}, {53, 6379, 5432, 443, 6443}),
        ("watch", set(), {53, 6379, 5432, 443, 6443}),
        ("readings", set(), {53, 6379, 5432}),
        ("actions", set(), {53, 6379, 5432}),
        ("checkpoints", set(), {53, 6379, 5432, 443, 6443}),
        ("beat", set(), {53, 6379, 5432}),
        ("prepare", set(), {53, 6379, 5432}),
        ("redis", {6379}, {53}),
    ],
)
def test_the_network_lets_through_what_is_needed(name: str, into: set[int], out: set[int]) -> None:
    def ports(direction: str) -> set[int]:
        return {port["port"] for rule in reached(direction, name) for port in rule["ports"]}

    assert (ports("ingress"), ports("egress")) == (into, out)
