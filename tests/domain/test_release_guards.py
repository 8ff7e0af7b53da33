"""Each guard of a release alone: nothing but it stands against the action, so that without it work or requests would be lost."""

from typing import Any

import msgspec
import pytest

from fleet.domain import actions, guards, smoke, switching
from fleet.domain.actions import ACTIONS
from fleet.domain.facts import Actor, Facts, Permission, Running, Saved
from fleet.domain.guards import RELEASES
from fleet.domain.kinds import Subject
from fleet.domain.losses import Draft
from fleet.domain.plans import Check, Outcome
from fleet.domain.policies import policy
from fleet.domain.smoke import Verdict
from fleet.domain.specs import Claim
from tests.domain import cluster
from tests.domain.drains import NOW, node
from tests.domain.releases import (
    BLUE_SELECTED,
    CHAT,
    GREEN,
    GREEN_SELECTED,
    SERVICE,
    budget,
    deployment,
    pods,
    safe,
    service,
    sides,
    workload,
)  # fmt: skip

KINDS = sorted(kind for kind, one in ACTIONS.items() if one.subject is not Subject.NODE)
FREEZE = policy('[[freeze]]\nfrom = 2026-01-01T00:00:00Z\nto = 2027-01-01T00:00:00Z\npools = ["train"]\n')
OWNED = [{"kind": "InferenceService", "name": "chat", "uid": "u", "controller": True}]
ARGO = {"annotations": {"argo-rollouts.argoproj.io/managed-by-rollouts": "llm"}}
FLAGGER = {"ownerReferences": [{"kind": "Canary", "name": "llm", "uid": "u", "controller": True}]}
BOTH = {"app": "llm"}
RECREATE: dict[str, Any] = {"strategy": {"type": "Recreate"}}
NARROW = tuple(node(f"node-{n}", gpus=1) for n in (1, 2))
DONT: dict[str, Any] = {"annotations": {"vigie.dev/do-not-disrupt": "true"}}
TRAINS: dict[str, Any] = {"annotations": {"vigie.dev/role": "training"}}
SERVES: dict[str, Any] = {"annotations": {"vigie.dev/role": "serving"}}


def checks(facts: Facts) -> tuple[Check, ...]:
    return guards.run(ACTIONS[facts.kind].guards, Draft(facts))


def found(facts: Facts, outcome: Outcome) -> set[tuple[str, str]]:
    return {(check.guard, check.reason) for check in checks(facts) if check.outcome is outcome}


@pytest.mark.parametrize(("kind", "options"), [("scale", {}), ("set-image", {}), ("undo", {"revision": "99"})])
def test_what_cannot_be_chosen_has_no_command(kind: str, options: dict[str, str]) -> None:
    wrong = safe(kind, options)
    assert "change" in {guard for guard, _ in found(wrong, Outcome.BLOCK)}
    assert actions.plan(safe(kind), "").kubectl
    assert actions.plan(wrong, "").kubectl == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_safe_release_is_not_blocked_and_its_guards_have_looked(kind: str) -> None:
    assert found(safe(kind), Outcome.BLOCK) == set()
    assert {check.guard for check in checks(safe(kind))} == {*ACTIONS[kind].guards}
    assert actions.plan(safe(kind), "").steps


def retired(*names: str) -> dict[str, Any]:
    """A side that nobody sends requests to, by a switch long ago."""
    note = switching.note(GREEN_SELECTED, BLUE_SELECTED, NOW - 3600, "M-0001")
    return {"pair_of": (BLUE_SELECTED, {"annotations": note})}


