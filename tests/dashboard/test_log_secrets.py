"""Secrets of addresses in logs: also when Django names the address of a request that failed."""

import io

import pytest
from django.conf import settings

from dashboard.log_secrets import hide


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("Internal Server Error: /wall/AbC-1_2/", "Internal Server Error: /wall/…/"),
        ("GET https://vigie.example/welcome/AbC?next=/ 500", "GET https://vigie.example/welcome/…?next=/ 500"),
        ("Not Found: /wall/", "Not Found: /wall/"),
        ("/wall/ws/ failed", "/wall/ws/ failed"),
        ("/static/css/wall.css", "/static/css/wall.css"),
    ],
)
def test_lines(line, hidden):
    assert hide(None, "info", line) == hidden


@pytest.mark.parametrize("logger", ["django.request", "dashboard.wall", "asyncio"])
def test_every_logger_goes_through_it(logger):
    """The handler of our settings, with a stream of our own in place of standard error."""
    import logging.config

    stream = io.StringIO()
    handler = {**settings.LOGGING["handlers"]["stderr"], "stream": stream}
    config = {**settings.LOGGING, "handlers": {"stderr": handler}, "loggers": {}}
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    try:
        logging.config.dictConfig(config)
        logging.getLogger(logger).error("Internal Server Error: %s", "/wall/very-secret/")
    finally:
        root.handlers, root.level = before[0], before[1]
    assert "very-secret" not in stream.getvalue()
    assert "Internal Server Error" in stream.getvalue()
