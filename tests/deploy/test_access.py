"""The watch worker's role: enough for the real adapter, and nothing in it that the adapter can do without.

The rehearsal enforces RBAC. What most clusters grant to everybody (`/version`) is taken away first: the role stands alone.
"""

import copy
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.adapters.cluster_streams import Patience
from fleet.domain.kube import RESOURCES, Bookmark, Kind, Listed, Lost
from fleet.live import MemoryPicture
from fleet.observe import Writer
from fleet.ports import PortError
from fleet.simulation.auth import service_account
from fleet.simulation.rehearsal import Rehearsal, Serving, serving
from tests.deploy.files import Object, manifest
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


class Account:
    """The rehearsal as the service account sees it; `role` is what it may do at the moment."""

    def __init__(self, cluster: Serving, home: Path) -> None:
        self._cluster, self._store = cluster, cluster.rehearsal.store
        cluster.call(self._plant)
        self.kubeconfig = home / "kubeconfig"
        user = service_account("vigie", "vigie-watch")
        config = yaml.safe_load(cluster.call(lambda: cluster.server.kubeconfig("rehearsal", user)))
        token = cluster.call(lambda: cluster.server.auth.issue_for_account("vigie", "vigie-watch"))
        config["users"][0]["user"]["token"] = token
        self.kubeconfig.write_text(yaml.safe_dump(config))
        self.cluster = KubernetesCluster("rehearsal", str(self.kubeconfig), QUICK)

    def _plant(self) -> None:
        for binding in self._store.list("clusterrolebindings"):
            if binding["metadata"]["name"].startswith("system:"):
                self._store.delete("clusterrolebindings", None, binding["metadata"]["name"])
        plurals = {"Namespace": "namespaces", "ServiceAccount": "serviceaccounts"}
        for kind, name in (("Namespace", "vigie"), ("ServiceAccount", "vigie-watch")):
            self._store.create(plurals[kind], copy.deepcopy(manifest(kind, name)), manager="test")
        self._store.create("clusterroles", copy.deepcopy(ROLE), manager="test")
        binding = copy.deepcopy(manifest("ClusterRoleBinding", "vigie-watch"))
        self._store.create("clusterrolebindings", binding, manager="test")

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
        if not self.cluster._server.uid():
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
    pools, url, headers = given.cluster._server._request("/", {})
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
