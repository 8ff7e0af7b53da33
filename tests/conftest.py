"""Rules of every test session: what a skip means, and what runs where."""

import os

import pytest

NO_SKIPS = bool(os.environ.get("VIGIE_NO_SKIPS"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With servers asked for but missing, the second run has nothing to run on: say so once per test, loudly."""
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
