"""Every address of Vigie, and its sockets.

Owns names and paths. Each name must be in `access.EXPOSED`, or it is refused.
"""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.i18n import set_language

from dashboard import consumers, errors, health, metrics, sign_in, views, wall
from dashboard.api import api


def page(name: str) -> Callable[..., HttpResponse]:
    """A page's address may exist before its page does."""

    def shown(request: HttpRequest, **kwargs: str) -> HttpResponse:
        view: Callable[..., HttpResponse] = getattr(views, name, errors.missing)
        return errors.missing(request) if view is errors.missing else view(request, **kwargs)

    return shown


urlpatterns = [
    path("", views.home, name="home"),
    # Names of contexts may hold slashes (EKS names its clusters so), names of nodes may not.
    path("c/<path:cluster>/nodes/<str:node>/", views.node, name="node"),
    path("c/<path:cluster>/workloads/", page("workloads"), name="workloads"),
    path("c/<path:cluster>/waiting/", page("waiting"), name="waiting"),
    path("c/<path:cluster>/search/", page("search"), name="search"),
    path("c/<path:cluster>/", views.fleet, name="fleet"),
    path("all/", page("clusters"), name="clusters"),
    path("wall/", page("wall"), name="wall"),
    path("wall/<str:secret>/", wall.open_address, name="wall-open"),
    path("account/", page("account"), name="account"),
    path("help/", page("help_page"), name="help"),
    path("login/", sign_in.SignIn.as_view(), name="sign-in"),
    path("logout/", sign_in.SignOut.as_view(), name="sign-out"),
    path("welcome/<str:token>/", sign_in.Welcome.as_view(), name="welcome"),
    path("language/", set_language, name="set_language"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("api/v1/", api.urls),
]

# ASGI applications; only Channels' router reads these.
sockets = [
    path("ws/", consumers.live, name="socket"),  # type: ignore[arg-type]
    path("wall/ws/", consumers.wall, name="wall-socket"),  # type: ignore[arg-type]
]

handler400 = errors.malformed
handler403 = errors.forbidden
handler404 = errors.missing
handler500 = errors.broken
