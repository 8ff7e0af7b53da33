"""What comes in a body: protobuf for the few kinds that need it, continue tokens, the schema of fields, paths."""

import json
from typing import Any

import pytest

from fleet.simulation import paging, protobuf, schema
from fleet.simulation.exchange import target_of
from fleet.simulation.refusals import ApiError
from tests.simulation import schema_from_models

# Sent by kubectl 1.32 for `auth can-i delete pods`.
ACCESS_REVIEW = bytes.fromhex(
    "6b3873000a320a17617574686f72697a6174696f6e2e6b38732e696f2f7631121753656c665375626a656374416363657373526576696577"
    "123f0a100a0012001a0022002a0032003800420012210a1f0a0764656661756c74120664656c6574651a0022002a04706f647332003a001a"
    "0808001200" + "1a0020001a002200"
)


def test_kubectls_access_review() -> None:
    decoded = protobuf.decode(ACCESS_REVIEW)
    assert decoded is not None
    assert (decoded["kind"], decoded["apiVersion"]) == ("SelfSubjectAccessReview", "authorization.k8s.io/v1")
    assert decoded["spec"]["resourceAttributes"] == {"namespace": "default", "verb": "delete", "resource": "pods"}


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def message(kind: str, *content: bytes) -> bytes:
    head = field(1, field(1, b"policy/v1") + field(2, kind.encode()))
    return protobuf.MAGIC + head + field(2, b"".join(content))


def test_an_eviction() -> None:
    metadata = field(1, field(1, b"p") + field(3, b"ns"))
    options = field(2, field(1, 7) + field(2, field(1, b"uid-1")) + field(5, b"All"))
    assert protobuf.decode(message("Eviction", metadata, options)) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "ns"},
        "deleteOptions": {"gracePeriodSeconds": 7, "preconditions": {"uid": "uid-1"}, "dryRun": ["All"]},
    }


def test_kinds_that_are_not_known_are_said_to_be_so() -> None:
    assert protobuf.decode(message("Deployment")) is None


@pytest.mark.parametrize("body", [b"", b"{}", b"k8s\x00\x0a\xff", b"k8s\x00\x0a", ACCESS_REVIEW[:40], b"k8s\x00\x0b"])
def test_what_is_no_protobuf(body: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        protobuf.decode(body)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("version", "key", "prefix", "cached", "token"),
    [
        (
            6777,
            "gpu-node-02",
            "",
            True,
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Njc3Nywic3RhcnQiOiIvZ3B1LW5vZGUtMDJcdTAwMDAifQ",
        ),
        (
            6872,
            "fleet/chat-llm-7c9c7d86fd-k57w2",
            "fleet/",
            True,
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Njg3Miwic3RhcnQiOiIvY2hhdC1sbG0tN2M5YzdkODZmZC1rNTd3Mlx1MDAwMCJ9",
        ),
    ],
)
def test_continue_tokens_are_those_of_a_real_server(
    version: int, key: str, prefix: str, cached: bool, token: str
) -> None:
    assert paging.token(version, key, prefix, cached=cached) == token
    assert paging.parse(token, prefix) == paging.Place(version, key)


@pytest.mark.parametrize("token", ["zzz", "", "!!!", "eyJ2IjoieCIsInJ2IjoxLCJzdGFydCI6IiJ9"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(ApiError) as refused:
        paging.parse(token, "")
    assert refused.value.message.startswith("invalid continue token: continue key is not valid: ")


def test_the_schema_is_that_of_the_published_models() -> None:
    assert json.loads(schema_from_models.SCHEMA.read_text()) == schema_from_models.schema()


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", **spec.pop("container", {})}], **spec}}


@pytest.mark.parametrize(
    ("obj", "paths"),
    [
        (pod(), []),
        (pod(nodeNam="x"), ["spec.nodeNam"]),
        (pod(container={"imag": "x"}), ["spec.containers[0].imag"]),
        (pod(container={"resources": {"limit": {}}}), ["spec.containers[0].resources.limit"]),
        ({**pod(), "extra": 1}, ["extra"]),
        ({"metadata": {"labels": {"any": "thing"}, "managedFields": [{"x": 1}]}}, []),
    ],
)
def test_unknown_fields(obj: dict[str, Any], paths: list[str]) -> None:
    assert schema.unknown_fields("Pod", obj) == paths
    assert schema.unknown_fields("Pod", schema.without_unknown("Pod", obj)) == []


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (pod(), ""),
        (pod(nodeName=1), "cannot unmarshal number into Go struct field PodSpec.spec.nodeName of type string"),
        (pod(hostNetwork="yes"), "cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        (
            pod(container={"image": True}),
            "cannot unmarshal bool into Go struct field Container.spec.containers.image of type string",
        ),
        (pod(terminationGracePeriodSeconds="1"), "PodSpec.spec.terminationGracePeriodSeconds of type int64"),
        (pod(priority="1"), "PodSpec.spec.priority of type int32"),
        (
            {"spec": {"containers": {}}},
            "cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        ({"spec": []}, "cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        ({"metadata": {"labels": {"a": 1}}}, "ObjectMeta.metadata.labels of type string"),
        (pod(container={"resources": {"limits": {"nvidia.com/gpu": 1}}}), ""),
    ],
)
def test_wrong_types(obj: dict[str, Any], words: str) -> None:
    found = schema.type_error("Pod", obj)
    assert words in found
    assert bool(words) is bool(found)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/api/v1/nodes", ("nodes", "", "", "")),
        ("/api/v1/nodes/n1/status", ("nodes", "", "n1", "status")),
        ("/api/v1/namespaces", ("namespaces", "", "", "")),
        ("/api/v1/namespaces/a", ("namespaces", "", "a", "")),
        ("/api/v1/namespaces/a/status", ("namespaces", "", "a", "status")),
        ("/api/v1/namespaces/a/pods/p/eviction", ("pods", "a", "p", "eviction")),
        ("/apis/apps/v1/namespaces/a/deployments", ("deployments", "a", "", "")),
        ("/apis/events.k8s.io/v1/events", ("events.events.k8s.io", "", "", "")),
        ("/api/v1/namespaces/a/services/s:80/proxy/healthz", ("services", "a", "s:80", "proxy")),
    ],
)
def test_paths(path: str, found: tuple[str, str, str, str]) -> None:
    target = target_of(path)
    assert target is not None
    assert (target.plural, target.namespace, target.name, target.subresource) == found


@pytest.mark.parametrize(
    "path",
    ["/", "/api", "/apis/apps", "/apis/apps/v1", "/api/v2/nodes", "/api/v1/nodes/n/nope", "/api/v1/namespaces/a/nodes"],
)
def test_paths_that_name_nothing(path: str) -> None:
    assert target_of(path) is None
