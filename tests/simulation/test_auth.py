"""Tokens that end, people who speak for others, and reviews of both."""

from typing import Any

import pytest

from fleet.simulation.auth import User
from fleet.simulation.bootstrap_roles import AUTHENTICATED
from tests.simulation.http import Api

Object = dict[str, Any]

ACCOUNTS = "/api/v1/namespaces/test/serviceaccounts"
MYSELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


@pytest.fixture
async def api() -> Api:
    made = Api()
    made.namespace()
    await made.post(ACCOUNTS, {"metadata": {"name": "robot"}})
    return made


async def token_of(api: Api, seconds: int = 3600) -> str:
    answer = await api.post(f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": seconds}})
    assert answer.status_code == 201
    issued: str = answer.json()["status"]["token"]
    return issued


async def works(api: Api, token: str) -> bool:
    answer = await api.call("GET", "/version", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code in {200, 401}
    return answer.status_code == 200


class TestTokens:
    async def test_whose_it_is_and_which(self, api: Api) -> None:
        api.token = await token_of(api)
        user = (await api.post(MYSELF, {})).json()["status"]["userInfo"]
        assert user["username"] == "system:serviceaccount:test:robot"
        assert user["uid"] == api.store.get("serviceaccounts", "test", "robot")["metadata"]["uid"]
        assert user["groups"] == ["system:serviceaccounts", "system:serviceaccounts:test", AUTHENTICATED]
        (credential,) = user["extra"]["authentication.kubernetes.io/credential-id"]
        assert credential.startswith("JTI=")

    async def test_a_deleted_accounts_token_lives_on_for_ten_seconds_35(self, api: Api) -> None:
        token = await token_of(api)
        assert await works(api, token)
        api.store.delete("serviceaccounts", "test", "robot")
        await api.clock.advance(9)
        assert await works(api, token)
        await api.clock.advance(2)
        assert not await works(api, token)

    async def test_one_that_was_never_used_ends_at_once_35(self, api: Api) -> None:
        token = await token_of(api)
        api.store.delete("serviceaccounts", "test", "robot")
        assert not await works(api, token)

    async def test_an_account_of_the_same_name_is_another(self, api: Api) -> None:
        token = await token_of(api)
        api.store.delete("serviceaccounts", "test", "robot")
        await api.post(ACCOUNTS, {"metadata": {"name": "robot"}})
        assert not await works(api, token)

    async def test_they_expire(self, api: Api) -> None:
        token = await token_of(api, 600)
        await api.clock.advance(601)
        assert not await works(api, token)
        refused = await api.post(f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 5}})
        assert refused.status_code == 422

    async def test_a_review_says_whose(self, api: Api) -> None:
        known = (await api.post(TOKENS, {"spec": {"token": await token_of(api)}})).json()["status"]
        assert (known["authenticated"], known["user"]["username"]) == (True, "system:serviceaccount:test:robot")
        unknown = (await api.post(TOKENS, {"spec": {"token": "x"}})).json()["status"]
        assert "authenticated" not in unknown
        assert unknown["error"] == "[invalid bearer token, token lookup failed]"


class TestImpersonation:
    async def speaking_for(self, api: Api, name: str, groups: str = "") -> Any:
        headers = {"impersonate-user": name, "impersonate-group": groups}
        return await api.call("POST", MYSELF, {}, headers=headers)

    @pytest.mark.parametrize(
        ("name", "groups", "shown"),
        [
            ("alice", "", [AUTHENTICATED]),
            ("alice", "ops,dev", ["ops", "dev", AUTHENTICATED]),
            (
                "system:serviceaccount:test:robot",
                "",
                ["system:serviceaccounts", "system:serviceaccounts:test", AUTHENTICATED],
            ),
        ],
    )
    async def test_one_is_whom_one_speaks_for(self, api: Api, name: str, groups: str, shown: list[str]) -> None:
        user = (await self.speaking_for(api, name, groups)).json()["status"]["userInfo"]
        assert (user["username"], user["groups"]) == (name, shown)

    async def test_a_group_alone_is_nobody(self, api: Api) -> None:
        answer = await api.call("POST", MYSELF, {}, headers={"impersonate-group": "ops"})
        assert answer.status_code == 500
        assert "without impersonating a user" in answer.json()["message"]

    async def test_each_name_and_group_needs_a_right_35(self, api: Api) -> None:
        role = {"metadata": {"name": "speaker"}, "rules": [_may("users", "alice"), _may("groups", "ops")]}
        ref = {"kind": "ClusterRole", "name": "speaker"}
        binding = {"metadata": {"name": "speaker"}, "roleRef": ref, "subjects": [{"kind": "User", "name": "eve"}]}
        api.store.create("clusterroles", role, manager="test")
        api.store.create("clusterrolebindings", binding, manager="test")
        api.token = api.auth.issue(User("eve", (AUTHENTICATED,)))
        assert (await self.speaking_for(api, "alice", "ops")).status_code == 201
        for name, groups in (("bob", ""), ("alice", "dev"), ("system:serviceaccount:test:robot", "")):
            refused = await self.speaking_for(api, name, groups)
            assert refused.status_code == 403
            assert "cannot impersonate-on:user-info:create" in refused.json()["message"]


def _may(resource: str, name: str) -> dict[str, Any]:
    return {"verbs": ["impersonate"], "apiGroups": [""], "resources": [resource], "resourceNames": [name]}


