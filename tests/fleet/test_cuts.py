"""However a recorded watch arrives, in whatever pieces and through whatever breaks, the same events come out, once each."""

import json
from itertools import pairwise
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.adapters.cluster_kubernetes import KubernetesCluster
from fleet.adapters.cluster_streams import Patience
from fleet.domain import kube
from fleet.domain.kube import Bookmark, Changed, Deleted, Kind, Lost
from tests.fleet.scripted import END, STREAM, Request, Scripted, Wire, chunk, namespace, page, reply
from tests.fleet.test_adapter import collect

RECORDED = json.loads((Path(__file__).parents[1] / "data/recordings/watch_pods.json").read_text())[1]["response"][
    "body"
]
LINES = [json.dumps(event).encode() + b"\n" for event in RECORDED]
EVENTS = [kube.watch_line(Kind.POD, line) for line in LINES]
QUICK = Patience(first_pause_s=0.001, longest_pause_s=0.002, short_s=0.0)


class Cutting:
    """Serves what is left of the recording after the version asked for.

    Each connection has its plan: where its pieces are cut, and where, if at all, it breaks (a share of what is left). After the
    last plan everything comes at once.
    """

    def __init__(self, plans: list[tuple[list[float], float | None]]) -> None:
        self.plans = plans
        self.server: Scripted | None = None

    def __call__(self, request: Request) -> Wire:
        if request.path.endswith("/kube-system"):
            return reply(namespace())
        if not request.watch:
            return reply(page([], 10**9 if request.query["limit"] == "1" else 6875))
        since = int(request.query["resourceVersion"])
        left = b"".join(line for line, event in zip(LINES, EVENTS, strict=True) if int(event.resource_version) > since)
        shares, stop = self.plans.pop(0) if self.plans else ([], None)
        sent = left if stop is None else left[: int(len(left) * stop)]
        cuts = sorted({0, len(sent), *(int(len(sent) * share) for share in shares)})
        broken = (
            stop is not None and int(stop * 1000) % 2 == 0
        )  # otherwise it ends in order, perhaps in the middle of a line
        return [STREAM, *(chunk(sent[i:j]) for i, j in pairwise(cuts)), b"" if broken else END]


shares = st.floats(0, 1)
plans = st.lists(st.tuples(st.lists(shares, max_size=12), st.none() | shares), max_size=4)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plans)
def test_the_same_events_come_out(tmp_path, plans):
    server = Scripted(Cutting(plans))
    cluster = KubernetesCluster("scripted", server.kubeconfig(tmp_path), QUICK)
    expected = [event for event in EVENTS if not isinstance(event, Bookmark)]
    found = []

    def enough(event) -> bool:
        if isinstance(event, Changed | Deleted):
            found.append(event)
        else:
            assert isinstance(event, Lost | Bookmark | kube.Listed)
        return len(found) == len(expected)

    try:
        collect(cluster, enough)
    finally:
        server.close()
    assert found == expected
