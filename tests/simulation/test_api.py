"""The API's semantics, request by request: reading, writing, access. Numbers in names are lines of api-server.md."""

import asyncio
import json
from typing import Any

import pytest

from fleet.simulation.auth import User, service_account
from tests.simulation.http import APPLY, JSON_PATCH, MERGE, STRATEGIC, TABLE, Api, causes, container

NODES = "/api/v1/nodes"
NODE = "/api/v1/nodes/n1"
PODS = "/api/v1/namespaces/test/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/test/deployments"


@pytest.fixture
def api() -> Api:
    made = Api()
    made.namespace()
    return made


def names(response: Any) -> list[str]:
    return [i["metadata"]["name"] for i in response.json()["items"]]


def deployment(name: str = "web", **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container()]}}
    chosen = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": chosen}


class TestReading:
    async def test_lists_leave_kind_out_and_gets_have_it(self, api: Api) -> None:
        api.node("n1")
        listed = (await api.get(NODES)).json()
        assert listed["kind"] == "NodeList"
        assert not {"kind", "apiVersion"} & set(listed["items"][0])
        assert (await api.get(NODE)).json()["kind"] == "Node"

    async def test_pages_are_of_one_moment(self, api: Api) -> None:
        """A page shows the state of the first one, whatever has happened since (21)."""
        for index in range(5):
            api.node(f"n{index}")
        first = (await api.get(NODES, limit="2")).json()
        assert first["metadata"]["remainingItemCount"] == 3
        api.store.delete("nodes", None, "n3")
        api.node("n25")
        token = first["metadata"]["continue"]
        second = await api.get(NODES, limit="2", **{"continue": token})
        assert names(second) == ["n2", "n3"]
        assert second.json()["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        last = await api.get(NODES, limit="2", **{"continue": second.json()["metadata"]["continue"]})
        assert names(last) == ["n4"]
        assert set(last.json()["metadata"]) == {"resourceVersion"}

    async def test_an_old_page_offers_to_go_on_inconsistently_20(self, api: Api) -> None:
        for index in range(4):
            api.node(f"n{index}")
        token = (await api.get(NODES, limit="2")).json()["metadata"]["continue"]
        api.node("n05")
        api.store.expire()
        gone = await api.get(NODES, limit="2", **{"continue": token})
        assert (gone.status_code, gone.json()["reason"]) == (410, "Expired")
        offered = gone.json()["metadata"]["continue"]
        assert names(await api.get(NODES, limit="2", **{"continue": offered})) == ["n2", "n3"]

    async def test_versions_22(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fleet.simulation.reading.PATIENCE_S", 0.0)
        for index in range(3):
            api.node(f"n{index}")
        version = str(api.store.resource_version)
        api.node("n9")
        assert len(names(await api.get(NODES, limit="1", resourceVersion="0"))) == 4  # limit is ignored
        assert len(names(await api.get(NODES, resourceVersion=version, resourceVersionMatch="Exact"))) == 3
        assert len(names(await api.get(NODES, resourceVersion=version, resourceVersionMatch="NotOlderThan"))) == 4
        future = await api.get(NODES, resourceVersion="99999")
        assert future.status_code == 504
        assert future.headers["retry-after"] == "1"
        assert future.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
        api.store.expire()
        old = await api.get(NODES, resourceVersion="1", resourceVersionMatch="Exact")
        assert (old.status_code, old.json()["message"]) == (
            410,
            "The resourceVersion for the provided list is too old.",
        )

    async def test_a_list_waits_a_moment_for_its_version(self, api: Api) -> None:
        asking = asyncio.create_task(api.get(NODES, resourceVersion=str(api.store.resource_version + 1)))
        await asyncio.sleep(0.02)
        api.node("n1")
        assert names(await asking) == ["n1"]

    @pytest.mark.parametrize(
        ("query", "status"),
        [
            ({"continue": "zzz"}, 400),
            ({"labelSelector": "a in (b"}, 400),
            ({"fieldSelector": "spec.foo=1"}, 400),
            ({"resourceVersion": "abc"}, 400),
            ({"limit": "x"}, 400),
            ({"resourceVersionMatch": "Exact"}, 422),
            ({"resourceVersion": "1", "resourceVersionMatch": "Sometimes"}, 422),
            ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422),
            ({"sendInitialEvents": "true"}, 422),
        ],
    )
    async def test_bad_options(self, api: Api, query: dict[str, str], status: int) -> None:
        assert (await api.get(NODES, **query)).status_code == status

    async def test_selectors(self, api: Api) -> None:
        api.node("n1", zone="a")
        api.node("n2", zone="b")
        api.pod("p1", "n1", app="x")
        api.pod("p2", "n2", app="x")
        assert names(await api.get(NODES, labelSelector="zone in (b)")) == ["n2"]
        chosen = await api.get("/api/v1/pods", fieldSelector="spec.nodeName=n1", labelSelector="app=x")
        assert names(chosen) == ["p1"]
        selected = (await api.get("/api/v1/pods", labelSelector="app", limit="1")).json()["metadata"]
        assert "continue" in selected
        assert "remainingItemCount" not in selected

    async def test_a_namespace_that_does_not_exist_is_empty_22(self, api: Api) -> None:
        assert (await api.get("/api/v1/namespaces/nope/pods")).json()["items"] == []

    async def test_forms(self, api: Api) -> None:
        api.node("n1")
        table = (await api.get(NODES, TABLE)).json()
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        assert "object" not in (await api.get(NODES, TABLE, includeObject="None")).json()["rows"][0]
        whole = (await api.get(NODES, TABLE, includeObject="Object")).json()["rows"][0]["object"]
        assert (whole["kind"], whole["status"]["capacity"]) == ("Node", {"nvidia.com/gpu": "8"})
        partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
        assert (await api.get(NODES, partial)).json()["items"][0]["kind"] == "PartialObjectMetadata"
        assert (await api.get(NODE, f"{TABLE}, application/json")).json()["kind"] == "Table"
        assert (await api.get(NODE, "application/vnd.kubernetes.protobuf, */*")).json()["kind"] == "Node"
        assert (await api.get(NODES, "text/csv")).status_code == 406

    async def test_legacy_endpoints_come_with_a_warning(self, api: Api) -> None:
        answer = await api.get("/api/v1/endpoints")
        assert answer.headers["warning"].startswith('299 - "v1 Endpoints is deprecated in v1.33+')

    async def test_events_in_both_groups(self, api: Api) -> None:
        event = {
            "metadata": {"name": "e1", "namespace": "test"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "regarding": {"kind": "Pod", "namespace": "test", "name": "p"},
            "note": "hello",
            "reason": "Test",
            "type": "Normal",
            "reportingController": "tester",
        }
        path = "/apis/events.k8s.io/v1/namespaces/test/events"
        made = await api.post(path, event)
        assert made.status_code == 201
        assert made.json()["apiVersion"] == "events.k8s.io/v1"
        assert made.json()["note"] == "hello"
        core = (await api.get("/api/v1/namespaces/test/events/e1")).json()
        assert (core["message"], core["involvedObject"]["name"], core["firstTimestamp"]) == ("hello", "p", None)
        assert names(await api.get(path, fieldSelector="regarding.name=p")) == ["e1"]
        assert (await api.get(path)).json()["items"][0]["deprecatedSource"] == {}
        bad = await api.post(
            path, {"metadata": {"name": "e2", "namespace": "test"}, "regarding": {"kind": "Node", "name": "n"}}
        )
        assert causes(bad) == [("FieldValueInvalid", "involvedObject.namespace"), ("FieldValueRequired", "eventTime")]

    @pytest.mark.parametrize(
        "path",
        [
            "/apis/metrics.k8s.io/v1beta1/nodes",
            "/nope",
            "/api/v1/gizmos",
            "/apis/apps/v1/nodes",
            "/api/v1/pods/a/b/c/d",
        ],
    )
    async def test_what_is_not_served(self, api: Api, path: str) -> None:
        answer = await api.get(path)
        assert (answer.status_code, answer.text) == (404, "404 page not found\n")


class TestWriting:
    async def test_create_and_delete(self, api: Api) -> None:
        made = await api.post(DEPLOYMENTS, deployment())
        assert made.status_code == 201
        assert made.json()["metadata"]["namespace"] == "test"
        assert (await api.post(DEPLOYMENTS, deployment())).json()["reason"] == "AlreadyExists"
        gone = (await api.delete(f"{DEPLOYMENTS}/web")).json()
        uid = made.json()["metadata"]["uid"]
        assert gone["status"] == "Success"
        assert gone["details"] == {"name": "web", "group": "apps", "kind": "deployments", "uid": uid}
        assert (await api.delete(f"{DEPLOYMENTS}/web")).json()["message"] == 'deployments.apps "web" not found'

    async def test_deletion_options(self, api: Api) -> None:
        api.node("n1")
        api.pod("p", "n1", "test")
        dry = await api.delete(f"{PODS}/p", {"dryRun": ["All"]})
        assert dry.json()["metadata"]["deletionGracePeriodSeconds"] == 30
        wrong = await api.delete(f"{PODS}/p", {"preconditions": {"uid": "other"}})
        assert wrong.status_code == 409
        assert wrong.json()["message"].startswith('Operation cannot be fulfilled on pods "p": Precondition failed: UID')
        assert (await api.delete(f"{PODS}/p", {"propagationPolicy": "Sideways"})).status_code == 422
        marked = await api.delete(f"{PODS}/p", gracePeriodSeconds="7")
        assert marked.json()["metadata"]["deletionGracePeriodSeconds"] == 7
        assert (await api.delete(f"{PODS}/p", gracePeriodSeconds="0")).status_code == 200
        assert (await api.get(f"{PODS}/p")).status_code == 404

    async def test_a_collection_is_deleted_by_selector(self, api: Api) -> None:
        for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
            api.pod(name, namespace="test", app=app)
        assert len((await api.delete(PODS, labelSelector="app=x")).json()["items"]) == 2
        assert names(await api.get(PODS)) == ["b"]

    @pytest.mark.parametrize("dry_run", ["", "All"])
    async def test_stale_versions_15(self, api: Api, dry_run: str) -> None:
        old = api.node("n1")
        await api.patch(NODE, {"spec": {"unschedulable": True}})
        query = {"dryRun": dry_run} if dry_run else {}
        stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "spec": {"unschedulable": None}}
        for kind in (MERGE, STRATEGIC):
            assert (await api.patch(NODE, stale, kind, **query)).json()["reason"] == "Conflict"
        assert (await api.put(NODE, old, **query)).json()["reason"] == "Conflict"
        foreign = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}
        assert causes(await api.patch(NODE, foreign, **query)) == [("FieldValueInvalid", "metadata.uid")] * 2

    async def test_a_patch_without_effect_keeps_the_version_15(self, api: Api) -> None:
        api.node("n1")
        first = await api.patch(NODE, {"spec": {"unschedulable": True}})
        assert (await api.patch(NODE, {"spec": {"unschedulable": True}}, STRATEGIC)).json() == first.json()

    async def test_a_merge_patch_of_containers_drops_resources_19(self, api: Api) -> None:
        await api.post(DEPLOYMENTS, deployment())
        change = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "sim.io/server:v2"}]}}}}
        for kind, kept in ((STRATEGIC, True), (MERGE, False)):
            made = (await api.patch(f"{DEPLOYMENTS}/web", change, kind, dryRun="All")).json()
            found = made["spec"]["template"]["spec"]["containers"][0]
            assert found["image"] == "sim.io/server:v2"
            assert bool(found["resources"]) is kept

    async def test_fields_17(self, api: Api) -> None:
        api.node("n1")
        unknown = {"spec": {"unschedulabel": True}}
        warned = await api.patch(NODE, unknown)
        assert warned.headers["warning"] == '299 - "unknown field \\"spec.unschedulabel\\""'
        assert "unschedulabel" not in warned.text
        assert "warning" not in (await api.patch(NODE, unknown, fieldValidation="Ignore")).headers
        strict = await api.patch(NODE, unknown, fieldValidation="Strict")
        assert causes(strict) == [("FieldValueInvalid", "patch")]
        assert strict.json()["message"].endswith('strict decoding error: unknown field "spec.unschedulabel"')
        wrong = (await api.patch(NODE, {"spec": {"unschedulable": "yes"}})).json()["message"]
        assert '\\"kind\\":\\"Node\\"' in wrong
        assert wrong.endswith(
            "json: cannot unmarshal string into Go struct field NodeSpec.spec.unschedulable of type bool"
        )
        assert (await api.patch(NODE, unknown, fieldValidation="Never")).status_code == 422
        refused = await api.post(NODES, {"metadata": {"name": "x"}, "spec": {"nope": 1}}, fieldValidation="Strict")
        assert refused.status_code == 400
        assert 'strict decoding error: unknown field "spec.nope"' in refused.json()["message"]

    @pytest.mark.parametrize(
        ("body", "kind", "status", "words"),
        [
            (
                b"{not json",
                MERGE,
                400,
                "error decoding patch: invalid character 'n' looking for beginning of object key",
            ),
            (b"", MERGE, 400, "error decoding patch: unexpected end of JSON input"),
            (b"{}", "application/x-foo", 415, "415: Unsupported Media Type"),
            (b"[1]", MERGE, 400, "error decoding patch"),
            (b"{}", JSON_PATCH, 400, "error decoding patch"),
            (b'{"metadata":{"name":"other"}}', MERGE, 400, "the name of the object (other) does not match"),
        ],
    )
    async def test_malformed_patches(self, api: Api, body: bytes, kind: str, status: int, words: str) -> None:
        api.node("n1")
        answer = await api.patch(NODE, body, kind)
        assert answer.status_code == status
        assert words in answer.json()["message"]

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            (b"{", 400),
            (b"[]", 400),
            (b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}', 400),
            (b'{"metadata":{"name":"x","namespace":"other"},"spec":{}}', 400),
            (b'{"metadata":{"name":"x"},"spec":{"replicas":"2"}}', 400),
            (b'{"metadata":{"name":"x"},"spec":{}}', 422),
            (b'{"metadata":{"name":"Bad_Name"},"spec":{}}', 422),
        ],
    )
    async def test_malformed_creations(self, api: Api, body: bytes, status: int) -> None:
        assert (await api.call("POST", DEPLOYMENTS, body)).status_code == status

    async def test_bodies_may_be_yaml_but_not_csv(self, api: Api) -> None:
        body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n"
        path = "/api/v1/namespaces/test/configmaps"
        assert (await api.call("POST", path, body, "application/yaml")).json()["data"] == {"a": "b"}
        assert (await api.call("POST", path, body, "text/csv")).status_code == 415

    async def test_the_status_subresource(self, api: Api) -> None:
        await api.post(DEPLOYMENTS, deployment())
        path = f"{DEPLOYMENTS}/web/status"
        changed = await api.patch(path, {"spec": {"replicas": 9}, "status": {"replicas": 3}})
        assert (changed.json()["spec"]["replicas"], changed.json()["status"]["replicas"]) == (2, 3)
        assert (await api.get(path)).json()["status"] == {"replicas": 3}

    async def test_scale(self, api: Api) -> None:
        await api.post(DEPLOYMENTS, deployment())
        path = f"{DEPLOYMENTS}/web/scale"
        scale = (await api.get(path)).json()
        assert (scale["kind"], scale["spec"], scale["status"]) == (
            "Scale",
            {"replicas": 2},
            {"replicas": 0, "selector": "app=web"},
        )
        assert (await api.patch(path, {"spec": {"replicas": 5}})).json()["spec"] == {"replicas": 5}
        assert (await api.put(path, scale)).json()["reason"] == "Conflict"
        assert (await api.patch(path, {"spec": {"replicas": -1}})).status_code == 422
        assert (await api.get(f"{DEPLOYMENTS}/web")).json()["metadata"]["generation"] == 2

    async def test_binding(self, api: Api) -> None:
        api.node("n1")
        api.pod("p", namespace="test")
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
        assert (await api.post(f"{PODS}/p/binding", binding)).status_code == 201
        assert (await api.get(f"{PODS}/p")).json()["spec"]["nodeName"] == "n1"
        assert (await api.post(f"{PODS}/p/binding", binding)).status_code == 409

    async def test_apply(self, api: Api) -> None:
        api.node("n1")
        wanted = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"unschedulable": True}}
        missing = await api.patch(NODE, wanted, APPLY)
        assert causes(missing) == [("FieldValueRequired", "fieldManager")]
        assert (await api.patch(NODE, wanted, APPLY, fieldManager="a")).json()["spec"] == {"unschedulable": True}
        other = {**wanted, "spec": {"unschedulable": False}}
        refused = await api.patch(NODE, other, APPLY, fieldManager="b")
        assert refused.json()["message"] == 'Apply failed with 1 conflict: conflict with "a": .spec.unschedulable'
        assert causes(refused) == [("FieldManagerConflict", ".spec.unschedulable")]
        forced = await api.patch(NODE, other, APPLY, fieldManager="b", force="true")
        assert forced.json()["spec"] == {"unschedulable": False}
        given_up = {k: v for k, v in wanted.items() if k != "spec"}
        assert (await api.patch(NODE, given_up, APPLY, fieldManager="b")).json()["spec"] == {}
        created = await api.patch("/api/v1/nodes/n2", {**wanted, "metadata": {"name": "n2"}}, APPLY, fieldManager="a")
        assert created.status_code == 201

    async def test_methods_that_a_resource_does_not_have(self, api: Api) -> None:
        api.node("n1")
        api.pod("p", namespace="test")
        assert (await api.post(NODE, {})).status_code == 405
        assert (await api.put(NODES, {})).status_code == 405
        assert (await api.get(f"{PODS}/p/eviction")).status_code == 405
        assert (await api.delete("/api/v1/namespaces")).status_code == 405

    async def test_bodies_have_a_limit(self, api: Api) -> None:
        assert (await api.call("POST", NODES, b" " * (3 * 1024 * 1024 + 1))).status_code == 413


