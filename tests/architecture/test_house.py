"""The house rules that a reviewer would otherwise have to remember: layers, names, sizes, and clean lock files."""

import ast
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOP = {
    *(
        "dashboard",
        "fleet",
        "frontend",
        "deploy",
        "tests",
        "manage.py",
        "pyproject.toml",
        "README.md",
        "Makefile",
    ),
    *("CHANGELOG.md", ".gitignore", "requirements.lock", "requirements-test.lock", ".ci"),
}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "core", "base", "services", "selectors"}
LONGEST_MODULE = 400


def tracked(*patterns: str) -> list[Path]:
    """Files of the repository, those not yet committed included."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def product_modules() -> list[Path]:
    return [p for p in tracked("fleet/*.py", "dashboard/*.py") if "migrations" not in p.parts]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def test_layers_hold():
    lint = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert lint.returncode == 0, lint.stdout + lint.stderr


@pytest.mark.parametrize("module", ["fleet.domain", "fleet.ports"])
def test_the_domain_loads_without_the_world(module):
    """In a fresh interpreter: what the import-linter cannot see, such as a late import at module level of a dependency."""
    code = (
        f"import pkgutil, importlib, sys, {module} as m\n"
        "for i in pkgutil.iter_modules(getattr(m, '__path__', [])): importlib.import_module(m.__name__ + '.' + i.name)\n"
        "print(sorted(set(sys.modules) & {'django', 'celery', 'channels', 'redis', 'kubernetes', 'pynvml'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_top_level_is_fixed():
    assert {p.relative_to(ROOT).parts[0] for p in tracked()} <= TOP


def test_modules_are_nouns_of_the_field():
    assert [p for p in product_modules() if p.stem in FORBIDDEN_NAMES] == []


def test_modules_fit_the_budget():
    scripts = [*product_modules(), *tracked("frontend/static/js/*.js")]
    too_long = {str(p.relative_to(ROOT)): n for p in scripts if (n := len(p.read_text().splitlines())) > LONGEST_MODULE}
    assert too_long == {}


def test_functions_fit_a_screen():
    lengths = [length(f) for p in product_modules() for f in functions(p)]
    assert statistics.median(lengths) <= 9
    assert sum(n <= 60 for n in lengths) / len(lengths) >= 0.98


def test_every_module_says_what_it_owns():
    silent = [
        p for p in product_modules() if p.name != "__init__.py" and not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert silent == []


def test_lock_files_are_hashed_and_hold_no_address():
    for path in (ROOT / "requirements.lock", ROOT / "requirements-test.lock"):
        text = path.read_text()
        assert "://" not in text
        pins = re.findall(r"^[a-z0-9][^\s=]*==", text, re.MULTILINE)
        assert len(pins) == len(re.findall(r"^[a-z0-9].*\\\n    --hash=sha256:", text, re.MULTILINE)) > 40
    assert re.search(r"^django==5\.2\.", (ROOT / "requirements.lock").read_text(), re.MULTILINE)


def test_test_lock_contains_the_run_lock():
    run, test = ((ROOT / n).read_text() for n in ("requirements.lock", "requirements-test.lock"))
    pins = re.findall(r"^[a-z0-9][^\s]*==[^\s]+", run, re.MULTILINE)
    assert [p for p in pins if f"{p} " not in test and f"{p}\n" not in test] == []


def test_npm_lock_holds_no_address():
    lock = json.loads((ROOT / "frontend" / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []


def test_recordings_stay_small():
    assert sum(p.stat().st_size for p in tracked("tests/data")) < 5_000_000