ALONE = [
    pytest.param(
        "subject-known", "malformed", safe("restart", on="Deployment/../secrets"), id="dots that lead elsewhere"
    ),
    pytest.param("subject-known", "malformed", safe("restart", on="Deployment/lab/."), id="a list is no workload"),
    pytest.param(
        "subject-known", "no-workload", safe("restart", workload=None, ending=frozenset()), id="no such workload"
    ),
    pytest.param(
        "subject-known",
        "going",
        safe("restart", workload=workload(CHAT, deletionTimestamp="2026-12-01T00:00:00Z")),
        id="it is being deleted",
    ),
    pytest.param("freeze", "frozen", safe("restart", policy=FREEZE), id="in a freeze of the pool where its pods run"),
    pytest.param("change", "replicas", safe("scale", {"replicas": "-1"}), id="fewer than none"),
    pytest.param("change", "replicas", safe("scale", {"replicas": "10001"}), id="more than any cluster has"),
    pytest.param("change", "replicas", safe("scale", {"replicas": "1" * 900}), id="a very long number"),
    pytest.param("change", "no-container", safe("set-image", {"image": "nobody=repo/llm:2"}), id="no such container"),
    pytest.param("change", "named-twice", safe("set-image", {"image": "main=a:1, main=b:2"}), id="twice the same"),
    pytest.param("change", "image", safe("set-image", {"image": "main="}), id="no image"),
    pytest.param("change", "image", safe("set-image", {"image": "repo/LLM:2"}), id="an image that no node could pull"),
    pytest.param("change", "no-revision", safe("undo", {"revision": "77"}), id="no such revision"),
    pytest.param("change", "same-template", safe("undo", {"revision": "2"}), id="the present revision"),
    pytest.param(
        "change",
        "paused",
        safe("undo", workload=workload(CHAT, deployment("chat", {"app": "chat"}, paused=True))),
        id="paused",
    ),
    pytest.param("change", "same-version", safe("create-green", {"version": "blue"}), id="blue's own version"),
    pytest.param("change", "version", safe("create-green", {"version": "../x"}), id="no label"),
    pytest.param("change", "exists", safe("create-green", names=frozenset({"llm-teal"})), id="the name is taken"),
    pytest.param(
        "change",
        "version-taken",
        safe("create-green", {"version": "green", "name": "llm-other"}),
        id="its pods would be the other side's as well",
    ),
    pytest.param(
        "change",
        "serves-at-once",
        safe("create-green", {"version": "teal", "side": "llm-blue"}, pair_of=(BOTH, {})),
        id="an untested copy would serve at once",
    ),
    pytest.param(
        "change",
        "budget-exists",
        safe("create-green", budgets=(budget("llm-teal", {"app": "other"}),)),
        id="its budget's name is taken",
    ),
    pytest.param(
        "owner", "operator", safe("restart", workload=workload(CHAT, ownerReferences=OWNED)), id="an operator's"
    ),
    pytest.param("owner", "controller", safe("way-back", pair_of=(BLUE_SELECTED, ARGO)), id="Argo Rollouts'"),
    pytest.param("owner", "controller", safe("switch", pair_of=(BLUE_SELECTED, FLAGGER)), id="Flagger's"),
    pytest.param("scaler", "autoscaled", safe("scale", scalers=("chat",)), id="an autoscaler's"),
    pytest.param(
        "sides", "empty", safe("switch", of={GREEN: pods("llm-green", GREEN_SELECTED, 0, 2)}), id="no Ready pod"
    ),
    pytest.param(
        "sides", "fewer", safe("switch", of={GREEN: pods("llm-green", GREEN_SELECTED, 1, 1)}), id="half of it"
    ),
    pytest.param("sides", "mixed", safe("switch", strays=pods("stray", GREEN_SELECTED, 1)), id="somebody else's pods"),
    pytest.param("sides", "same", safe("switch", {"side": "llm-blue"}), id="it serves already"),
    pytest.param(
        "sides",
        "no-way-back",
        safe("way-back", pair_of=(BLUE_SELECTED, {"annotations": {switching.WAY_BACK: "{}"}})),
        id="a note that says nothing",
    ),
    pytest.param("sides", "which", safe("switch", {"side": "nobody"}), id="no such side"),
    pytest.param("sides", "alone", safe("switch", {}, sides=[sides()[0]]), id="no other side"),
    pytest.param(
        "spare",
        "too-early",
        safe(
            "retire",
            pair_of=(BLUE_SELECTED, {"annotations": switching.note(GREEN_SELECTED, BLUE_SELECTED, NOW - 29, "M-0001")}),
        ),
        id="the way back is promised yet",
    ),
    pytest.param(
        "spare",
        "none-serves",
        safe("retire", {"side": "llm-green"}, pair_of=({"app": "llm", "color": "x"}, {})),
        id="nobody serves, so any side may be needed",
    ),
    pytest.param(
        "smoke",
        "status",
        safe("switch", tested=(Verdict("llm-green-0", 503, 0.01, smoke.Fault.STATUS, "503"),)),
        id="it answers wrongly",
    ),
    pytest.param("smoke", "not-asked", safe("switch", tested=()), id="nobody asked it"),
    pytest.param("smoke", "unacceptable", safe("switch", {"smoke": '{"path": "//../x"}'}), id="a test that leads out"),
    pytest.param("room", "no-place", safe("create-green", nodes=NARROW), id="no GPU for the copy"),
    pytest.param("room", "no-place", safe("scale", {"replicas": "400"}), id="no GPU for so many"),
    pytest.param(
        "room",
        "no-surge",
        safe("restart", nodes=NARROW[:2], of={}, pods=pods("chat", {"app": "chat"})),
        id="the rollout would never end",
    ),
    pytest.param("outage", "none-left", safe("scale", {"replicas": "0"}), id="no pod of a live workload"),
    pytest.param(
        "outage",
        "none-left",
        safe("restart", workload=workload(CHAT, deployment("chat", {"app": "chat"}, **RECREATE))),
        id="none while new ones start",
    ),
    pytest.param(
        "outage",
        "none-left",
        safe("retire", **retired(), services=(service(BLUE_SELECTED), service(GREEN_SELECTED, "grpc"))),
        id="a side that another Service needs",
    ),
    pytest.param(
        "outage",
        "unreadable",
        safe("scale", {"replicas": "1"}, services=None, of={CHAT: pods("chat", {"app": "chat"}, **SERVES)}),
        id="nobody knows who serves",
    ),
    pytest.param("accepted", "refused", safe("pause", refusal="admission webhook denied it"), id="the server says no"),
    pytest.param(
        "alone", "running", safe("pause", running=(Running("M-2", "scale", CHAT),)), id="another action on it"
    ),
    pytest.param("alone", "running", safe("switch", running=(Running("M-2", "scale", GREEN),)), id="one on its side"),
    pytest.param(
        "alone",
        "running",
        safe("scale", running=(Running("M-2", "switch", SERVICE),), workload=workload(GREEN), scalers=()),
        id="one on its Service",
    ),
    pytest.param(
        "permissions",
        "denied",
        safe("switch", permissions=(Permission("patch", "services", "lab", False),)),
        id="no right",
    ),
    pytest.param("role", "viewer", safe("way-back", actor=Actor("vera", "viewer")), id="a viewer"),
    pytest.param("cluster-open", "read-only", safe("pause", actions_allowed=False), id="a read-only cluster"),
    pytest.param("fresh", "old", safe("switch", read_at=NOW - 31), id="old facts"),
    pytest.param(
        "undisturbed", "annotated", safe("restart", of={CHAT: pods("chat", {"app": "chat"}, **DONT)}), id="asked not to"
    ),
]


