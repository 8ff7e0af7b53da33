"""Rules of every test session: what a skip means, and what runs where."""

import contextlib
import os
from pathlib import Path

import pytest

NO_SKIPS = bool(os.environ.get("VIGIE_NO_SKIPS"))


# The files that take longest, longest first: begun last, one of them would run alone at the end.
LONGEST = (
    "fleet/test_act_kills.py", "browser/test_accessible.py", "browser/test_maintenance.py", "browser/test_live.py",
    "launcher/test_up.py", "dashboard/test_actions_pages.py", "fleet/test_act.py", "fleet/test_act_properties.py",
    "browser/test_pages.py", "simulation/test_kubectl_stories.py", "fleet/test_act_rehearsal.py", "simulation/test_life.py",
    "browser/test_cordon_shows.py", "browser/test_gpus.py", "simulation/test_replay.py", "simulation/test_agents.py",
    "simulation/test_scenarios.py", "fleet/agent/test_agent.py", "simulation/test_rehearsal.py", "deploy/test_access.py",
    "browser/test_sign_in.py", "fleet/test_tasks.py", "domain/test_health_properties.py", "simulation/test_churn.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first. With servers asked for but missing, the second run has nothing to run on: say so once per test,
    loudly."""
    ranks = {path: rank for rank, path in enumerate(LONGEST)}
    tests = Path(__file__).parent
    items.sort(key=lambda item: ranks.get(item.path.relative_to(tests).as_posix(), len(ranks)))
    if os.environ.get("VIGIE_TEST_BACKENDS") == "servers" and "DATABASE_URL" not in os.environ:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="postgres or redis-server is missing on this machine"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """In CI a test that did not run is a failure."""
    outcome = yield
    report = outcome.get_result()
    if NO_SKIPS and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, and nothing may be skipped here: {report.longrepr}"


@pytest.fixture(scope="session", autouse=True)
def _tables_can_be_emptied():
    """Between two tests, tables that refuse to be emptied are emptied too: their triggers go first and come back."""
    from django.db.backends.sqlite3.base import DatabaseOperations  # the other way round they import each other

    plain = DatabaseOperations.sql_flush

    def sql_flush(self, *arguments, **options):
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            triggers = cursor.fetchall()
        dropped = [f'DROP TRIGGER "{name}"' for name, _ in triggers]
        return [*dropped, *plain(self, *arguments, **options), *(sql for _, sql in triggers)]

    DatabaseOperations.sql_flush = sql_flush
    with _postgres_can_be_emptied():
        yield
    DatabaseOperations.sql_flush = plain


@contextlib.contextmanager
def _postgres_can_be_emptied():
    if not os.environ.get("DATABASE_URL", "").startswith("postgres"):
        yield
        return
    from django.db.backends.postgresql.base import DatabaseOperations

    plain = DatabaseOperations.sql_flush

    def sql_flush(self, *arguments, **options):
        with self.connection.cursor() as cursor:
            cursor.execute(
                "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE tgname LIKE '%\\_no\\_truncate'"
            )
            kept = [f"{table} {{}} TRIGGER {name}" for table, name in cursor.fetchall()]
        off, on = ([f"ALTER TABLE {one.format(word)}" for one in kept] for word in ("DISABLE", "ENABLE"))
        return [*off, *plain(self, *arguments, **options), *on]

    DatabaseOperations.sql_flush = sql_flush
    yield
    DatabaseOperations.sql_flush = plain
