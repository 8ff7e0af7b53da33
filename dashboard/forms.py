"""What people type in: sign-in, and the password behind a one-time link.

Owns validation and its words. Must not sign anybody in, nor decide what an account may do.
"""

from datetime import timedelta
from math import ceil
from typing import Any

import structlog
from django import forms
from django.contrib.auth import authenticate
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from dashboard import throttle

log = structlog.get_logger(__name__)


class SignInForm(AuthenticationForm):
    """Name and password. A wrong one costs a try; the answer is the same whether the name exists, is disabled, or not there."""

    def clean(self) -> dict[str, Any]:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is None or not password:
            return self.cleaned_data
        address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        try:
            left = throttle.begin(name, address)
        except throttle.TooManyTriesError as error:
            log.warning("a sign-in was refused after too many tries", address=address)
            raise ValidationError(_wait(error.wait), code="throttled") from error
        self.user_cache = authenticate(self.request, username=name, password=password)
        if self.user_cache is None:
            # Not what was typed: people type passwords into the wrong field.
            known = User.objects.filter(username=name).values_list("pk", flat=True).first()
            log.warning("a sign-in failed", account=known, address=address)
            raise ValidationError(_wrong(left), code="invalid_login")
        throttle.succeed(name, address)
        return self.cleaned_data


def _wrong(left: int) -> str:
    if not left:
        return _("User name or password is wrong.") + " " + _wait(throttle.WINDOW)
    return ngettext(
        "User name or password is wrong. %(left)d try left.",
        "User name or password is wrong. %(left)d tries left.",
        left,
    ) % {"left": left}


def _wait(wait: timedelta) -> str:
    minutes = max(1, ceil(wait.total_seconds() / 60))
    return ngettext(
        "Too many tries. Wait %(minutes)d minute.", "Too many tries. Wait %(minutes)d minutes.", minutes
    ) % {"minutes": minutes}


class WelcomeForm(forms.Form):
    """A new password, typed twice; with a name where the first account is made."""

    username = forms.CharField(max_length=150, label=gettext_lazy("User name"))
    password = forms.CharField(strip=False, label=gettext_lazy("New password"), widget=forms.PasswordInput)
    again = forms.CharField(strip=False, label=gettext_lazy("The same password again"), widget=forms.PasswordInput)

    def __init__(self, *args: Any, user: User | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        if user is not None:
            del self.fields["username"]
        self.fields["password"].widget.attrs["autocomplete"] = "new-password"
        self.fields["again"].widget.attrs["autocomplete"] = "new-password"

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        password = cleaned.get("password")
        if password is None:
            return cleaned
        if password != cleaned.get("again"):
            self.add_error("again", _("The two passwords differ."))
        try:
            validate_password(password, self.user or User(username=cleaned.get("username", "")))
        except ValidationError as error:
            self.add_error("password", error)
        return cleaned