@pytest.mark.parametrize(("guard", "reason", "facts"), ALONE)
def test_nothing_but_this_guard_stands_against_it(guard: str, reason: str, facts: Facts) -> None:
    assert found(facts, Outcome.BLOCK) == {(guard, reason)}


def test_training_that_ends_is_nobody_s_to_end_unasked() -> None:
    for kind, options in (("restart", None), ("scale", {"replicas": "1"}), ("set-image", None), ("undo", None)):
        facts = safe(kind, options, of={CHAT: pods("chat", {"app": "chat"}, **TRAINS)})
        assert found(facts, Outcome.BLOCK) == {("checkpoint", "unknown")}, kind
        known = {pod.metadata.uid: Saved(NOW - 60, 7, durable=True) for pod in facts.target_pods}
        assert found(msgspec.structs.replace(facts, saved=known), Outcome.BLOCK) == set(), kind


def test_every_guard_of_a_release_that_blocks_is_in_the_table() -> None:
    alone = {param.values[0] for param in ALONE}
    assert set(RELEASES) - alone == {"rolling"}, "it only warns"
    assert {guard for kind in KINDS for guard in ACTIONS[kind].guards} - alone == {
        "rolling", "checkpoint", "requests", "gang",
    }  # fmt: skip


@pytest.mark.parametrize("state", [BOTH, BLUE_SELECTED])
def test_the_side_that_serves_is_never_retired(state: dict[str, str]) -> None:
    facts = safe("retire", {"side": "llm-blue"}, pair_of=(state, {}), services=(service(state),))
    blocks = {(c.reason, c.waivable_by) for c in checks(facts) if c.outcome is Outcome.BLOCK and c.guard == "spare"}
    assert blocks == {("serves", "")}


