"""How somebody becomes a signed-in person: sign-in, sign-out, and the page behind a one-time link.

Owns these three addresses. Rules about accounts are in `accounts`, words of refusal in `forms`, the look in the templates.
"""

from typing import Any

import structlog
from django.contrib.auth import login
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters
from django.views.generic import FormView

from dashboard import accounts, errors, sessions
from dashboard.forms import SignInForm, WelcomeForm
from dashboard.models import Invitation

log = structlog.get_logger(__name__)


class SignIn(LoginView):
    authentication_form = SignInForm
    redirect_authenticated_user = True
    template_name = "registration/login.html"

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        _signed_in(self.request, form.get_user())
        return response


class SignOut(LogoutView):
    """Closes the pages that this session has open, too."""

    http_method_names = ("post", "options")

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        key, name = request.session.session_key, request.user.get_username()
        response = super().post(request, *args, **kwargs)
        if name:
            log.info("signed out", user=name)
            sessions.forget(key)
        return response


def _signed_in(request: HttpRequest, user: User) -> None:
    log.info("signed in", user=user.get_username(), address=request.META.get("REMOTE_ADDR", ""))
    sessions.begin(request, user)


@method_decorator(sensitive_post_parameters(), name="dispatch")
class Welcome(FormView):  # type: ignore[type-arg]  # Django has no generic views at run time
    """Looking at the page uses nothing up, since mail programs and chats look at links too; choosing a password does.

    Its address is a secret until then. The referrer policy of every page keeps it from other sites; a stricter one would make
    browsers send the form with `Origin: null`, which is refused.
    """

    form_class = WelcomeForm
    template_name = "registration/welcome.html"
    found: Invitation

    def dispatch(self, request: HttpRequest, *args: Any, token: str, **kwargs: Any) -> HttpResponseBase:
        found = accounts.invitation(token)
        if found is None:
            return errors.spent(request)
        self.found = found
        return super().dispatch(request, *args, **kwargs)

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "user": self.found.user}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(account=self.found.user, **kwargs)

    def form_valid(self, form: WelcomeForm) -> HttpResponse:
        try:
            user = accounts.redeem(self.found, form.cleaned_data["password"], form.cleaned_data.get("username", ""))
        except accounts.AccountError as error:
            form.add_error(None, str(error))
            return self.form_invalid(form)
        login(self.request, user, "django.contrib.auth.backends.ModelBackend")
        _signed_in(self.request, user)
        return redirect("home")
