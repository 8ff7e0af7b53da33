"""`manage.py readiness`: exit codes, what it prints as text, JSON and SARIF, and one line for a file that cannot be read."""

import io
import json
import os
import sys
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command

from fleet.domain.readiness import Rule
from tests.domain.readiness_cases import GOOD

LESSON = "tests/data/readiness/lesson.yaml"
AROUND = "tests/data/readiness/lesson-around.yaml"


class Ran:
    def __init__(self, *arguments: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        try:
            call_command("readiness", *arguments, stdout=out, stderr=err)
            self.code: int | str | None = 0
        except SystemExit as ended:
            self.code = ended.code
        self.out, self.err = out.getvalue(), err.getvalue()


@pytest.fixture
def file(tmp_path):
    def write(text: str | bytes, name: str = "all.yaml") -> str:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def good() -> str:
    return yaml.safe_dump_all(list(yaml.safe_load(GOOD).values()))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("", ""), 0),
        (("unhealthyPodEvictionPolicy: AlwaysAllow", "unhealthyPodEvictionPolicy: IfHealthyBudget"), 0),
        (("image: registry.example/llm:2.1", "image: registry.example/llm"), 1),
        (("maxUnavailable: 1", "maxUnavailable: 0"), 2),
        (("replicas: 4", "replicas: four"), 3),
    ],
)
def test_exit_codes(file, change, code):
    assert Ran(file(good().replace(*change))).code == code


def test_text_names_file_line_rule_object_why_and_remedy():
    ran = Ran(LESSON, AROUND)
    assert ran.code == 2
    assert f"{LESSON}:17: error R30 Deployment//traduction: Service traduction chooses by the label version" in ran.out
    assert "    Switched to another colour and back, it selects no pod" in ran.out
    assert "    |         version: blue" in ran.out
    assert ran.out.rstrip().endswith("1 workload: 1 error, 2 warnings, 2 infos")


def test_json_has_exactly_the_agreed_members():
    found = json.loads(Ran(LESSON, "--json").out)
    assert set(found) == {"findings"}
    assert [(one["rule"], one["severity"], one["file"], one["line"]) for one in found["findings"]] == [
        ("R20", "warning", LESSON, 1),
        ("R25", "warning", LESSON, 19),
    ]
    assert set(found["findings"][0]) == {"rule", "severity", "file", "line", "object", "message", "remedy"}


def test_sarif_names_every_rule_and_the_place_of_each_result(file):
    name = file(good().replace("maxUnavailable: 1", "maxUnavailable: 0"), "a b.yaml")
    found = json.loads(Ran(name, "--sarif").out)
    (run,) = found["runs"]
    assert found["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [rule.value for rule in Rule]
    assert all(
        rule["shortDescription"]["text"] and rule["fullDescription"]["text"] for rule in run["tool"]["driver"]["rules"]
    )
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], result["level"], result["ruleIndex"]) == ("R19", "error", 18)
    assert place["artifactLocation"]["uri"] == name.replace(" ", "%20")
    assert place["region"]["startLine"] > 1


def test_several_documents_come_from_stdin(monkeypatch):
    content = Path(LESSON).read_bytes() + b"---\n" + Path(AROUND).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    ran = Ran("-")
    assert ran.code == 2
    assert "stdin:17: error R30" in ran.out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: &a [*a]", ":1: an alias of something that holds it"),
        (b"kind: Deployment\napiVersion: apps/v1\nmetadata: {name: a}\nspec: [", "no YAML"),
        (b"x" * (4 * 1024 * 1024 + 10), ": more than 4 MiB"),
        (b"- a\n", ":1: an object has to be a mapping"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(file, content, words):
    ran = Ran(LESSON, file(content, "bad.yaml"))
    assert (ran.code, ran.out) == (3, "")
    assert words in ran.err
    assert ran.err.startswith("readiness: ")
    assert ran.err.count("\n") == 1


def test_directories_and_missing_files_are_refused(tmp_path):
    assert "a directory; name the files in it" in Ran(str(tmp_path)).err
    assert os.strerror(2) in Ran(str(tmp_path / "none.yaml")).err


def test_an_annotation_that_is_no_duration_is_told_beside_the_findings(file):
    text = good().replace("labels: {app: llm}", "").replace("        app: llm\n      labels", "")
    text = text.replace(
        "metadata:\n  name: llm", "metadata:\n  annotations: {vigie.dev/load-time: soon}\n  name: llm", 1
    )
    ran = Ran(file(text))
    assert "vigie.dev/load-time is no duration and counts as not there" in ran.err