HELM = {"annotations": {"meta.helm.sh/release-name": "chat"}, "labels": {"app.kubernetes.io/managed-by": "Helm"}}
CLAIM = {
    "lab/cache": msgspec.convert(
        {"metadata": cluster.meta("cache", "lab"), "spec": {"accessModes": ["ReadWriteOnce"]}}, Claim
    )
}


def with_claim() -> Any:
    made = deployment("llm-blue", BLUE_SELECTED)
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "c", "persistentVolumeClaim": {"claimName": "cache"}}]
    return workload("Deployment/lab/llm-blue", made)


@pytest.mark.parametrize(
    ("warning", "facts"),
    [
        (("owner", "packaged"), safe("scale", workload=workload(CHAT, **HELM))),
        (
            ("owner", "synced"),
            safe("undo", workload=workload(CHAT, annotations={"argocd.argoproj.io/tracking-id": "x"})),
        ),
        (("scaler", "disabled"), safe("retire", **retired(), scalers=("llm",))),
        (("scaler", "unreadable"), safe("scale", scalers=None)),
        (("change", "serves-too"), safe("create-green", services=(service(BOTH, "metrics"),))),
        (("change", "shared-budget"), safe("create-green", budgets=(budget("llm", {"app": "llm"}),))),
        (("change", "one-node-volume"), safe("create-green", workload=with_claim(), claims=CLAIM)),
        (("smoke", "not-all"), safe("switch", tested=(Verdict("llm-green-0", 200, 0.01),))),
        (("spare", "closes-way-back"), safe("retire", **retired())),
        (("rolling", "not-observed"), safe("restart", workload=workload(CHAT, generation=2))),
    ],
)
def test_what_is_only_told(warning: tuple[str, str], facts: Facts) -> None:
    assert found(facts, Outcome.BLOCK) == set()
    assert warning in found(facts, Outcome.WARN)


def test_a_restart_is_no_business_of_a_package() -> None:
    assert not found(safe("restart", workload=workload(CHAT, **HELM)), Outcome.WARN)


def test_more_pods_and_a_headless_service_are_no_outage() -> None:
    peers = (service({"app": "chat"}, "chat", clusterIP="None"),)
    assert ("outage", "none-left") not in found(safe("scale", {"replicas": "0"}, services=peers), Outcome.BLOCK)
    assert found(safe("scale", {"replicas": "1"}), Outcome.BLOCK) == set()
    assert found(safe("scale", {"replicas": "3"}, services=None), Outcome.BLOCK) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_person_is_asked_for_where_the_pods_run(kind: str) -> None:
    everywhere, there, elsewhere = (
        policy(f'{table}four_eyes = ["{kind}"]\n') for table in ("", "[pools.train]\n", "[pools.infer]\n")
    )
    asked = [actions.second(safe(kind, policy=one)) for one in (everywhere, there, elsewhere)]
    assert asked == [True, True, False]