class TestRoles:
    async def test_view_reads_no_nodes_and_no_secrets_35(self, api: Api) -> None:
        ref = {"kind": "ClusterRole", "name": "view"}
        subject = {"kind": "ServiceAccount", "namespace": "test", "name": "robot"}
        api.store.create(
            "clusterrolebindings", {"metadata": {"name": "v"}, "roleRef": ref, "subjects": [subject]}, manager="test"
        )
        api.token = await token_of(api)
        assert (await api.get("/api/v1/pods")).status_code == 200
        for path in ("/api/v1/nodes", "/api/v1/namespaces/test/secrets"):
            assert (await api.get(path)).status_code == 403

    async def test_a_binding_that_goes_takes_its_rights_along(self, api: Api) -> None:
        ref = {"kind": "ClusterRole", "name": "view"}
        subject = {"kind": "ServiceAccount", "name": "robot"}
        metadata = {"name": "v", "namespace": "test"}
        binding = {"metadata": metadata, "roleRef": ref, "subjects": [subject]}
        api.store.create("rolebindings", binding, manager="test")
        admin, api.token = api.token, await token_of(api)
        pods = "/api/v1/namespaces/test/pods"
        assert (await api.get(pods)).status_code == 200
        assert (await api.get("/api/v1/namespaces/default/pods")).status_code == 403
        rules = (await api.post(RULES, {"spec": {"namespace": "test"}})).json()["status"]
        assert any("pods" in r["resources"] for r in rules["resourceRules"])
        api.token, robot = admin, api.token
        await api.delete("/apis/rbac.authorization.k8s.io/v1/namespaces/test/rolebindings/v")
        api.token = robot
        assert (await api.get(pods)).status_code == 403


class TestTokensForOthers:
    """Projected tokens: for an audience, and bound to a pod."""

    @pytest.fixture
    async def pod(self, api: Api) -> Object:
        api.store.create("nodes", {"metadata": {"name": "n0"}}, manager="test")
        spec = {"serviceAccountName": "robot", "containers": [{"name": "main", "image": "sim.io/agent:1"}]}
        api.store.create("pods", {"metadata": {"name": "agent", "namespace": "test"}, "spec": spec}, manager="test")
        return api.store.bind("test", "agent", "n0")

    async def ask(self, api: Api, **reference: str) -> tuple[int, Object]:
        spec: Object = {"audiences": ["vigie"], "expirationSeconds": 600}
        if reference:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", **reference}
        answer = await api.post(f"{ACCOUNTS}/robot/token", {"spec": spec})
        return answer.status_code, answer.json()

    async def review(self, api: Api, token: str, *audiences: str) -> Object:
        answer = await api.post(TOKENS, {"spec": {"token": token, "audiences": list(audiences)}})
        status: Object = answer.json()["status"]
        return status

    async def test_a_review_names_pod_node_and_audience(self, api: Api, pod: Object) -> None:
        _, issued = await self.ask(api, name="agent", uid=pod["metadata"]["uid"])
        status = await self.review(api, issued["status"]["token"], "vigie", "elsewhere")
        assert (status["authenticated"], status["audiences"]) == (True, ["vigie"])
        extra = status["user"]["extra"]
        node = api.store.get("nodes", None, "n0")["metadata"]["uid"]
        wanted = {"pod-name": "agent", "pod-uid": pod["metadata"]["uid"], "node-name": "n0", "node-uid": node}
        assert {k: extra[f"authentication.kubernetes.io/{k}"] for k in wanted} == {k: [v] for k, v in wanted.items()}

    async def test_it_is_good_for_nobody_else(self, api: Api, pod: Object) -> None:
        _, issued = await self.ask(api, name="agent")
        token = issued["status"]["token"]
        assert not await works(api, token), "the API server is not its audience"
        for asked in ((), ("elsewhere",)):
            status = await self.review(api, token, *asked)
            assert "authenticated" not in status
            assert 'token audiences ["vigie"] is invalid for the target audiences' in status["error"]
        people = await self.review(api, api.token, "vigie")
        assert "authenticated" not in people

    async def test_it_ends_with_its_time_and_with_its_pod(self, api: Api, pod: Object) -> None:
        _, issued = await self.ask(api, name="agent")
        api.store.delete("pods", "test", "agent", grace_s=0)
        status = await self.review(api, issued["status"]["token"], "vigie")
        assert status["error"] == "[invalid bearer token, service account token has been invalidated]"
        _, loose = await self.ask(api)
        await api.clock.advance(601)
        status = await self.review(api, loose["status"]["token"], "vigie")
        assert status["error"] == "[invalid bearer token, service account token has expired]"

    async def test_a_wrong_reference_is_refused(self, api: Api, pod: Object) -> None:
        assert (await self.ask(api, name="nobody"))[0] == 404
        assert (await self.ask(api, name="agent", uid="another"))[0] == 409
        assert (await self.ask(api, name="agent", kind="Secret"))[0] == 400
        other = {"metadata": {"name": "other", "namespace": "test"}}
        spec = {"containers": [{"name": "main", "image": "sim.io/agent:1"}]}
        api.store.create("pods", {**other, "spec": spec}, manager="test")
        code, refused = await self.ask(api, name="other")
        assert (code, refused["message"].split(" to pod")[0]) == (400, 'cannot bind token for serviceaccount "robot"')
