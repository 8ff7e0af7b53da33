"""What refusals look like, to people and to programs, in their language, and when little works."""

import pytest
from django.test import Client, RequestFactory

from dashboard import errors


def test_a_broken_page_is_shown_without_asking_anything():
    """No database here: this test may not use one."""
    response = errors.broken(RequestFactory().get("/c/paris/"))
    assert response.status_code == 500
    assert b"This page could not be built" in response.content


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