class TestValidation:
    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            (
                {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
                "spec.strategy.rollingUpdate.maxUnavailable",
            ),
            ({"strategy": {"type": "Recreate", "rollingUpdate": {}}}, "spec.strategy.rollingUpdate"),
            ({"strategy": {"rollingUpdate": {"maxSurge": "x%"}}}, "spec.strategy.rollingUpdate.maxSurge"),
            ({"strategy": {"rollingUpdate": {"maxUnavailable": "150%"}}}, "spec.strategy.rollingUpdate.maxUnavailable"),
            ({"replicas": -1}, "spec.replicas"),
            ({"progressDeadlineSeconds": 5, "minReadySeconds": 10}, "spec.progressDeadlineSeconds"),
            ({"selector": {"matchLabels": {"app": "other"}}}, "spec.template.metadata.labels"),
            ({"selector": {}}, "spec.selector"),
        ],
    )
    async def test_deployments_25(self, api: Api, spec: dict[str, Any], field: str) -> None:
        answer = await api.post(DEPLOYMENTS, deployment(**spec))
        assert answer.status_code == 422
        assert [f for _, f in causes(answer)] == [field]

    @pytest.mark.parametrize(
        ("limits", "requests", "message"),
        [
            (
                {"nvidia.com/gpu": "1"},
                {"nvidia.com/gpu": "2"},
                'Invalid value: "2": must be equal to nvidia.com/gpu limit of 1',
            ),
            ({"nvidia.com/gpu": "500m"}, {}, 'Invalid value: "500m": must be an integer'),
            ({}, {"nvidia.com/gpu": "1"}, "Required value: Limit must be set for non overcommitable resources"),
            ({"cpu": "1"}, {"cpu": "1500m"}, 'Invalid value: "1500m": must be less than or equal to cpu limit of 1'),
            ({"memory": "-1"}, {}, 'Invalid value: "-1": must be greater than or equal to 0'),
        ],
    )
    async def test_quantities_19(self, api: Api, limits: Any, requests: Any, message: str) -> None:
        bad = {**container(), "resources": {"limits": limits, "requests": requests}}
        answer = await api.post(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [bad]}})
        assert message in [c["message"] for c in answer.json()["details"]["causes"]]

    async def test_requests_follow_limits(self, api: Api) -> None:
        some = {**container(), "resources": {"limits": {"nvidia.com/gpu": 2, "cpu": "1"}}}
        made = await api.post(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [some]}})
        assert made.json()["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "2", "cpu": "1"}

    async def test_a_pods_spec_is_fixed(self, api: Api) -> None:
        api.pod("p", namespace="test")
        image = {"spec": {"containers": [{"name": "main", "image": "other:1"}]}}
        assert (await api.patch(f"{PODS}/p", image, STRATEGIC)).status_code == 200
        answer = await api.patch(f"{PODS}/p", {"spec": {"nodeName": "n1"}})
        assert causes(answer) == [("FieldValueForbidden", "spec")]

    async def test_what_may_not_change(self, api: Api) -> None:
        await api.post(DEPLOYMENTS, deployment())
        labels = {"app": "other"}
        change = {"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}}
        assert causes(await api.patch(f"{DEPLOYMENTS}/web", change)) == [("FieldValueInvalid", "spec.selector")]
        service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
        made = await api.post("/api/v1/namespaces/test/services", service)
        assert made.json()["spec"]["clusterIPs"] == [made.json()["spec"]["clusterIP"]]
        moved = await api.patch("/api/v1/namespaces/test/services/web", {"spec": {"clusterIP": "10.0.0.2"}})
        assert causes(moved) == [("FieldValueInvalid", "spec.clusterIPs[0]")]

    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            ({"minAvailable": 1, "maxUnavailable": 1}, "spec"),
            ({"minAvailable": "x%"}, "spec.minAvailable"),
            ({"minAvailable": -1}, "spec.minAvailable"),
            ({"unhealthyPodEvictionPolicy": "Never"}, "spec.unhealthyPodEvictionPolicy"),
        ],
    )
    async def test_budgets(self, api: Api, spec: dict[str, Any], field: str) -> None:
        body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, **spec}}
        answer = await api.post("/apis/policy/v1/namespaces/test/poddisruptionbudgets", body)
        assert [f for _, f in causes(answer)] == [field]

    async def test_taints(self, api: Api) -> None:
        api.node("n1")
        answer = await api.patch(NODE, {"spec": {"taints": [{"key": "a", "effect": "Explode"}]}})
        assert causes(answer) == [("FieldValueNotSupported", "metadata.taints[0].effect")]


