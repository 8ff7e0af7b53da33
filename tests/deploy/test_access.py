"""The roles of our accounts: enough for the real adapters, and nothing in the watch worker's that its adapter can do without.

The rehearsal enforces RBAC. What most clusters grant to everybody (`/version`) is taken away first: the role stands alone.
"""

import copy
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from fleet.act.surveying import rights
from fleet.adapters.cluster_changes import KubernetesChanges
from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.adapters.cluster_logs import KubernetesLogs
from fleet.adapters.cluster_manifests import PATHS, PODS, KubernetesManifests
from fleet.adapters.cluster_streams import Patience
from fleet.adapters.exporters_kubernetes import KubernetesExporters
from fleet.adapters.reviews_kubernetes import KubernetesReviews
from fleet.domain.actions import ACTIONS
from fleet.domain.kinds import Subject
from fleet.domain.kube import RESOURCES, Bookmark, Kind, Listed, Lost
from fleet.domain.releases import Release
from fleet.domain.training import Signal
from fleet.live import MemoryPicture
from fleet.observe import Writer
from fleet.ports import PortError
from fleet.simulation.auth import service_account
from fleet.simulation.catalogue import AGENT
from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from fleet.simulation.store import Store
from tests.deploy.files import DCGM, LOGS, MAINTENANCE, RELEASES, SAVE_HOOKS, SAVE_SIGNALS, Object, manifest, manifests
from tests.fleet.clusters import wait_for

ROLE = manifest("ClusterRole", "vigie-watch")
QUICK = Patience(first_pause_s=0.01, longest_pause_s=0.05)
Grant = tuple[str, str, str]  # verb, group, resource or path


def grants(role: Object) -> list[Grant]:
    """Every single right of a role."""
    return [
        (verb, group, what)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule.get("apiGroups", [""])
        for what in rule.get("resources", rule.get("nonResourceURLs"))
    ]


def without(role: Object, verb: str, group: str, what: str) -> Object:
    """The role less one right: the rule split into single ones, and that one left out."""
    less = copy.deepcopy(role)
    less["rules"] = [
        {**rule, **narrowed, "verbs": [v]}
        for rule in role["rules"]
        for kind in ("resources", "nonResourceURLs")
        for w in rule.get(kind, ())
        for v in rule["verbs"]
        for narrowed in [{kind: [w]}]
        if (v, rule.get("apiGroups", [""])[0], w) != (verb, group, what)
    ]
    return less


PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


def plant(store: Store, objects: Iterable[Object]) -> None:
    """What an administrator would apply; what everybody is granted otherwise is taken away."""
    for binding in store.list("clusterrolebindings"):
        if binding["metadata"]["name"].startswith("system:"):
            store.delete("clusterrolebindings", None, binding["metadata"]["name"])
    there = {found["metadata"]["name"] for found in store.list("namespaces")}
    for sent in objects:
        namespace = sent["metadata"].get("namespace")
        if namespace and namespace not in there:
            store.create("namespaces", {"metadata": {"name": namespace}}, manager="test")
            there.add(namespace)
        if sent["kind"] in PLURALS:
            store.create(PLURALS[sent["kind"]], copy.deepcopy(sent), manager="test")


def kubeconfig_of(cluster: Serving, name: str, home: Path) -> Path:
    """A kubeconfig with a token of a service account of ours."""
    user = service_account("vigie", name)
    config = yaml.safe_load(cluster.call(lambda: cluster.server.kubeconfig("rehearsal", user)))
    token = cluster.call(lambda: cluster.server.auth.issue_for_account("vigie", name))
    config["users"][0]["user"]["token"] = token
    path = home / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


class Account:
    """The rehearsal as the watch worker's account sees it; `role` is what it may do at the moment."""

    def __init__(self, cluster: Serving, home: Path) -> None:
        self._cluster, self._store = cluster, cluster.rehearsal.store
        cluster.call(lambda: plant(self._store, [m for m in manifests() if m["metadata"]["name"] == "vigie-watch"]))
        self.kubeconfig = kubeconfig_of(cluster, "vigie-watch", home)
        self.cluster = KubernetesCluster("rehearsal", str(self.kubeconfig), QUICK)

    def give(self, role: Object) -> None:
        rules = copy.deepcopy(role["rules"])
        self._cluster.call(
            lambda: self._store.mutate(
                "clusterroles", "", "vigie-watch", lambda found: {**found, "rules": rules}, manager="test"
            )
        )

    def refused(self) -> set[str]:
        """What the adapter is refused, of all that it asks for: kinds, the identity of the cluster, the probe."""
        found = {kind.value for kind in Kind if not self._follows(kind)}
        if not self.cluster.server.uid():
            found.add("namespaces")
        try:
            self.cluster.version()
        except PortError as error:
            found.add("/version" if error.reason == "Forbidden" else str(error))
        return found

    def _follows(self, kind: Kind) -> bool:
        """Whether a kind is listed and its watch accepted, or else refused (anything else fails)."""
        seen = []
        for event in self.cluster.follow(kind, None, threading.Event()):
            seen.append(type(event))
            if isinstance(event, Lost):
                assert event.reason == "Forbidden"
                return False
            if isinstance(event, Bookmark):
                break
        assert seen == [Listed, Bookmark]
        return True


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    home = tmp_path_factory.mktemp("account")
    with serving(Rehearsal(nodes=2, pace=0), tmp_path_factory.mktemp("cluster")) as cluster:
        found = Account(cluster, home)
        yield found
        found.cluster.close()


