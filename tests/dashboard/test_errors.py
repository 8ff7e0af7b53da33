"""What refusals look like, to people and to programs, in their language, and when little works."""

import io
import logging.config
import re
from collections.abc import Callable, Iterator

import pytest
from django.conf import settings as configured
from django.test import Client, RequestFactory

from dashboard import errors


def test_a_broken_page_is_shown_without_asking_anything():
    """No database here: this test may not use one."""
    response = errors.broken(RequestFactory().get("/c/paris/"))
    assert response.status_code == 500
    assert b"This page could not be built" in response.content


@pytest.fixture
def log_lines() -> Iterator[Callable[[], str]]:
    """What our handler writes, to a stream of our own in place of standard error."""
    stream = io.StringIO()
    handler = {**configured.LOGGING["handlers"]["stderr"], "stream": stream}
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    try:
        logging.config.dictConfig({**configured.LOGGING, "handlers": {"stderr": handler}})
        yield stream.getvalue
    finally:
        root.handlers, root.level = before[0], before[1]


@pytest.mark.db
def test_a_failure_is_logged_under_the_name_that_its_page_shows(as_person, settings, log_lines):
    settings.VIGIE_KUBECONFIG = "/no/such/file"
    client = as_person("viewer")
    client.raise_request_exception = False
    page = client.get("/", headers={"x-request-id": "chosen-by-somebody-else"})
    name = page.headers["X-Request-ID"]
    assert re.fullmatch(r"[0-9a-f]{12}", name)
    assert name in page.content.decode()
    assert f"request={name}" in log_lines()
    answer = client.get("/api/v1/nodes")
    assert answer.json()["request"] == answer.headers["X-Request-ID"] != name


@pytest.mark.db
@pytest.mark.parametrize(
    ("path", "status"), [("/c/missing/", 404), ("/nowhere", 404), ("/healthz", 200), ("/login/", 200)]
)
def test_every_answer_has_a_name(as_person, writer, path, status):
    response = as_person("viewer").get(path, follow=True)
    assert response.status_code == status
    if status != 200:
        assert response.headers["X-Request-ID"] in response.content.decode()


@pytest.mark.db
def test_what_goes_wrong_inside_is_not_shown(as_person, settings):
    settings.VIGIE_KUBECONFIG = "/no/such/secret-file"
    client = as_person("viewer")
    client.raise_request_exception = False
    for path in ("/", "/api/v1/nodes"):
        response = client.get(path)
        assert response.status_code == 500
        assert b"secret-file" not in response.content
        assert b"Traceback" not in response.content
        assert "Content-Security-Policy" in response.headers
    assert response.headers["Content-Type"] == "application/problem+json"


@pytest.mark.db
def test_pages_and_refusals_speak_the_readers_language(as_person, writer):
    client = as_person("viewer")
    page = client.get("/c/missing/", headers={"accept-language": "fr"})
    assert 'lang="fr"' in page.content.decode()
    assert "There is nothing at this address" not in page.content.decode()
    assert b"There is nothing at this address" in client.get("/c/missing/", headers={"accept-language": "ja"}).content


def test_a_wrong_method_is_refused():
    assert Client().post("/healthz").status_code == 405
