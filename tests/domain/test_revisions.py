"""Changes to workloads: the exact patches, beside those that a real API server was sent, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.domain import revisions
from fleet.domain.revisions import ChangeError, Form, Workload

LIVED = Path(__file__).parents[1] / "data" / "recordings" / "lived"


def recorded(name: str, method: str, number: int = 0, kind: str = "deployments/chat") -> dict[str, Any]:
    found = [
        e
        for e in json.loads((LIVED / f"{name}.json").read_text())
        if e["request"]["method"] == method and e["request"]["path"].endswith(kind)
    ]
    chosen: dict[str, Any] = found[number]
    return chosen


def chat(**spec: Any) -> Workload:
    raw = recorded("deployment_rollback", "GET")["response"]["body"]
    return Workload("Deployment", {**raw, "spec": {**raw["spec"], **spec}})


def holders() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = recorded("deployment_rollback", "GET", 0, "/replicasets")["response"]["body"]["items"]
    return found


def test_an_undo_writes_the_template_that_a_real_rollback_wrote() -> None:
    workload = chat()
    history = revisions.history(workload, holders())
    assert [one.number for one in history] == sorted((one.number for one in history), reverse=True)
    assert [one.number for one in history if one.current] == [int(workload.revision)]
    before = revisions.find(history, None)
    patch = revisions.undo(workload, before)
    told = recorded("deployment_rollback", "PATCH", 1)["request"]["body"][0]["value"]
    template = dict(patch.body["spec"]["template"])
    assert (patch.form, template.pop("$patch")) == (Form.STRATEGIC, "replace")
    assert revisions.same(template, told)
    assert patch.body["metadata"] == {"resourceVersion": workload.version}
    assert revisions.same(revisions.after(workload, patch), told)
    shown = {one.path: (one.before, one.after) for one in revisions.differences(workload.template, before.template)}
    assert shown
    assert all(before != after for before, after in shown.values())


def test_who_wrote_a_template_last_is_whom_the_api_server_names() -> None:
    raw = chat().raw
    entries = [
        {"manager": manager, "time": time, "fieldsV1": {part: {"f:template": {}}}}
        for manager, time, part in (
            ("helm", "2026-12-01T19:00:00Z", "f:spec"),
            ("kubectl-set", "2026-12-01T19:05:00Z", "f:spec"),
            ("kube-controller-manager", "2026-12-01T19:06:00Z", "f:status"),
        )
    ]
    named = Workload("Deployment", {**raw, "metadata": {**raw["metadata"], "managedFields": entries}})
    assert revisions.edit(named) == revisions.Edit("kubectl-set", "2026-12-01T19:05:00Z")
    nobody = Workload("Deployment", {**raw, "metadata": {**raw["metadata"], "managedFields": []}})
    assert revisions.edit(nobody) is None


def test_an_undo_to_the_same_template_of_a_paused_one_or_to_nowhere_is_refused() -> None:
    history = revisions.history(chat(), holders())
    current = next(one for one in history if one.current)
    assert why(lambda: revisions.undo(chat(), current)) == "same-template"
    assert why(lambda: revisions.undo(chat(paused=True), history[-1])) == "paused"
    assert why(lambda: revisions.find(history, 99)) == "no-revision"
    assert why(lambda: revisions.find((), None)) == "no-revision"


def test_revisions_of_a_namesake_are_not_its_own() -> None:
    other = Workload("Deployment", {**chat().raw, "metadata": {**chat().metadata, "uid": "another"}})
    assert revisions.history(other, holders()) == ()


def test_a_restart_is_the_annotation_that_kubectl_writes_once_a_second() -> None:
    workload = Workload("Deployment", recorded("deployment_restart", "GET")["response"]["body"])
    told = recorded("deployment_restart", "PATCH", 1)["request"]["body"]
    at = 1796152789.9  # 2026-12-01T19:19:49Z
    patch = revisions.restart(workload, at)
    assert patch.body == {"metadata": {"resourceVersion": workload.version}, **told}
    again = Workload(
        "Deployment", {**workload.raw, "spec": {**workload.spec, "template": revisions.after(workload, patch)}}
    )
    assert why(lambda: revisions.restart(again, at - 0.8)) == "same-second"
    assert revisions.restart(again, at + 1)
    assert why(lambda: revisions.restart(chat(paused=True), at)) == "paused"


def test_pausing_and_resuming_are_what_a_real_server_was_sent() -> None:
    sent = [recorded("deployment_paused", "PATCH", n)["request"]["body"] for n in (0, -1)]
    assert {"spec": revisions.pause(chat()).body["spec"]} == sent[0]
    assert {"spec": revisions.resume(chat(paused=True)).body["spec"]} == sent[1]
    assert why(lambda: revisions.pause(chat(paused=True))) == "paused-already"
    assert why(lambda: revisions.resume(chat())) == "not-paused"
    assert why(lambda: revisions.pause(Workload("StatefulSet", chat().raw))) == "cannot-pause"


def test_a_scale_is_the_subresource_and_works_while_paused() -> None:
    patch = revisions.scale(chat(paused=True), 5)
    assert (patch.subresource, patch.body["spec"], patch.form) == ("scale", {"replicas": 5}, Form.MERGE)
    assert patch.body["metadata"]["resourceVersion"] == chat().version
    assert why(lambda: revisions.scale(chat(), chat().replicas)) == "same-replicas"
    assert why(lambda: revisions.scale(chat(), -1)) == "replicas"
    assert why(lambda: revisions.scale(chat(), revisions.MOST_REPLICAS + 1)) == "replicas"
    assert why(lambda: revisions.scale(Workload("DaemonSet", chat().raw), 1)) == "cannot-scale"


def test_an_image_is_set_by_container_and_nothing_else_changes() -> None:
    workload = chat()
    patch = revisions.set_image(workload, {"server": "sim.io/server:v9"})
    assert patch.body["spec"] == {
        "template": {"spec": {"containers": [{"name": "server", "image": "sim.io/server:v9"}]}}
    }
    found = revisions.differences(workload.template, revisions.after(workload, patch))
    assert [(one.path, one.after) for one in found] == [("containers[server].image", "sim.io/server:v9")]
    assert why(lambda: revisions.set_image(workload, {"other": "a:1"})) == "no-container"
    assert why(lambda: revisions.set_image(workload, workload.images)) == "same-image"
    odd = (
        "",
        "a b",
        "a\n",
        "-x",
        "a" * 600,
        "a:",
        ":1",
        "a:1:2",
        "a//b",
        "a@b",
        "REPO/llm",
        "repo/LLM",
        "a;b",
        "../a",
        "http://a/b",
    )
    for image in odd:
        assert why(lambda image=image: revisions.set_image(workload, {"server": image})) == "image"
    good = (
        "llm",
        "llm:v2.1_x-y",
        "localhost/llm",
        "Reg.io:5000/a/b-c__d:1",
        "[::1]:5000/a",
        f"r.io/a@sha256:{'0f' * 32}",
        "a/b/c:L",
    )
    for image in good:
        assert revisions.set_image(workload, {"server": image})


def test_a_set_keeps_its_templates_in_controller_revisions() -> None:
    def template(image: str) -> dict[str, Any]:
        return {"metadata": {"labels": {"app": "t"}}, "spec": {"containers": [{"name": "t", "image": image}]}}

    meta = {"name": "t", "namespace": "lab", "uid": "u", "resourceVersion": "7"}
    workload = Workload("StatefulSet", {"metadata": meta, "spec": {"template": template("t:2")}})
    owner = [{"kind": "StatefulSet", "name": "t", "uid": "u", "controller": True}]
    kept = [
        {
            "metadata": {"name": f"t-{n}", "ownerReferences": owner},
            "data": {"spec": {"template": {"$patch": "replace", **template(f"t:{n}")}}},
            "revision": n,
        }
        for n in (1, 2)
    ]
    found = revisions.history(workload, [*kept, {"metadata": {"ownerReferences": owner}, "data": None, "revision": 3}])
    assert [(one.number, one.images, one.current) for one in found] == [(2, ("t:2",), True), (1, ("t:1",), False)]
    assert (
        revisions.undo(workload, revisions.find(found, None)).body["spec"]["template"]["spec"]
        == template("t:1")["spec"]
    )


def test_a_difference_hides_what_is_named_like_a_secret() -> None:
    def template(value: str) -> dict[str, Any]:
        env = [{"name": "HF_TOKEN", "value": value}, {"name": "BATCH", "value": value}]
        return {"spec": {"containers": [{"name": "s", "env": env}]}}

    found = {one.path: one.after for one in revisions.differences(template("one"), template("two"))}
    assert found == {"containers[s].env[HF_TOKEN].value": revisions.HIDDEN, "containers[s].env[BATCH].value": "two"}


def why(change: Any) -> str:
    with pytest.raises(ChangeError) as refused:
        change()
    return refused.value.why
