"""Label and field selectors: what they match and how they are refused."""

import pytest

from fleet.simulation.label_selectors import FieldSelector, LabelSelector
from fleet.simulation.refusals import ApiError

LABELS = {"app": "chat", "tier": "a", "example.com/gpu": "", "size": "8"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("app=chat", True),
        ("app==chat", True),
        ("app=web", False),
        ("app!=web", True),
        ("nope!=web", True),
        ("app in (chat, web)", True),
        ("app in (web)", False),
        ("app notin (web)", True),
        ("nope notin (web)", True),
        ("app", True),
        ("nope", False),
        ("!nope", True),
        ("!app", False),
        ("app=chat,tier in (a,b),!nope", True),
        ("app=chat,tier=b", False),
        ("example.com/gpu=", True),
        ("size>4", True),
        ("size<4", False),
        (" app = chat ", True),
    ],
)
def test_label_selectors(text: str, matches: bool) -> None:
    assert LabelSelector.parse(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in b", "unable to parse requirement: found 'b', expected: '('"),
        ("a=b,", "unable to parse requirement: found '', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("=b", "unable to parse requirement: found '=', expected: !, identifier, or 'end of string'"),
    ],
)
def test_malformed_label_selectors(text: str, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        LabelSelector.parse(text)
    assert (refused.value.status, refused.value.message) == (400, message)


def test_a_selector_of_an_object() -> None:
    selector = {
        "matchLabels": {"app": "chat"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a"]},
            {"key": "tier", "operator": "NotIn", "values": ["z"]},
            {"key": "size", "operator": "Exists"},
            {"key": "nope", "operator": "DoesNotExist"},
        ],
    }
    assert LabelSelector.from_object(selector).matches(LABELS)
    assert not LabelSelector.from_object(selector).matches({**LABELS, "nope": "1"})


POD = {
    "metadata": {"name": "p", "namespace": "fleet"},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running"},
}
EVENT = {
    "metadata": {"name": "e"},
    "reason": "Killing",
    "type": "Normal",
    "involvedObject": {"kind": "Pod", "name": "p"},
    "source": {"component": "kubelet"},
}


@pytest.mark.parametrize(
    ("name", "text", "obj", "matches"),
    [
        ("pods", "spec.nodeName=n1,status.phase!=Failed", POD, True),
        ("pods", "spec.nodeName=", POD, False),
        ("pods", "metadata.name=p,metadata.namespace=fleet", POD, True),
        ("nodes", "spec.unschedulable=false", {"metadata": {}, "spec": {}}, True),
        ("nodes", "spec.unschedulable=true", {"metadata": {}, "spec": {"unschedulable": True}}, True),
        ("events", "involvedObject.name=p,type=Normal", EVENT, True),
        ("events", "source=kubelet,reason!=Pulled", EVENT, True),
        ("events.events.k8s.io", "regarding.name=p,reportingController=kubelet", EVENT, True),
        ("jobs", "status.successful=0", {"metadata": {}, "status": {}}, True),
        ("deployments", "metadata.name==x", {"metadata": {"name": "x"}}, True),
    ],
)
def test_field_selectors(name: str, text: str, obj: dict[str, object], matches: bool) -> None:
    assert FieldSelector.parse(name, text).matches(obj) is matches


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pods", "status.reason=Evicted"),
        ("nodes", "spec.foo=1"),
        ("events", "count=1"),
        ("deployments", "spec.replicas=1"),
    ],
)
def test_unknown_fields_are_refused(name: str, text: str) -> None:
    with pytest.raises(ApiError) as refused:
        FieldSelector.parse(name, text)
    assert refused.value.status == 400
    assert text.partition("=")[0] in refused.value.message