class TestAccess:
    async def test_unknown_tokens_and_none_35(self, api: Api) -> None:
        refused = await api.call("GET", NODES, headers={"authorization": "Bearer wrong"})
        assert refused.status_code == 401
        assert "details" not in refused.json()
        anonymous = await api.call("GET", NODES, headers={"authorization": ""})
        assert anonymous.json()["message"] == (
            'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group "" at the cluster scope'
        )
        assert anonymous.json()["details"] == {"kind": "nodes"}

    @pytest.mark.parametrize(("path", "status"), [("/version", 200), ("/readyz", 200), ("/livez", 200), ("/apis", 403)])
    async def test_what_everybody_may_see(self, api: Api, path: str, status: int) -> None:
        assert (await api.call("GET", path, headers={"authorization": ""})).status_code == status

    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", ""])
    async def test_other_hosts_are_not_served(self, api: Api, host: str) -> None:
        answer = await api.client.get("/version", headers={"host": host})
        assert answer.status_code == 421

    async def test_a_reader_reads(self, api: Api) -> None:
        api.node("n1")
        api.token = api.auth.issue(User("reader", ("fleet-readers", "system:authenticated")))
        assert (await api.get(NODES)).status_code == 200
        refused = await api.patch(NODE, {"spec": {"unschedulable": True}})
        assert refused.json()["message"] == (
            'nodes "n1" is forbidden: User "reader" cannot patch resource "nodes" in API group "" at the cluster scope'
        )
        assert (await api.get("/api/v1/secrets")).status_code == 403
        assert (await api.get("/apis")).status_code == 200

    async def test_roles_of_the_cluster_count(self, api: Api) -> None:
        api.store.create("serviceaccounts", {"metadata": {"name": "bot", "namespace": "test"}}, manager="x")
        rules = [{"verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"]}]
        api.store.create("roles", {"metadata": {"name": "evict", "namespace": "test"}, "rules": rules}, manager="x")
        binding = {
            "metadata": {"name": "evict", "namespace": "test"},
            "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "test"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "evict"},
        }
        api.store.create("rolebindings", binding, manager="x")
        api.token = api.auth.issue(service_account("test", "bot"))
        review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        asked = {"verb": "create", "resource": "pods", "subresource": "eviction", "namespace": "test"}
        allowed = (await api.post(review, {"spec": {"resourceAttributes": asked}})).json()["status"]
        assert allowed["allowed"] is True
        assert allowed["reason"].startswith(
            'RBAC: allowed by RoleBinding "evict/test" of Role "evict" to ServiceAccount'
        )
        elsewhere = await api.post(review, {"spec": {"resourceAttributes": {**asked, "namespace": "default"}}})
        assert elsewhere.status_code == 201
        assert elsewhere.json()["status"] == {"allowed": False}
        assert causes(await api.post(review, {"spec": {}})) == [("FieldValueInvalid", "spec.resourceAttributes")]

    async def test_reviews_of_oneself_and_of_tokens(self, api: Api) -> None:
        me = await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert me.json()["status"]["userInfo"]["username"] == "admin"
        api.store.create("serviceaccounts", {"metadata": {"name": "agent", "namespace": "test"}}, manager="x")
        issued = await api.post(
            "/api/v1/namespaces/test/serviceaccounts/agent/token", {"spec": {"audiences": ["vigie"]}}
        )
        token = issued.json()["status"]["token"]
        reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
        review = (await api.post(reviews, {"spec": {"token": token, "audiences": ["vigie"]}})).json()["status"]
        assert review["authenticated"] is True
        assert review["user"]["username"] == "system:serviceaccount:test:agent"
        assert "authenticated" not in (await api.post(reviews, {"spec": {"token": "nope"}})).json()["status"]

    async def test_impersonation(self, api: Api) -> None:
        as_alice = {"impersonate-user": "alice"}
        assert 'User "alice" cannot list' in (await api.call("GET", NODES, headers=as_alice)).json()["message"]
        masters = {**as_alice, "impersonate-group": "system:masters"}
        assert (await api.call("GET", NODES, headers=masters)).status_code == 200
        api.token = api.auth.issue(User("reader", ("fleet-readers", "system:authenticated")))
        refused = (await api.call("GET", NODES, headers=as_alice)).json()["message"]
        assert 'User "reader" cannot impersonate-on:user-info:list resource "nodes"' in refused

    async def test_a_starting_server_24(self, api: Api) -> None:
        api.app.phase = "starting"
        assert (await api.call("GET", "/readyz", headers={"authorization": ""})).status_code == 403
        api.app.phase = "unready"
        answer = await api.call("GET", "/readyz", headers={"authorization": ""})
        assert answer.status_code == 500
        assert "[-]poststarthook/rbac/bootstrap-roles failed" in answer.text
        assert (await api.call("GET", "/livez", headers={"authorization": ""})).status_code == 200


async def test_a_crash_of_a_handler_is_an_answer(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(api.store, "record", broken)
    answer = await api.get(NODE)
    assert (answer.status_code, answer.json()["reason"]) == (500, "InternalError")
    assert json.loads(answer.text)["message"] == "Internal error occurred: out of order"