@pytest.fixture
def given(account: Account) -> Iterator[Account]:
    """The account with the whole role, whatever the test before took away."""
    account.give(ROLE)
    return account


def test_the_role_is_enough(given: Account) -> None:
    assert given.refused() == set()


@pytest.mark.parametrize(("verb", "group", "what"), grants(ROLE))
def test_every_right_is_needed_and_its_lack_is_noticed(given: Account, verb: str, group: str, what: str) -> None:
    given.give(without(ROLE, verb, group, what))
    assert given.refused() == {what}


def test_the_rights_are_list_and_watch_on_every_kind_and_two_small_ones() -> None:
    wanted = {(verb, r.group, r.kind.value) for r in RESOURCES.values() for verb in ("list", "watch")}
    assert set(grants(ROLE)) == wanted | {("get", "", "namespaces"), ("get", "", "/version")}
    named = [rule.get("resourceNames") for rule in ROLE["rules"] if "namespaces" in rule.get("resources", ())]
    assert named == [["kube-system"]]


def test_the_account_cannot_change_anything_or_look_into_pods(given: Account) -> None:
    """As the API server sees it, not as we read the file."""
    attempts = [
        ("PATCH", "/api/v1/nodes/any"),
        ("DELETE", "/api/v1/namespaces/default/pods/any"),
        ("POST", "/api/v1/namespaces/default/pods/any/eviction"),
        ("GET", "/api/v1/namespaces/default/pods/any/log"),
        ("GET", "/api/v1/namespaces/default/pods/any/exec"),
        ("GET", "/api/v1/namespaces/default/pods/any/proxy/"),
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/configmaps"),
        ("GET", "/api/v1/namespaces"),
        ("GET", "/api/v1/namespaces/default"),
    ]
    pools, url, headers = given.cluster.server._request("GET", "/", {})
    for method, path in attempts:
        answer = pools.request(method, url.rstrip("/") + path, headers=headers, body=b"{}" if method != "GET" else None)
        assert answer.status == 403, (method, path, answer.data)


def picture_of(given: Account, enough) -> MemoryPicture:
    """What the watch worker's own code makes of the cluster, once `enough` holds for the last pulse."""
    picture, stopping = MemoryPicture(lambda _: None), threading.Event()
    writer = Writer(KubernetesCluster("rehearsal", str(given.kubeconfig), QUICK), picture)
    thread = threading.Thread(target=writer.run, args=(stopping,), daemon=True)
    thread.start()
    try:
        wait_for(lambda: picture.read("rehearsal") and enough(picture.last_pulse("rehearsal")), 15)
    finally:
        stopping.set()
        thread.join(5)
    return picture


def test_the_worker_shows_the_cluster_with_this_role(given: Account) -> None:
    picture = picture_of(given, lambda pulse: not pulse.trouble)
    assert len(picture.read("rehearsal").snapshot.nodes) == 2


def test_the_worker_names_a_kind_that_it_may_not_read(given: Account) -> None:
    given.give(without(ROLE, "list", "batch", "jobs"))
    picture = picture_of(given, lambda pulse: [what for what, *_ in pulse.trouble] == ["jobs"])
    assert picture.last_pulse("rehearsal").trouble[0][:2] == ("jobs", "Forbidden")


