"""Reading YAML files of Kubernetes objects: lines, what kubectl makes of a scalar, and files that mean harm."""

import pytest

from fleet.adapters.manifests_yaml import MOST_BYTES, MOST_DEPTH, MOST_VALUES, documents
from fleet.domain.documents import Unreadable, read

BOMB = b"a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + b"".join(
    b"%c: &%c [%s]\n" % (98 + i, 98 + i, b", ".join([b"*%c" % (97 + i)] * 10)) for i in range(8)
)
CHAIN = b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d]\n" % (i, i, i - 1) for i in range(1, 100))

DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n"
BUDGET = (
    "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec:\n  selector:\n    matchExpressions:\n"
)


def values(content: bytes) -> list:
    return [document.value for document in documents("f", content)]


def test_each_field_has_its_line():
    (_, second) = documents("f", b"a: 1\n---\n# two\nb:\n- c: 1\n  d:\n    e: {f: 2}\n")
    assert (second.line, second.value) == (4, {"b": [{"c": 1, "d": {"e": {"f": 2}}}]})
    assert {path: second.lines[path] for path in [("b",), ("b", 0), ("b", 0, "d"), ("b", 0, "d", "e", "f")]} == {
        ("b",): 4,
        ("b", 0): 5,
        ("b", 0, "d"): 6,
        ("b", 0, "d", "e", "f"): 7,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("-7", -7), ("0x1f", 31), ("010", 8), ("0o17", 15), ("1.5", 1.5), ("1e3", 1000.0),
        ("true", True), ("off", False), ("~", None), ("", None), ("'1'", "1"),
        ("!!str 1", "1"), ("2026-01-02", "2026-01-02"), ("1:30", "1:30"), ("09", 9.0),
        ("25%", "25%"), ("9" * 40, 1e40), ("|\n  a\n  b\n", "a\nb\n"),
    ],
)  # fmt: skip
def test_scalars_are_what_kubectl_makes_of_them(text, value):
    assert values(f"a: {text}".encode()) == [{"a": value}]


def test_aliases_and_merge_keys():
    assert values(b"x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: *x\n")[0]["y"] == {"a": 1, "b": 3}


def test_documents_without_anything_are_none():
    assert values(b"---\n# nothing\n---\n---\na: 1\n") == [{"a": 1}]


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (BOMB, 6, f"more than {MOST_VALUES} values"),
        (CHAIN, 64, f"nested more than {MOST_DEPTH} deep"),
        (b"[" * 100_000, 1, ""),
        (b"{a: " * (MOST_DEPTH + 1), 1, "nested more than"),
        (b"a: &a [*a]", 1, "an alias of something that holds it"),
        (b"a: " + b"x" * MOST_BYTES, 0, "more than 4 MiB"),
        (b"- one", 1, "has to be a mapping"),
        (b"just text", 1, "has to be a mapping"),
        (b"a: 1\na: 2", 2, "stands here twice"),
        (b"a: 1\nb: !!python/object/apply:os.system [id]", 2, "a tag that Kubernetes does not know"),
        (b"a: !!binary aGk=", 1, "a tag that Kubernetes does not know"),
        (b"a: {{ .Values.image }}", 1, "a key has to be text"),
        (b"? [a]\n: b", 1, "a key has to be text"),
        (b"<<: text", 1, "only mappings can be merged"),
        (b"a: 1\nb: \xff", 2, "not UTF-8"),
        (b"a: \x00", 0, "no YAML"),
        (b"a: b: c", 1, "no YAML"),
        (b"a:\n\t- b", 2, "no YAML"),
        (b"---\n" * 20 + b"x: 'open", 21, "no YAML"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(content, line, words):
    with pytest.raises(Unreadable) as refused:
        values(content)
    assert words in str(refused.value)
    assert refused.value.line == line


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("kind: Deployment\n", 1, "no kind and apiVersion"),
        (DEPLOYMENT + "  replicas: many\n", 5, "spec.replicas: Expected"),
        ("apiVersion: apps/v1\nkind: Deployment\nspec: {}\n", 1, "missing required field `metadata`"),
        (DEPLOYMENT + "  strategy:\n    rollingUpdate:\n      maxSurge: most\n", 7, "neither a count nor a percentage"),
        (
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: 5\n",
            7,
            "metadata.name",
        ),
        (POD + "  - name: c\n    resources:\n      limits: {nvidia.com/gpu: two}\n", 7, "not a quantity"),
        (BUDGET + "    - {key: a, operator: Like}\n", 5, "operator has to be"),
    ],
)
def test_what_is_no_object_is_refused_with_its_line(text, line, words):
    (document,) = documents("f", text.encode())
    with pytest.raises(Unreadable) as refused:
        list(read(document))
    assert words in str(refused.value)
    assert refused.value.line == line


def test_a_list_gives_its_items_and_other_kinds_give_nothing():
    text = (
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap}\n"
        "- {apiVersion: serving.knative.dev/v1, kind: Service}\n- apiVersion: v1\n  kind: Service\n  metadata: {name: a}\n"
    )
    (document,) = documents("f", text.encode())
    (found,) = read(document)
    assert (found.key, found.line_of(("metadata", "name")), found.line_of(("spec",))) == ("Service//a", 8, 6)
