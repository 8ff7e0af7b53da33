"""Events as the API tells them (`Event` is what a followed kind reports, so here they are occurrences).

Owns the shape of the API's JSON, like `objects`; `kube` decodes these structs and offers them under its own name. Must not decide
anything about what they mean.
"""

from datetime import datetime

from fleet.domain.objects import Object, ObjectReference, Part, seconds


class Series(Part, frozen=True):
    count: int = 0
    last_observed_time: datetime | None = None


class Source(Part, frozen=True):  # who wrote an event
    component: str = ""
    host: str = ""  # the node, if a kubelet did


class Occurrence(Object, frozen=True):
    """An Event of core/v1 (`Event` is what a followed kind reports)."""

    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    event_time: datetime | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    series: Series | None = None
    source: Source = Source()
    reporting_component: str = ""

    @property
    def last_at(self) -> float | None:
        """When it happened last: schedulers set `eventTime`, kubelets the timestamps, repeated ones the series."""
        repeated = self.series.last_observed_time if self.series else None
        return seconds(repeated or self.last_timestamp or self.event_time or self.first_timestamp)
