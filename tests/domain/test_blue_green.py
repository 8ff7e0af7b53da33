"""Case T9 and its neighbours: which Services have two sides, and what another selector would do."""

from typing import Any

import msgspec
import pytest

from fleet.domain import blue_green, switching
from fleet.domain.blue_green import Live, Pair
from fleet.domain.endpoints import EndpointSlice
from fleet.domain.objects import Deployment, Pod, Service
from fleet.domain.switching import Fault, Preview
from tests.domain import cluster

APP = {"app": "llm"}
BLUE, GREEN = {**APP, "color": "blue"}, {**APP, "color": "green"}


def service(selector: dict[str, str], **metadata: Any) -> Service:
    meta = cluster.meta("llm", "chat") | {"resourceVersion": "8841", **metadata}
    return msgspec.convert({"metadata": meta, "spec": {"selector": selector}}, Service)


def deployment(name: str, labels: dict[str, str], replicas: int = 4, gpus: int = 1) -> Deployment:
    amounts = {"nvidia.com/gpu": str(gpus)}
    spec = {"containers": [{"name": "server", "resources": {"limits": amounts}}]}
    made = {
        "metadata": cluster.meta(name, "chat"),
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    return msgspec.convert(made, Deployment)


def pods(name: str, labels: dict[str, str], ready: int = 4, unready: int = 0, leaving: int = 0) -> list[Pod]:
    found = []
    for n in range(ready + unready + leaving):
        up = n < ready
        made = cluster.pod(f"{name}-{n}", "node-1", 1, uid=f"{name}-{n}", labels=labels)
        made["metadata"] |= {"namespace": "chat"}
        made["status"]["conditions"] = [{"type": "Ready", "status": "True" if up else "False"}]
        if n >= ready + unready:
            made["metadata"]["deletionTimestamp"] = "2026-12-02T03:00:00Z"
        found.append(msgspec.convert(made, Pod))
    return found


WORKLOADS = (deployment("llm-blue", BLUE), deployment("llm-green", GREEN))
KEYS = ("Deployment/chat/llm-blue", "Deployment/chat/llm-green")


def around(blue: int = 4, green: int = 4, unready: int = 0, leaving: int = 0) -> dict[str, list[Pod]]:
    return {
        KEYS[0]: pods("llm-blue", BLUE, blue),
        KEYS[1]: pods("llm-green", GREEN, green, unready, leaving),
    }


def pair(selector: dict[str, str] = BLUE, found: dict[str, list[Pod]] | None = None, **metadata: Any) -> Pair:
    made = blue_green.pair(service(selector, **metadata), WORKLOADS, found or around())
    assert made is not None
    return made


def preview(selector: dict[str, str], found: dict[str, list[Pod]] | None = None, now: dict[str, str] = BLUE) -> Preview:
    found = found or around()
    made = pair(now, found)
    return switching.preview(made, selector, made.sides[1], found)


def test_four_blue_now_and_four_green_after() -> None:
    found = preview(pair().sides[1].selector)
    assert found.selector == GREEN
    assert (found.before.ready, found.after.ready) == ({KEYS[0]: 4}, {KEYS[1]: 4})
    assert found.faults == ()


@pytest.mark.parametrize(
    ("selector", "found", "faults"),
    [
        pytest.param(GREEN, around(green=3, unready=1), (Fault.FEWER,), id="one green pod has lost Ready"),
        pytest.param(GREEN, around(green=3, leaving=1), (Fault.FEWER,), id="one green pod goes"),
        pytest.param({**APP, "colour": "green"}, None, (Fault.EMPTY,), id="a typo selects nothing"),
        pytest.param(APP, None, (Fault.MIXED,), id="no colour selects both"),
        pytest.param(BLUE, None, (Fault.SAME, Fault.OTHER), id="it serves already"),
        pytest.param(GREEN, around(green=0, unready=4), (Fault.EMPTY,), id="none is Ready"),
        pytest.param({}, None, (Fault.UNTOLD, Fault.EMPTY), id="no selector"),
    ],
)
def test_what_stands_against_a_selector(
    selector: dict[str, str], found: dict[str, list[Pod]] | None, faults: tuple[Fault, ...]
) -> None:
    assert preview(selector, found).faults == faults


def test_pods_of_nobody_that_the_selector_takes_as_well_are_told() -> None:
    stray = pods("stray", GREEN, 1)
    made = pair()
    assert switching.preview(made, GREEN, made.sides[1], around(), stray).faults == (Fault.MIXED,)


@pytest.mark.parametrize(
    ("selector", "metadata", "owner"),
    [
        (BLUE, {"annotations": {"argo-rollouts.argoproj.io/managed-by-rollouts": "llm"}}, "Argo Rollouts"),
        ({**BLUE, "rollouts-pod-template-hash": "5d7b"}, {}, "Argo Rollouts"),
        (BLUE, {"ownerReferences": [{"kind": "Canary", "name": "llm", "uid": "u", "controller": True}]}, "Flagger"),
        (
            BLUE,
            {"ownerReferences": [{"kind": "InferenceService", "name": "l", "uid": "u", "controller": True}]},
            "InferenceService",
        ),
        (BLUE, {}, ""),
    ],
)
def test_a_service_that_another_controller_owns_is_shown_and_refused(
    selector: dict[str, str], metadata: dict[str, Any], owner: str
) -> None:
    made = pair(selector, None, **metadata)
    assert made.owned_by == owner
    faults = switching.preview(made, GREEN, made.sides[1], around()).faults
    assert (Fault.OWNED in faults) == bool(owner)


def test_a_service_of_a_rollout_is_shown_without_sides() -> None:
    made = blue_green.pair(service({"app": "x", "rollouts-pod-template-hash": "5d7b"}), WORKLOADS, {})
    assert made is not None
    assert (made.sides, made.owned_by, made.serving) == ((), "Argo Rollouts", None)


def test_which_side_serves() -> None:
    found = pair()
    assert found.state is Live.ONE
    assert (found.serving.name if found.serving else "", [side.name for side in found.idle]) == (
        "llm-blue",
        ["llm-green"],
    )
    assert (pair(APP).state, pair(APP).serving) == (Live.BOTH, None)
    nobody = pair({**APP, "color": "purple"})
    assert (nobody.state, len(nobody.idle)) == (Live.NEITHER, 2)
    mistyped = pair({**APP, "colour": "green"})
    assert (mistyped.state, mistyped.sides[1].selector) == (Live.NEITHER, GREEN)


def test_the_price_of_holding_both() -> None:
    found = pair(found=around(green=4, leaving=2))
    assert (found.gpus, found.spare_gpus) == (10, 6)  # two that are going hold theirs still
    assert [side.wants_gpus for side in found.sides] == [4, 4]


def test_pairs_by_custom_by_a_label_of_the_site_and_by_declaration() -> None:
    lanes = (deployment("a", {"app": "web", "lane": "1"}), deployment("b", {"app": "web", "lane": "2"}))
    reached = service({"app": "web", "lane": "1"})
    assert blue_green.pair(reached, lanes, {}) is None
    by_label = blue_green.pair(reached, lanes, {}, ("lane",))
    assert by_label is not None
    assert (by_label.labels, by_label.declared) == (("lane",), False)
    named = service({"app": "old"}, annotations={blue_green.DECLARED: "x , y"})
    sides = (deployment("x", {"app": "old"}), deployment("y", {"app": "new"}), deployment("z", {"app": "old"}))
    declared = blue_green.pair(named, sides, {})
    assert declared is not None
    assert (declared.declared, [side.selector for side in declared.sides]) == (True, [{"app": "old"}, {"app": "new"}])
    # What is left of this selector would make sides of the whole namespace.
    assert blue_green.pair(service({"color": "blue"}), WORKLOADS, {}) is None
    assert (
        blue_green.pairs([service(BLUE)], (*WORKLOADS, deployment("other", {"app": "o"})), {})[0].sides[0].name
        == "llm-blue"
    )


def test_one_side_may_stand_alone_where_a_label_of_sides_is_there_for_another() -> None:
    blue = WORKLOADS[:1]
    alone = blue_green.pair(service(BLUE), blue, {})
    assert alone is not None
    assert (alone.labels, [side.selector for side in alone.sides], alone.state) == (("color",), [BLUE], Live.ONE)
    named = blue_green.pair(service(APP, annotations={blue_green.DECLARED: "llm-blue"}), blue, {})
    assert named is not None
    assert named.labels == ("color",)
    assert blue_green.pair(service(APP), blue, {}) is None, "nobody says that it has sides"
    assert blue_green.pair(service({**APP, "tier": "web"}), blue, {}) is None
    assert blue_green.pair(service(BLUE), (), {}) is None


def test_the_patch_makes_exactly_the_selector_on_exactly_that_version() -> None:
    made = switching.patch({"app": "llm", "color": "blue", "old": "x"}, GREEN, "8841", {"a": None})
    assert made == {
        "metadata": {"resourceVersion": "8841", "annotations": {"a": None}},
        "spec": {"selector": {"app": "llm", "color": "green", "old": None}},
    }


def test_the_way_back_is_the_exact_selector_before_and_ends_with_anybody_elses_hand() -> None:
    was = {**BLUE, "tier": "gold"}
    written = switching.note(was, GREEN, 100.0, "M-0007")
    found = switching.way_back(service(GREEN, annotations=written))
    assert found is not None
    assert (found.was, found.at, found.action) == (was, 100.0, "M-0007")
    assert switching.way_back(service(BLUE, annotations=written)) is None
    assert switching.way_back(service(GREEN, annotations={switching.WAY_BACK: '{"was": 3}'})) is None
    assert switching.way_back(service(GREEN)) is None


def test_slices_prove_a_switch() -> None:
    def endpoint(uid: str, ready: bool | None = True) -> dict[str, Any]:
        return {"conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "uid": uid}}

    def slices(*endpoints: dict[str, Any]) -> list[EndpointSlice]:
        return [msgspec.convert({"metadata": cluster.meta("llm-1", "chat"), "endpoints": endpoints}, EndpointSlice)]

    wanted = {"g1", "g2"}
    whole = switching.proof(
        switching.served(slices(endpoint("g1"), endpoint("g2", None), endpoint("b1", False))), wanted
    )
    assert (whole.right, whole.wrong, whole.whole) == (2, 0, True)
    half = switching.proof(switching.served(slices(endpoint("g1"), endpoint("b1"))), wanted)
    assert (half.right, half.wrong, half.whole) == (1, 1, False)
    stray = switching.proof(switching.served(slices(endpoint("g1"), {"conditions": {"ready": True}})), wanted)
    assert (stray.wrong, stray.whole) == (1, False)
    assert not switching.proof(switching.served([]), wanted).whole