# The other accounts


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A cluster with the roles of the base and of dcgm/, where nobody may do anything else."""
    with serving(Rehearsal(nodes=2, pace=0), tmp_path_factory.mktemp("bare")) as cluster:
        cluster.call(lambda: plant(cluster.rehearsal.store, [*manifests(), *manifests(DCGM)]))
        yield cluster


def test_web_may_ask_whose_a_token_is_and_nothing_else(bare: Serving, tmp_path: Path) -> None:
    reviews = KubernetesReviews("rehearsal", str(kubeconfig_of(bare, "vigie-web", tmp_path)))
    token = bare.call(lambda: bare.server.auth.issue_for_account(AGENT.namespace, AGENT.account))
    assert reviews.review(token, "elsewhere").error
    with pytest.raises(PortError) as caught:
        reviews.node_of_pod("vigie", "any")
    assert caught.value.status == 403, "for that the agent's namespace has a Role (deploy/agent)"
    role = manifest("ClusterRole", "vigie-web")
    assert grants(role) == [("create", "authentication.k8s.io", "tokenreviews")]


def test_web_may_list_what_workloads_say_about_restarts_and_names_what_it_may_not(
    bare: Serving, tmp_path: Path
) -> None:
    read = KubernetesManifests(
        KubernetesCluster("rehearsal", str(kubeconfig_of(bare, "vigie-web", tmp_path))).server
    ).read_manifests
    assert read().unread == ()
    role = manifest("ClusterRole", "vigie-readiness")
    assert {verb for verb, *_ in grants(role)} == {"list"}
    assert {what for *_, what in grants(role)} == {path.rpartition("/")[2] for path in (*PATHS.values(), PODS)}
    agent = KubernetesCluster("rehearsal", str(kubeconfig_of(bare, "vigie-checkpoints", tmp_path))).server
    assert set(KubernetesManifests(agent).read_manifests().unread) == {*PATHS, "Pod"} - {
        "Service",
        "PersistentVolumeClaim",
    }


def test_web_may_read_revisions_and_change_none(bare: Serving, tmp_path: Path) -> None:
    cluster = KubernetesCluster("rehearsal", str(kubeconfig_of(bare, "vigie-web", tmp_path)))
    changes = KubernetesChanges(cluster.server)
    kinds = {"Deployment": "deployments", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets"}
    metas = bare.call(lambda: [bare.rehearsal.store.list(plural)[0]["metadata"] for plural in kinds.values()])
    for kind, meta in zip(kinds, metas, strict=True):
        found = changes.read_workload(kind, meta["namespace"], meta["name"])
        assert found is not None
        assert changes.read_holders(found)
    assert {verb for verb, *_ in grants(manifest("ClusterRole", "vigie-revisions"))} == {"get", "list"}


def test_who_scans_checkpoints_may_read_what_pods_declare_and_nothing_else(bare: Serving, tmp_path: Path) -> None:
    changes = KubernetesChanges(
        KubernetesCluster("rehearsal", str(kubeconfig_of(bare, "vigie-checkpoints", tmp_path))).server
    )
    meta = bare.call(lambda: bare.rehearsal.store.list("pods")[0]["metadata"])
    assert changes.read_pod(meta["namespace"], meta["name"]) is not None
    for read in (changes.read_claims, changes.read_storage, changes.read_services):
        read()
    for refused in (changes.read_pods, changes.read_nodes, changes.read_controllers):
        with pytest.raises(PortError) as caught:
            refused()
        assert caught.value.status == 403
    assert grants(manifest("ClusterRole", "vigie-checkpoints")) == [
        ("get", "", "pods"),
        *(("list", "", what) for what in ("persistentvolumeclaims", "persistentvolumes", "services")),
    ]


def test_the_readings_worker_may_scrape_exporters_and_nothing_else(bare: Serving, tmp_path: Path) -> None:
    exporters = KubernetesExporters("rehearsal", str(kubeconfig_of(bare, "vigie-readings", tmp_path)))
    found = exporters.find()
    assert {e.namespace for e in found} == {manifest("Role", "vigie-readings-proxy", DCGM)["metadata"]["namespace"]}
    assert exporters.read(found[0], "boot-1").gpus
    elsewhere = bare.call(lambda: next(p for p in bare.rehearsal.store.list("pods", "monitoring")))
    with pytest.raises(PortError) as caught:
        exporters.read(replace(found[0], namespace="monitoring", pod=elsewhere["metadata"]["name"]), "boot-1")
    assert caught.value.status == 403
    assert grants(manifest("ClusterRole", "vigie-readings", DCGM)) == [("list", "", "pods")]
    assert grants(manifest("Role", "vigie-readings-proxy", DCGM)) == [("get", "", "pods/proxy")]


def test_who_maintains_may_do_what_a_drain_does_and_nothing_else(tmp_path: Path) -> None:
    with serving(Rehearsal(nodes=2, pace=0), tmp_path / "cluster") as cluster:
        cluster.call(lambda: plant(cluster.rehearsal.store, [*manifests(), *manifests(MAINTENANCE)]))
        server = KubernetesCluster("rehearsal", str(kubeconfig_of(cluster, "vigie-actions", tmp_path))).server
        changes = KubernetesChanges(server)
        node, pods = changes.read_nodes()[0], changes.read_pods()
        for read in (changes.read_controllers, changes.read_budgets, changes.read_services, changes.read_claims):
            read()
        changes.read_storage()
        assert changes.change_node(node, unschedulable=True, annotations={}).spec.unschedulable
        meta = pods[0].metadata
        assert changes.read_pod(meta.namespace, meta.name) is not None
        assert changes.evict(meta.namespace, meta.name, meta.uid, dry_run=True).status != 403
        for method, path in (
            ("DELETE", f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}"),
            ("GET", "/api/v1/secrets"),
        ):
            assert server.send(method, path, b"", within_s=5).status == 403
        granted = {verb for verb, *_ in grants(manifest("ClusterRole", "vigie-actions", MAINTENANCE))}
        assert granted == {"get", "list", "patch", "create"}


def test_trainers_are_asked_to_save_only_where_a_role_lets_us(tmp_path: Path) -> None:
    roles = [*manifests(MAINTENANCE), *manifests(SAVE_HOOKS), *manifests(SAVE_SIGNALS)]
    with serving(Rehearsal(nodes=8, pace=0), tmp_path / "cluster") as cluster:
        cluster.call(lambda: plant(cluster.rehearsal.store, [*manifests(), *roles]))
        server = KubernetesCluster("rehearsal", str(kubeconfig_of(cluster, "vigie-actions", tmp_path))).server
        changes = KubernetesChanges(server)
        trainer = "llama-sft-70b-0"
        changes.post_to_pod("training", trainer, 29500, "/checkpoint")
        changes.signal_pod("training", trainer, "main", Signal.USR1)
        for elsewhere in (
            lambda: changes.post_to_pod("inference", "nobody", 8000, "/checkpoint"),
            lambda: changes.signal_pod("inference", "nobody", "main", Signal.TERM),
        ):
            with pytest.raises(PortError) as refused:
                elsewhere()
            assert refused.value.status == 403
    assert grants(manifest("Role", "vigie-save-hooks", SAVE_HOOKS)) == [("create", "", "pods/proxy")]
    assert grants(manifest("Role", "vigie-save-signals", SAVE_SIGNALS)) == [
        ("create", "", "pods/exec"), ("get", "", "pods/exec"),
    ]  # fmt: skip


def test_web_may_read_logs_of_one_namespace_alone(bare: Serving, tmp_path: Path) -> None:
    """The API server says that there is no earlier run, which is an answer; elsewhere it refuses."""
    bare.call(lambda: plant(bare.rehearsal.store, manifests(LOGS)))
    logs = KubernetesLogs(KubernetesCluster("rehearsal", str(kubeconfig_of(bare, "vigie-web", tmp_path))).server)
    found = bare.call(
        lambda: [pod["metadata"] for pod in bare.rehearsal.store.list("pods") if pod["spec"].get("nodeName")]
    )
    said = {}
    for meta in found:
        with pytest.raises(PortError) as refused:
            logs.last_words(meta["namespace"], meta["name"], "any", 20)
        said.setdefault(meta["namespace"] == "inference", set()).add(refused.value.status)
    assert said[False] == {403}
    assert 403 not in said.get(True, set())
    assert grants(manifest("Role", "vigie-logs", LOGS)) == [("get", "", "pods/log")]


def test_the_role_of_releases_is_what_a_plan_asks_for() -> None:
    given = {(verb, resource + (f".{group}" if group else "")) for verb, group, resource in _releases()}
    for kind in ACTIONS.values():
        if kind.subject is Subject.NODE:
            continue
        target = ("Service" if kind.subject is Subject.SERVICE else "Deployment") + "/inference/llm"
        for right in rights(Release(kind.name, target, {}, 0.0)):
            resource, _, below = right.resource.partition("/")
            name, _, group = resource.partition(".")
            asked = "/".join(filter(None, (name, below))) + (f".{group}" if group else "")
            assert (right.verb, asked) in given
    assert not [verb for verb, _, _ in _releases() if verb in {"delete", "deletecollection", "update", "*"}]


def _releases() -> list[tuple[str, str, str]]:
    return grants(manifest("Role", "vigie-releases", RELEASES))


def test_without_its_roles_nothing_can_be_scraped(bare: Serving, tmp_path: Path) -> None:
    exporters = KubernetesExporters("rehearsal", str(kubeconfig_of(bare, "vigie-checkpoints", tmp_path)))
    with pytest.raises(PortError) as caught:
        exporters.find()
    assert caught.value.status == 403
