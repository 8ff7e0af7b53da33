"""What every answer tells the browser about itself: strict Content-Security-Policy, no framing, no sniffing, no caching.

Owns response headers that Django's SecurityMiddleware does not know. Must not look at who asks or what is shown.
"""

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponseBase

FIXED = {
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}


class Headers:
    """Around every other middleware that may answer, so that refusals and static files carry the same headers as pages."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers["Content-Security-Policy"] = policy(request)
        for name, value in FIXED.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault("Cache-Control", "no-store, private")
        return response


def policy(request: HttpRequest) -> str:
    """The Content-Security-Policy of one answer: only our own files, and our own socket.

    `'self'` covers the socket's scheme in today's browsers, but not in every one of our baseline: so it is named as well.
    """
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "font-src 'self'",
            f"connect-src 'self'{socket_origin(request)}",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    )


def socket_origin(request: HttpRequest) -> str:
    """This site's WebSocket origin, or nothing for a host that is not ours."""
    try:
        return f" {'wss' if request.is_secure() or settings.VIGIE_SECURE else 'ws'}://{request.get_host()}"
    except DisallowedHost:
        return ""
