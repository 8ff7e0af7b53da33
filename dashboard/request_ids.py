"""A name for every request: in each line that it logs, in its answer, and on the page that says what went wrong.

Owns the name. Must not take one from outside: nobody else chooses what stands in our log.
"""

import secrets
from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from structlog.contextvars import bound_contextvars

HEADER = "X-Request-ID"


class RequestIds:
    """The outermost middleware, so that whatever goes wrong below is logged under the request's name."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        name = secrets.token_hex(6)
        request.id = name  # type: ignore[attr-defined]
        with bound_contextvars(request=name):
            response = self.get_response(request)
        response.headers[HEADER] = name
        return response


def id_of(request: HttpRequest) -> str:
    """The name of a request; "" of one that did not come through the middleware."""
    return str(getattr(request, "id", ""))
