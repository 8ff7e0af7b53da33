"""Every address of Vigie, and its sockets.

Owns names and paths. Each name must be in `access.EXPOSED`, or it is refused.
"""

from django.urls import path
from django.views.i18n import set_language

from dashboard import (
    account,
    actions,
    blue_green,
    cadence,
    checkpoints,
    consumers,
    errors,
    gpus,
    health,
    metrics,
    readiness,
    rollouts,
    sign_in,
    trail,
    views,
    wall,
)
from dashboard.api import api

urlpatterns = [
    path("", views.home, name="home"),
    # Names of contexts may hold slashes (EKS names its clusters so), names of nodes may not.
    path("c/<path:cluster>/nodes/<str:node>/do/<str:kind>/", actions.propose, name="propose"),
    path(
        "c/<path:cluster>/releases/<str:of>/<str:namespace>/<str:name>/do/<str:kind>/",
        actions.propose_release,
        name="propose-release",
    ),
    path("c/<path:cluster>/nodes/<str:node>/", views.node, name="node"),
    path("c/<path:cluster>/actions/<int:number>/confirm/", actions.confirm, name="action-confirm"),
    path("c/<path:cluster>/actions/<int:number>/approve/", actions.approve, name="action-approve"),
    path("c/<path:cluster>/actions/<int:number>/stop/", actions.stop, name="action-stop"),
    path("c/<path:cluster>/actions/<int:number>/", actions.action, name="action"),
    path("c/<path:cluster>/actions/export.<str:form>", trail.export, name="actions-export"),
    path("c/<path:cluster>/actions/", trail.actions, name="actions"),
    # What a GPU is called before the driver says its UUID holds a slash.
    path("c/<path:cluster>/gpus/<path:gpu>/", gpus.gpu, name="gpu"),
    path("c/<path:cluster>/availability/", gpus.availability, name="availability"),
    path("c/<path:cluster>/cadence/", cadence.cadence, name="cadence"),
    path("c/<path:cluster>/checkpoints/", checkpoints.checkpoints, name="checkpoints"),
    path(
        "c/<path:cluster>/checkpoints/<str:kind>/<str:namespace>/<str:name>/", checkpoints.checkpoint, name="checkpoint"
    ),
    path(
        "c/<path:cluster>/checkpoints/<str:kind>/<str:namespace>/<str:name>/check/",
        checkpoints.check,
        name="checkpoint-check",
    ),
    path(
        "c/<path:cluster>/checkpoints/<str:kind>/<str:namespace>/<str:name>/note/",
        checkpoints.note,
        name="checkpoint-note",
    ),
    path("c/<path:cluster>/readiness/", readiness.readiness, name="readiness"),
    path(
        "c/<path:cluster>/readiness/<str:kind>/<str:namespace>/<str:name>/",
        readiness.workload,
        name="readiness-workload",
    ),
    path("c/<path:cluster>/blue-green/<str:namespace>/<str:name>/", blue_green.pair, name="blue-green-pair"),
    path("c/<path:cluster>/blue-green/", blue_green.blue_green, name="blue-green"),
    path("c/<path:cluster>/rollouts/", rollouts.rollouts, name="rollouts"),
    path("c/<path:cluster>/rollouts/<str:kind>/<str:namespace>/<str:name>/", rollouts.rollout, name="rollout"),
    path("c/<path:cluster>/workloads/", views.workloads, name="workloads"),
    path("c/<path:cluster>/waiting/", views.waiting, name="waiting"),
    path("c/<path:cluster>/search/", views.search, name="search"),
    path("c/<path:cluster>/", views.fleet, name="fleet"),
    path("all/", views.clusters, name="clusters"),
    path("wall/", views.wall, name="wall"),
    path("wall/<str:secret>/", wall.open_address, name="wall-open"),
    path("account/", account.account, name="account"),
    path("help/", views.help_page, name="help"),
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
