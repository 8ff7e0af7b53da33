"""Calls to the API of a running Vigie, for commands.

Owns where that Vigie is (VIGIE_URL, else the instance that runs here), the token (VIGIE_TOKEN) and how a refusal is told. Must
not touch the database: a command may do exactly what its token may.
"""

import json
import os
import ssl
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import CommandError

from dashboard import running

WITHIN_S = 60.0
NO_ANSWER = 2  # the exit status where nothing was done; 1 is an answer that nobody hopes for
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class AwayError(CommandError):
    """Vigie does not answer, or not now: what was asked for before goes on."""


class Vigie:
    """The API. Raises CommandError with a sentence, and exit status 2, for everything that does not work."""

    def __init__(self, said: str = "") -> None:
        """`said`: who somebody at a console says they are; it is recorded and proves nothing."""
        self._token = os.environ.get("VIGIE_TOKEN", "")
        if not self._token:
            raise CommandError("set VIGIE_TOKEN: manage.py token USER --scope act prints one", returncode=NO_ANSWER)
        self._url = os.environ.get("VIGIE_URL", "").rstrip("/") or _here()
        address = urlsplit(self._url)
        if address.scheme != "https" and address.hostname not in LOOPBACK:
            raise CommandError(
                "VIGIE_URL has to begin with https://: the token would be readable on the way", returncode=NO_ANSWER
            )
        self._said = said

    def get(self, path: str) -> Any:
        return self._ask("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Accept": "application/json",
            "User-Agent": "vigie-command",
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._said:
            headers["Vigie-Console-User"] = self._said
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/api/v1/{path}", data, headers, method=method)  # noqa: S310 -- checked above
        context = ssl.create_default_context() if self._url.startswith("https") else None
        try:
            with urllib.request.urlopen(request, timeout=WITHIN_S, context=context) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            kind = AwayError if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR else CommandError
            raise kind(_told(error), returncode=NO_ANSWER) from None
        except (OSError, ValueError, HTTPException) as error:
            raise AwayError(f"no answer from {self._url}: {error}", returncode=NO_ANSWER) from None


def _here() -> str:
    found = running.read()
    if not found:
        raise CommandError("no Vigie runs here; name one with VIGIE_URL", returncode=NO_ANSWER)
    return found[0].address.rstrip("/")


def _told(error: urllib.error.HTTPError) -> str:
    """A problem's words, with the checks that stand."""
    try:
        problem = json.load(error)
        lines = [f"{problem['detail']} ({error.code})"]
    except (ValueError, KeyError, TypeError):
        return f"the answer was {error.code}"
    lines += [check_line(check) for check in problem.get("checks") or ()]
    return "\n".join(lines)


def check_line(check: dict[str, Any]) -> str:
    """One check as a line of text."""
    marks = {"PASS": "ok     ", "WARN": "warning", "BLOCK": "BLOCKS "}
    evidence = check["evidence"].items() if isinstance(check.get("evidence"), dict) else check.get("evidence") or ()
    told = ", ".join(f"{name} {'unknown' if value is None else value}" for name, value in evidence)
    parts = [marks[check["outcome"]], check["guard"], check.get("subject", ""), check.get("reason", "")]
    line = "  " + "  ".join(part for part in parts if part) + (f"  ({told})" if told else "")
    if check["outcome"] == "BLOCK":
        line += f"\n           {check['sentence']}"
        if check.get("waivable_by"):
            line += f"\n           {check['waivable_by']} may lift it: act confirm --waive '{check['key']}=WHY'"
    return line
