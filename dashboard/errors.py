"""What a refusal looks like: a page for people, problem details (RFC 9457) for programs.

Owns the answers to requests that no view answers. Must not decide who is refused, nor show anything of what went wrong inside.
The pages for failures of our own are rendered as for nobody: looking for who asks may be what failed.
"""

from collections.abc import Callable
from http import HTTPStatus

import msgspec
import structlog
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _

from dashboard.request_ids import id_of

log = structlog.get_logger(__name__)

PROBLEM = "application/problem+json"
DATABASE_AWAY = (OperationalError, InterfaceError)  # locked for longer than we wait, or not there
RETRY_AFTER_S = 5


class Problem(msgspec.Struct, frozen=True):
    """Problem details. Some carry further members."""

    type: str
    title: str
    status: int
    detail: str


def problem(status: HTTPStatus, detail: str, *, headers: dict[str, str] | None = None, **more: object) -> HttpResponse:
    """Problem details: `more` are members of their own, beside the standard ones."""
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail, **more}
    return HttpResponse(msgspec.json.encode(body), status=status, content_type=PROBLEM, headers=headers)


def unauthorised() -> HttpResponse:
    """For programs; people are sent to the sign-in page instead."""
    detail = "Sign in, or send an API token that is valid: Authorization: Bearer …"
    return problem(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": 'Bearer realm="vigie"'})


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001  (Django's handlers have it)
    if getattr(request, "token", None) is not None:
        detail = "The scope of this token, or the role of its owner, does not allow this: see manage.py token --help."
        return problem(HTTPStatus.FORBIDDEN, detail)
    return _answer(
        request,
        HTTPStatus.FORBIDDEN,
        _("Your role does not allow this"),
        _("Ask somebody who manages accounts for the role that you need, then sign in again."),
    )


def forged(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001  (Django passes it by name)
    """Django's CSRF check failed: mostly a form that was open while its session ended."""
    return _answer(
        request,
        HTTPStatus.FORBIDDEN,
        _("This form is out of date"),
        _("Nothing was changed. Open the page again, then repeat what you wanted to do."),
    )


def malformed(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001  (Django's handlers have it)
    return _answer(
        request,
        HTTPStatus.BAD_REQUEST,
        _("This request is not understood"),
        _("Check the address. The host name may be one that Vigie is not set up to answer."),
    )


def missing(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001  (Django's handlers have it)
    return _answer(
        request,
        HTTPStatus.NOT_FOUND,
        _("There is nothing at this address"),
        _("It may have been removed, or the address is wrong."),
    )


def spent(request: HttpRequest) -> HttpResponse:
    return _answer(
        request,
        HTTPStatus.GONE,
        _("This link no longer works"),
        _("It was used, it is older than a day, or a newer one was made. Ask for another: manage.py user link NAME."),
    )


def spent_wall(request: HttpRequest) -> HttpResponse:
    return _answer(
        request,
        HTTPStatus.GONE,
        _("This address no longer works"),
        _("It was opened already, it has expired, or it was revoked. Ask an approver to make another one."),
    )


def broken(request: HttpRequest) -> HttpResponse:
    heading, text = (
        _("This page could not be built"),
        _("Nothing was changed in the cluster. The log of Vigie says why, under the request below."),
    )
    return _answer(request, HTTPStatus.INTERNAL_SERVER_ERROR, heading, text)


def database_away(request: HttpRequest, error: Exception) -> HttpResponse:
    """Vigie's own database is locked or away; nothing was written."""
    log.warning("the database does not answer", path=request.path_info, reason=str(error))
    heading, text = (
        _("Vigie’s own database is busy"),
        _("Nothing was saved and nothing was changed. Try again in a few seconds."),
    )
    response = _answer(request, HTTPStatus.SERVICE_UNAVAILABLE, heading, text)
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


class DatabaseAway:
    """Middleware: a view that could not reach the database says so calmly. The gate asks for the same where it looks."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return database_away(request, exception) if isinstance(exception, DATABASE_AWAY) else None


class NotAllowed:
    """Middleware: a method that an address of the API does not take is a problem too, and not a text of the framework."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code != HTTPStatus.METHOD_NOT_ALLOWED or not request.path_info.startswith("/api/"):
            return response
        taken = ", ".join(sorted(response.headers.get("Allow", "").split(", ")))
        return problem(HTTPStatus.METHOD_NOT_ALLOWED, f"This address takes {taken}.", headers={"Allow": taken})


def context(request: HttpRequest, status: HTTPStatus, heading: str, text: str) -> dict[str, object]:
    """What `error.html` is given."""
    return {
        "status": status.value,
        "heading": heading,
        "text": text,
        "request_id": id_of(request),
        "when": timezone.now(),
        "again": request.get_full_path() if request.method == "GET" else "",
    }


def _answer(request: HttpRequest, status: HTTPStatus, heading: str, text: str) -> HttpResponse:
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if request.path_info.startswith("/api/"):
        detail = f"{heading}. {text}"
        return problem(status, detail, request=id_of(request)) if failed else problem(status, detail)
    page = render_to_string("error.html", context(request, status, heading, text), None if failed else request)
    return HttpResponse(page, status=status)
