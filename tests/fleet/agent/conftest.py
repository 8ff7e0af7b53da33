"""A node for the agent: the fake driver, a kernel log, and rounds that do not depend on how fast this machine is."""

import threading
from collections.abc import Iterator

import pytest

from fleet.adapters.gpus_rounds import COMMAND, Reader
from tests.nvml.driver import Driver, libraries  # noqa: F401 - a fixture

NEVER = threading.Event()


@pytest.fixture
def driver(tmp_path) -> Driver:
    return Driver(tmp_path)


@pytest.fixture
def readers(libraries, driver) -> Iterator:  # noqa: F811
    """Makes readers of the fake driver: `without` the symbols of newer ones. Their time stands still unless a clock is given."""
    made = []

    def reader(without=(), **options) -> Reader:
        command = (*COMMAND, str(libraries.without(without)))
        made.append(Reader(command, driver.environment(traced=True), **({"clock": lambda: 0.0} | options)))
        return made[-1]

    yield reader
    for one in made:
        one.close()


@pytest.fixture
def read(readers):
    """One round of a new reader."""
    return lambda without=(): readers(without).read(NEVER)
