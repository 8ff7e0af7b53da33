"""Writes Events as the components of a cluster write them: kubelet and controllers in core/v1, the scheduler in events.k8s.io/v1.

Owns shapes, names and counting of repetitions. Losing an event never disturbs the work that it tells about.
"""

import logging
import random
from typing import Any

from fleet.simulation.clock import Clock, micro_stamp, stamp
from fleet.simulation.refusals import ApiError
from fleet.simulation.store import Store

Object = dict[str, Any]

logger = logging.getLogger(__name__)

REPEAT_WITHIN_S = 600.0
KNOWN_LIMIT = 4096


class Recorder:
    """Repeats of one event within ten minutes become a count on the first, as client-go's correlator does."""

    def __init__(self, store: Store, clock: Clock, rng: random.Random) -> None:
        self._store = store
        self._clock = clock
        self._ahead_ns = rng.getrandbits(16)  # two processes never name events alike
        self._last_ns = 0
        self._known: dict[tuple[str, ...], tuple[str, str, float]] = {}

    def core(  # noqa: PLR0913 -- an event has that many fields, and each call names the few it needs
        self,
        about: Object,
        reason: str,
        message: str,
        *,
        component: str,
        manager: str = "kube-controller-manager",
        host: str = "",
        container: str = "",
        kind: str = "Normal",
        identified: bool = True,
    ) -> None:
        """A core/v1 event with first and last timestamps and a count. `container` gives the field path.

        Not `identified`: about whatever bears the name, without uid and version, as some controllers write it.
        """
        reference = self._reference(about)
        if not identified:
            reference = {k: v for k, v in reference.items() if k not in {"uid", "resourceVersion"}}
        if container:
            reference["fieldPath"] = f"spec.containers{{{container}}}"
        if self._repeat(about, component, reason, message, manager):
            return
        now = stamp(self._clock.now())
        source = {"component": component, "host": host} if host else {"component": component}
        event = {
            "metadata": self._metadata(about),
            "involvedObject": reference,
            "reason": reason,
            "message": message,
            "source": source,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": kind,
            "eventTime": None,
            "reportingComponent": component,
            "reportingInstance": host,
        }
        made = self._create(event, manager)
        if made is not None:
            self._remember((about["metadata"]["uid"], component, reason, message), made)

    def scheduling(self, about: Object, reason: str, note: str, action: str, kind: str = "Normal") -> None:
        """An event of the scheduler: eventTime is set, first and last timestamps are null, no count."""
        event = {
            "metadata": self._metadata(about),
            "involvedObject": self._reference(about),
            "reason": reason,
            "message": note,
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": None,
            "type": kind,
            "eventTime": micro_stamp(self._clock.now()),
            "action": action,
            "reportingComponent": "default-scheduler",
            "reportingInstance": "default-scheduler-control-1",
        }
        self._create(event, "kube-scheduler")

    def _create(self, event: Object, manager: str) -> Object | None:
        try:
            return self._store.create("events", event, manager=manager)
        except ApiError as refusal:  # a namespace that is going away takes no events
            logger.info("event %s not written: %s", event["reason"], refusal)
            return None

    def _metadata(self, about: Object) -> Object:
        """Named after the nanosecond, so that events of one object sort by time; no two have the same."""
        name, namespace = about["metadata"]["name"], about["metadata"].get("namespace", "default")
        self._last_ns = max(self._last_ns + 1, int(self._clock.now() * 1e9) + self._ahead_ns)
        return {"name": f"{name}.{self._last_ns:016x}", "namespace": namespace}

    @staticmethod
    def _reference(about: Object) -> Object:
        metadata = about["metadata"]
        fields = {
            "kind": about["kind"],
            "namespace": metadata.get("namespace"),
            "name": metadata["name"],
            "uid": metadata["uid"],
            "apiVersion": about["apiVersion"],
            "resourceVersion": metadata["resourceVersion"],
        }
        return {name: value for name, value in fields.items() if value}

    def _repeat(self, about: Object, component: str, reason: str, message: str, manager: str) -> bool:
        seen = self._known.get((about["metadata"]["uid"], component, reason, message))
        now = self._clock.now()
        if seen is None or now - seen[2] > REPEAT_WITHIN_S:
            return False

        def again(event: Object) -> Object:
            return {**event, "count": event.get("count", 1) + 1, "lastTimestamp": stamp(now)}

        try:
            self._store.mutate("events", seen[0], seen[1], again, manager=manager)
        except ApiError as refusal:
            if refusal.status == 404:  # the first one has expired: begin anew
                return False
            raise
        return True

    def _remember(self, key: tuple[str, ...], event: Object) -> None:
        if len(self._known) >= KNOWN_LIMIT:
            self._known.clear()
        metadata = event["metadata"]
        self._known[key] = (metadata["namespace"], metadata["name"], self._clock.now())
