"""Everything that an action can say has a sentence: each token is read off the code that makes it."""

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest
from django.utils import translation

from dashboard.panels import attention, checks, ends, lanes, losses, measures, steps, trail, words
from dashboard.panels.patterns import MESSAGES
from dashboard.roles import Role
from fleet import act
from fleet.act import copying, evicting, release_facts, releasing, running, selecting
from fleet.act import steps as act_steps
from fleet.domain import (
    confirmed_losses,
    draining,
    green_sides,
    last_saves,
    pod_guards,
    release_guards,
    release_room,
    releases,
    revisions,
    site_guards,
    smoke,
    switching,
)
from fleet.domain.actions import ACTIONS
from fleet.domain.gpus import NA
from fleet.domain.guards import GUARDS, PODS
from fleet.domain.picture import AttentionRow
from fleet.domain.plans import (
    ENDED,
    ActionState,
    Check,
    LaneState,
    Loss,
    Outcome,
    PodLoss,
    Save,
    Scratch,
    StepKind,
    StepState,
)  # fmt: skip
from fleet.domain.scheduling import Unfit
from fleet.domain.training import Training

MAKERS = {"_block": 0, "_warn": 0, "Check": 0}
NOW = 1_764_622_739.0


def texts(node: ast.AST) -> set[str]:
    """The strings that an expression may be: of a constant, or of both sides of a condition."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, ast.IfExp):
        return texts(node.body) | texts(node.orelse)
    if isinstance(node, ast.Dict):
        return set().union(*map(texts, node.values))
    return set()


def made(module: ModuleType) -> Iterator[tuple[str, set[str], set[str]]]:
    """Guard, reasons and remedies of every check that a module of guards makes."""
    for function in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
            continue
        known: dict[str, set[str]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                known.setdefault(node.targets[0].id, set()).update(texts(node.value))
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in MAKERS:
                yield from _of(call, known)


def _of(call: ast.Call, known: dict[str, set[str]]) -> Iterator[tuple[str, set[str], set[str]]]:
    plain = [argument for argument in call.args if not (isinstance(argument, ast.Name) and argument.id == "draft")]

    def told(node: ast.AST) -> set[str]:
        if isinstance(node, ast.Subscript):
            return told(node.value)
        return known.get(node.id, set()) if isinstance(node, ast.Name) else texts(node)

    (guard,) = texts(plain[0])
    reason = plain[2] if call.func.id == "Check" else plain[1]  # type: ignore[attr-defined]
    remedies = {text for keyword in call.keywords if keyword.arg == "remedy" for text in told(keyword.value)} | {
        text for argument in plain[3:] for text in told(argument) if f"remedy.{text}" in MESSAGES
    }
    yield guard, told(reason), remedies


def refusals(module: ModuleType) -> set[str]:
    """Why a module says that a change cannot be made: the first word of each ChangeError, and what is handed to `number`."""
    found = set[str]()
    for call in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in {"ChangeError", "number"}:
            found |= texts(call.args[0 if call.func.id == "ChangeError" else -1])
    return found


SCOPES = {
    "rack",
    "zone",
    "pool",
    "cluster",
    "rack-unknown",
    "zone-unknown",
    "pool-unknown",
}  # of the failure domain, which names its reason by its scope
GUARD_MODULES = (site_guards, pod_guards, release_guards, release_room)
COPIES = (
    "serves-at-once",
    "serves-too",
    "version-taken",
    "overlap",
    "shared-budget",
    "budget-exists",
    "one-node-volume",
)
FOUND = [one for module in GUARD_MODULES for one in made(module)]
UNKNOWN = {*last_saves.WHY.values(), "none", "unreadable", "shared", "clock", "untimed"}
UNSAVED = {*UNKNOWN, "reported", "saved-first", "age"}
REASONS = sorted(
    {("checkpoint", reason) for reason in UNSAVED}
    | {("change", why) for module in (revisions, green_sides, releases) for why in refusals(module)}
    | {("sides", str(fault)) for fault in switching.Fault if fault is not switching.Fault.OWNED}
    | {("sides", f"was-{state}") for state in ("both", "neither")}
    | {("smoke", str(fault)) for fault in (*smoke.Fault, "no-port")}
    | {("room", "no-place"), ("room", "no-surge"), ("room", "volume")}
    | {("change", reason) for reason in COPIES}
    | {("owner", reason) for reason in ("operator", "synced", "packaged")}
    | {("rolling", verdict) for verdict in ("rolling", "failed", "not-observed")}
    | {(guard, reason) for guard, reasons, _ in FOUND for reason in (SCOPES if guard == "failure-domain" else reasons)}
)
EVIDENCE = (
    ("role", "viewer"), ("cluster", "c"), ("age_s", 61.0), ("verb", "patch"), ("resource", "nodes"), ("namespace", None),
    ("action", "M-0001"), ("kind", "drain"), ("until_at", NOW), ("why", "Christmas."), ("from", "01:00"), ("to", "05:00"),
    ("zone", "UTC"), ("name", "r1"), ("running", 1), ("limit", 1), ("out", 7), ("nodes", 24),
    ("limit_pct", 25), ("pool", "train"), ("left", 8), ("floor", 16), ("gpus", 8), ("step", None), ("volume", "cache"),
    ("bytes", None), ("annotation", "a/b"), ("budgets", "a, b"), ("budget", "a"), ("behind", 1), ("healthy", 2), ("needs", 2),
    ("expected", 3), ("nodes-no-gpus", 20), ("nodes-cordoned", 1), ("claim", "data"), ("workload", "Deployment/ml/x"),
    ("ready", 2), ("leaving", 1), ("requests", 7), ("grace_s", 30), ("pods", 3), ("message", "no"), ("by", "Flagger"),
    ("container", "server"), ("sides", "blue, green"), ("side", "green"), ("wants", 4), ("others", 1), ("left_s", 20.0),
    ("path", "/version"), ("status", 503), ("found", "x"), ("what", "path"), ("autoscaler", "llm"), ("placed", 1),
    ("surge", 1), ("unavailable", 0), ("largest", 3), ("services", "chat/llm"), ("service", "chat/llm"), ("claims", "data"),
    ("asked", 64),
)  # fmt: skip


def test_the_code_of_guards_is_understood():
    """Each guard makes at least one check that was found, so that what follows looks at all of them."""
    assert {guard for guard, _ in REASONS} == set(GUARDS)
    assert len(REASONS) > 45


@pytest.mark.parametrize("language", ["en", "fr"])
@pytest.mark.parametrize(("guard", "reason"), REASONS)
def test_every_finding_has_a_sentence(guard, reason, language):
    check = Check(guard, Outcome.BLOCK, reason, "ml/pod-0", EVIDENCE)
    assert f"guard.{guard}.{reason}" in MESSAGES
    with translation.override(language):
        said = checks.sentence(check, NOW)
    assert said.endswith((".", "!"))
    assert not re.search(r"[{}]|\.\.|\s\.", said)


@pytest.mark.parametrize("guard", GUARDS)
def test_every_guard_says_what_passing_means(guard):
    assert checks.sentence(Check(guard, Outcome.PASS, subject="node-07"), NOW)
    assert f"guard.{guard}" in MESSAGES


def test_every_remedy_has_a_sentence():
    remedies = {remedy for _, _, found in FOUND for remedy in found}
    named = {
        node.value
        for module in GUARD_MODULES
        for call in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == "remedy"
        for node in ast.walk(keyword.value)
        if isinstance(node, ast.Constant)
    }
    remedies |= {*pod_guards.SAVING.values(), "grant-store", "look-at-labels", "surge-none"}
    assert named | remedies == {key.removeprefix("remedy.") for key in MESSAGES if key.startswith("remedy.")}


def test_unknown_is_a_word_and_never_nought():
    with translation.override("en"):
        said = checks.sentence(Check("scratch", Outcome.BLOCK, "undeclared", "ml/p", EVIDENCE, "save-or-declare"), NOW)
        assert "How much is in it: unknown." in said
        assert " 0" not in said
        (work, requests, scratch) = losses.figures(Loss(work_s=None, requests=None, scratch_bytes=None))
        assert [words.plain(one.value, NOW) for one in (work, requests, scratch)] == ["unknown"] * 3
        assert not any(one.zero for one in (work, requests, scratch))


def constants(module: ModuleType, *calls: str) -> set[str]:
    """First text of every call of these names."""
    return {
        text
        for call in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in calls
        for text in (
            next((a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)), ""),
        )
        if text
    }


def test_every_refusal_end_and_entry_has_a_sentence():
    needed = {f"act.no.{why}" for why in constants(act, "Refused") | {"ended", "confirmed-already"}}
    needed |= {
        f"act.end.failed.{why}"
        for module in (running, act_steps, evicting, releasing, selecting, copying, release_facts)
        for why in constants(module, "Failed")
    }
    needed |= {f"act.end.succeeded.{kind}" for kind in ACTIONS}
    needed |= {"act.end.stopped.stopped", "act.end.refused.withdrawn", "act.end.refused.superseded"}
    needed |= {f"act.end.expired.{why}" for why in ("not-confirmed", "not-begun")}
    told = {what for module in (act, running, act_steps) for what in constants(module, "tell", "change")}
    needed |= {f"act.log.{what}" for what in told | {"confirmed", "approved", "succeeded", "failed", "stopped"}}
    needed |= {
        f"act.{way}.{kind}" for kind in ACTIONS for way in ("do", "plan", "doing", "done", "stop", "kind", "means")
    }
    needed |= {f"act.state.{state}" for state in ActionState}
    needed |= {f"act.{way}.{kind}" for kind in StepKind for way in ("step", "will")}
    needed |= {f"act.step.{state}" for state in StepState}
    needed |= {f"act.lane.{state}" for state in LaneState}
    needed |= {f"act.loss.stays.{why}" for why in (*draining.Stay, *draining.Blocker)}
    needed |= {f"guard.unfit.{why}" for why in Unfit}
    assert sorted(needed - set(MESSAGES)) == []
    assert "act.no.blocked" in needed
    assert "act.end.failed.new-pods" in needed
    assert "act.log.reboot-reminder" in needed


def test_every_reason_that_holds_or_ends_a_lane_has_a_sentence():
    held = {meaning for meaning in draining.Meaning if meaning not in draining.PERMANENT}
    held -= {draining.Meaning.ACCEPTED, draining.Meaning.GONE}
    needed = {f"act.lane.held.{why}" for why in (*held, *confirmed_losses.Excess, "unreachable")}
    needed |= {f"act.lane.failed.{why}" for why in (*draining.PERMANENT, "undisturbed")}
    assert sorted(needed - set(MESSAGES)) == []


def test_why_no_checkpoint_is_known_has_a_word_in_the_table_of_losses():
    assert sorted({f"act.loss.unsaved.{why}" for why in UNKNOWN} - set(MESSAGES)) == []


def test_every_entry_of_a_step_is_told():
    for kind in StepKind:
        for way in ("started", "done", "skipped"):
            assert words.plain(trail.told(Row(what=f"{kind}-{way}", actor="vigie")), NOW)


@pytest.mark.parametrize(
    ("count", "english", "french"),
    [
        (0, "0 B", "0\u00a0o"),
        (999, "999 B", "999\u00a0o"),
        (1_000, "1.0 kB", "1,0\u00a0ko"),
        (44_200_000_000, "44.2 GB", "44,2\u00a0Go"),
        (312_000_000_000, "312 GB", "312\u00a0Go"),
        (999_960, "1.0 MB", "1,0\u00a0Mo"),
    ],
)
def test_sizes(count, english, french):
    for language, expected in (("en", english), ("fr", french)):
        with translation.override(language):
            assert words.plain(measures.size(count), NOW).replace(" ", "\u00a0") == expected.replace(" ", "\u00a0")
    assert measures.size(None) is None


def test_a_waiver_is_offered_once_per_check_and_only_to_whom_may():
    block = Check("scratch", Outcome.BLOCK, "undeclared", "ml/p", EVIDENCE, "save-or-declare", "approver")
    role = Check("role", Outcome.BLOCK, "viewer", "node-1", EVIDENCE, "ask-operator")
    found = checks.findings([block, block, role], Role.APPROVER).blocks
    assert [one.lifts for one in found] == ["scratch:ml/p", "", ""]
    assert not any(one.lifts for one in checks.findings([block], Role.OPERATOR).blocks)
    assert checks.all_liftable([block], Role.APPROVER)
    assert not checks.all_liftable([block, role], Role.APPROVER)
    assert checks.all_liftable([], None)


class Row:
    """A step or a lane of the ledger, as far as the panels look."""

    def __init__(self, **fields: object) -> None:
        self.accepted_at = self.gone_at = self.replaced_at = self.started_at = self.deadline_at = self.done_at = None
        self.facts: dict[str, object] = {}
        self.evidence: dict[str, object] = {}
        self.__dict__ |= fields


def test_progress_never_runs_backwards_on_the_way_of_a_drain():
    kinds = (StepKind.CORDON, StepKind.DRAIN, StepKind.RELEASE, StepKind.PROVE)
    at: list[int] = []
    pods = [Row(), Row()]
    moments = [(pod, name) for name in ("accepted_at", "gone_at") for pod in pods]

    def look(done: int) -> None:
        rows = [Row(kind=kind, state="done" if n < done else "todo") for n, kind in enumerate(kinds)]
        at.append(lanes._percent(rows, pods))

    look(0)
    look(1)
    for pod, name in moments:
        setattr(pod, name, NOW)
        look(1)
    for done in (2, 3):
        look(done)
    for pod in pods:
        pod.replaced_at = NOW
        look(3)
    look(4)
    assert at == sorted(at)
    assert (at[0], at[-1]) == (0, 99)
    assert len(set(at)) > 6


@pytest.mark.parametrize(
    ("warm_up_s", "row", "expected"),
    [
        (60, Row(state="terminating", facts={"grace_until": NOW + 10}), "about 1 min left"),
        (None, Row(state="queued"), "how long is unknown"),
        (60, Row(state="held"), "as long as a budget holds"),
    ],
)
def test_how_long_it_takes_is_told_only_where_somebody_has_measured(warm_up_s, row, expected):
    pod = PodLoss("u", "ml", "p", "n", warm_up_s=warm_up_s, grace_s=30)

    class Plan:
        loss = Loss(pods=(pod,))

    row.uid = "u"
    steps_ = [Row(kind="drain", state="waiting"), Row(kind="prove", state="todo")]
    with translation.override("en"):
        assert words.plain(lanes.eta(steps_, [row], Plan, NOW), NOW) == expected


def test_a_promise_is_kept_only_by_what_is_known():
    assert ends._within(NA, 5)
    assert ends._within(0, None)
    assert ends._within(4, 5)
    assert not ends._within(None, 5)
    assert not ends._within(4, None)
    assert not ends._within(6, 5)


def test_what_was_saved_first_is_not_lost():
    pods = tuple(
        PodLoss(f"u{n}", "ml", f"llm-{n}", "n", owner_kind="Job", owner_name="llm", training=True, work_s=7200.0)
        for n in (1, 2)
    )
    save = Save("Job/ml/llm", "ml", "llm-0", "u0", "http:1/s", Training("Job/ml/llm", "ml"), ("u1", "u2"))
    rows = [Row(uid=f"u{n}", gone_at=NOW + 10.0 * n) for n in (1, 2)]
    saved = Row(evidence={"workloads": {"Job/ml/llm": {"state": "saved", "saved_at": NOW + 20, "state_at": NOW}}})
    plan = SimpleNamespace(loss=Loss(pods=pods), saves=(save,))
    assert ends._work(plan, rows, []) == 7200, "two ranks of one job lose the same hours"
    assert ends._work(plan, rows, [saved]) == 20
    assert ends._work(plan, rows[:1], [saved]) == 10
    seen = Row(uid="u1", gone_at=NOW + 10.0, facts={"lost_since_at": NOW - 90})
    assert ends._work(plan, [seen], [saved]) == 100, "as it was right before its eviction"


@pytest.mark.parametrize(
    ("kind", "state", "outcome", "told"),
    [
        ("switch", "done", "stopped", "Its selector stays written"),
        ("switch", "done", "overwritten", ""),
        ("change", "done", "rollout-stuck", "What was written stays"),
        ("change", "undone", "stopped", "nobody had answered"),
        ("create", "failed", "exists", ""),
    ],
)
def test_what_a_release_leaves_is_told(kind, state, outcome, told):
    action = SimpleNamespace(state=ActionState.STOPPED, outcome={"why": outcome}, kind="switch")
    step = Row(kind=kind, state=state, evidence={"trouble": "silent"} if state == "undone" else {})
    with translation.override("en"):
        said = " ".join(words.plain(text, NOW) for text in ends._left(action, [step], []))
    assert told in said
    assert bool(said) is bool(told)


def test_whoever_was_slower_has_withdrawn_nothing():
    for by, said in (("M-0007", "M-0007"), ("", "since it was shown")):
        action = SimpleNamespace(state=ActionState.REFUSED, outcome={"why": "superseded", "by": by}, kind="switch")
        with translation.override("en"):
            assert words.plain(ends.tag(action)[2], NOW) == "Superseded"
            assert said in words.plain(ends.why(action), NOW)
    withdrawn = SimpleNamespace(state=ActionState.REFUSED, outcome={"why": "withdrawn"}, kind="switch")
    with translation.override("en"):
        assert words.plain(ends.tag(withdrawn)[2], NOW) == "Withdrawn"


def test_pods_that_a_controller_ends_come_back_where_it_finds_room():
    loss = Loss(pods=(PodLoss("u1", "ml", "llm-1", "n", owner_kind="Deployment", owner_name="llm"),))
    backs = [losses.lines(loss, (), kind)[0].back for kind in ("restart", "retire", "drain")]
    with translation.override("en"):
        told = [words.plain(back.words, NOW) for back in backs]
    assert told == ["where there is room", "nowhere: fewer are wanted", "nowhere now"]


def test_what_a_reboot_waits_for_is_told():
    missing = {"ready": "Unknown", "reading": None, "gpus": 7, "troubles": [[3, "xid-79"]], "driver": None}
    row = Row(kind="verify", state="waiting", evidence={"missing": missing})
    with translation.override("en"):
        said = words.plain(steps.waits(row), NOW)
    assert said == (
        "not Ready yet · no reading since the reboot yet · 7 GPUs there · some GPUs are not well · driver unknown"
    )


def test_scratch_and_gangs_are_part_of_a_pods_line():
    pod = PodLoss(
        "u", "ml", "p", "n", owner_kind="Job", gpus=4, training=True, work_s=None, gang_gpus=12, comes_back_on="n2",
        scratch=(Scratch("ckpt", 41e9), Scratch("tmp", None, declared=True)),
    )  # fmt: skip
    (line,) = losses.lines(Loss(pods=(pod,)))
    with translation.override("en"):
        said = [words.plain((cell.words, cell.small) if cell.words is not None else ("unknown", cell.small), NOW)
                for cell in (line.work, line.requests, line.scratch, line.back)]  # fmt: skip
    assert "12 GPUs of its job elsewhere stop too" in said[0]
    assert said[2].startswith("41.0")
    assert "unknown" in said[2]
    assert said[3] == "n2"
    assert line.level == "warn"
    assert {ActionState.SUCCEEDED, ActionState.FAILED} <= ENDED


# As in frontend/tests/attention.test.js: the browser says the same.
@pytest.mark.parametrize(
    ("action", "node", "expected"),
    [
        ("reboot-node", "node-07", "maintain"),
        ("reset-bus", "node-07", "maintain"),
        ("drain-and-reset", "node-07", "drain"),
        ("contact-support", "node-07", "drain"),
        ("monitor", "node-07", ""),
        ("reboot-node", "", ""),
    ],
)
def test_attention_asks_for_the_maintenance_that_comes_next(action, node, expected):
    facts = (("pods", 1), ("gpus", 8), ("count", 1), ("indices", "3"), ("rule", "xid-79"), ("action", action),
             ("state", "lost"), ("evidence", "off the bus"))  # fmt: skip
    entry = attention.entry("k", AttentionRow("gpu-lost", "bad", 1, node, node, NOW, facts))
    assert entry.does == expected
    assert not entry.does or f"attention.do.{entry.does}" in MESSAGES


def alike(count: int, reason: str = "unknown") -> list[Check]:
    return [
        Check("requests", Outcome.BLOCK, reason, f"ml/pod-{n}", (("grace_s", 30),), "save-first", "approver")
        for n in range(count)
    ]


def test_what_a_guard_says_of_many_pods_is_told_once():
    found = checks.findings([*alike(12), *alike(2, "in-flight")], Role.APPROVER)
    many, *alone = found.blocks
    assert words.plain(many.title, NOW) == "12 pods serve requests, and how many is unknown"
    assert [one.name for one in many.each] == [f"ml/pod-{n}" for n in range(12)]
    assert many.why
    assert len(alone) == 2
    assert {one.lifts for one in alone} == {"requests:ml/pod-0", "requests:ml/pod-1"}


def test_a_waiver_of_many_is_one_of_each():
    plan = alike(3)
    (many,) = checks.findings(plan, Role.APPROVER).blocks
    given = checks.lifted(plan, {many.lifts: "tested", "made:up": "no"})
    assert given == {**{check.key: "tested" for check in plan}, "made:up": "no"}
    (again,) = checks.findings(plan, Role.APPROVER, given).blocks
    assert (again.chosen, again.typed) == (True, "tested")
    assert checks.findings(plan, Role.OPERATOR).blocks[0].lifts == ""


@pytest.mark.parametrize("guard", [guard for guard in PODS if guard != "budgets-known"])  # it is not about pods
def test_every_guard_about_pods_has_words_for_many(guard):
    assert f"guard.{guard}.many" in MESSAGES


def test_of_many_lines_the_dearest_are_shown():
    pods = [
        PodLoss(str(n), "ml", f"p{n}", "node-1", work_s=60 if n in {30, 59} else NA, requests=NA) for n in range(60)
    ]
    shown, rest = losses.dearest(losses.lines(Loss(tuple(pods))))
    assert {"ml/p30", "ml/p59"} <= {line.name for line in shown}
    assert (len(shown), len(shown) + len(rest)) == (losses.AT_ONCE, 60)
    assert losses.dearest(losses.lines(Loss(tuple(pods[:10]))))[1] == []
