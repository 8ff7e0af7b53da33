"""Every address of Vigie, and its sockets.

Owns names and paths. Each name must be in `access.EXPOSED`, or it is refused.
"""

from django.urls import path
from django.views.i18n import set_language

from dashboard import errors, health, sign_in, views
from dashboard.api import api
from dashboard.consumers import live

urlpatterns = [
    path("", views.home, name="home"),
    # Names of contexts may hold slashes (EKS names its clusters so), names of nodes may not.
    path("c/<path:cluster>/nodes/<str:node>/", views.node, name="node"),
    path("c/<path:cluster>/", views.fleet, name="fleet"),
    path("login/", sign_in.SignIn.as_view(), name="sign-in"),
    path("logout/", sign_in.SignOut.as_view(), name="sign-out"),
    path("welcome/<str:token>/", sign_in.Welcome.as_view(), name="welcome"),
    path("language/", set_language, name="set_language"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("api/v1/", api.urls),
]

sockets = [path("ws/", live, name="socket")]  # type: ignore[arg-type]  # an ASGI application; only Channels' router reads it

handler400 = errors.malformed
handler403 = errors.forbidden
handler404 = errors.missing
handler500 = errors.broken
