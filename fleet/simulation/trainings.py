"""All trainings of the cluster: which pods train together, and the moments at which each saves, stops and goes on.

Owns finding a training's pods and telling it what happened to them. It writes to no object of the cluster; what a training does
is training_runs.py's.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fleet.simulation import podstatus
from fleet.simulation.checkpoint_places import Kind, Places
from fleet.simulation.clock import parse_stamp
from fleet.simulation.controller import Controller, Keys, Process
from fleet.simulation.history import Change
from fleet.simulation.informer import controller_of, key_of
from fleet.simulation.training_habits import Habit, habit_of, is_silent, trainer_of
from fleet.simulation.training_runs import Training

Object = dict[str, Any]

logger = logging.getLogger(__name__)

GANGS = {"StatefulSet": "statefulsets"}  # whose pods train together; all others train alone
SLOW = "sim/slow"  # annotation of a claim: how many times as long as usual writing to it takes
SHARED = "ReadWriteMany"
JUST_STARTED_S = 3.0


class Trainings(Controller):
    """Keys are "kind/namespace/name": of a StatefulSet, or of a pod that trains alone."""

    name = "trainers"
    manager = "trainer"
    primary = "pods"
    latency_s = (0.001, 0.003)

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.places = Places(process.clock)
        self._known: dict[str, Training] = {}

    def watches(self) -> dict[str, Keys]:
        return {"pods": self._pod_changed}

    def start_keys(self) -> Iterable[str]:
        return dict.fromkeys(training_key(pod) for pod in self.informers["pods"].all() if trainer_of(pod))

    def _pod_changed(self, change: Change) -> Iterable[str]:
        if trainer_of(change.object) is None:
            return ()
        if change.type == "DELETED":
            uid = change.object["metadata"]["uid"]
            self.places.forget(lambda place: place.kind is Kind.POD and place.root.partition("/")[0] == uid)
        return (training_key(change.object),)

    def open(self, home: Path) -> None:
        """Claims that several nodes mount are folders in `home`/claims from now on, with what was saved to them before anybody
        looked. OSError, ValueError as `Places.open`."""
        claims = self.store.list("persistentvolumeclaims")
        self.places.open(home, [key_of(c) for c in claims if SHARED in c["spec"]["accessModes"]])
        for key in self.start_keys():
            self.sync(key)

    # For those who speak with a trainer

    def of(self, pod: Object) -> Training | None:
        """The training that a pod takes part in."""
        return self._known.get(training_key(pod))

    def ask(self, pod: Object) -> int | None:
        """Have it save at once, as far as it is now: the step, None when it cannot."""
        key = training_key(pod)
        found = self._known.get(key)
        step = found.ask(self.clock.now()) if found else None
        if step is not None:
            self.queue.add(key)
        return step

    # What happens

    def sync(self, key: str) -> float | None:
        kind, namespace, name = key.split("/")
        pods = self._pods(kind, namespace, name)
        now, up = self.clock.now(), _up(pods)
        training = self._known.get(key)
        if training is None:
            training = self._known[key] = Training(name)
        if training.run and training.run.ranks != up:
            training.end(now)
        if not pods:
            self._forget(key, kind, namespace, name)
            return None
        if training.run is None and up:
            self._begin(training, [pod for pod in pods if pod], up, now)
        training.slowness = self._slowness(training.habit)
        training.silent = any(is_silent(pod) for pod in pods if pod)
        return training.advance(now)

    def _pods(self, kind: str, namespace: str, name: str) -> list[Object | None]:
        """In the order of their ranks, with a gap for each that is not there; none once their owner is gone."""
        pods = self.informers["pods"]
        if kind not in GANGS:
            alone = pods.get(f"{namespace}/{name}")
            return [alone] if alone else []
        record = self.store.shelf(GANGS[kind]).records.get(f"{namespace}/{name}")
        replicas = record.object["spec"].get("replicas", 1) if record else 0
        return [pods.get(f"{namespace}/{name}-{rank}") for rank in range(replicas)]

    def _begin(self, training: Training, pods: list[Object], ranks: frozenset[str], now: float) -> None:
        first = pods[0]
        container = trainer_of(first)
        assert container is not None  # noqa: S101 -- a training's pods are trainers
        try:
            habit = habit_of(first, container)
        except ValueError as error:
            logger.warning("%s does not train: %s", key_of(first), error)
            return
        started = max(map(_started_at, pods))
        folder = self.places.folder(habit.place) if habit.place else None
        training.begin(habit, folder, ranks, now if now - started < JUST_STARTED_S else started, now)

    def _slowness(self, habit: Habit | None) -> float:
        place = habit.place if habit else None
        if place is None or place.kind is not Kind.CLAIM:
            return 1.0
        record = self.store.shelf("persistentvolumeclaims").records.get(place.root)
        notes = (record.object["metadata"].get("annotations") or {}) if record else {}
        return float(notes.get(SLOW, 1.0))

    def _forget(self, key: str, kind: str, namespace: str, name: str) -> None:
        """Its owner is gone, or has been scaled to nothing: what it did is remembered in the second case."""
        if kind not in GANGS or f"{namespace}/{name}" not in self.store.shelf(GANGS[kind]).records:
            del self._known[key]


def training_key(pod: Object) -> str:
    owner, metadata = controller_of(pod), pod["metadata"]
    if owner is not None and owner["kind"] in GANGS:
        return f"{owner['kind']}/{metadata['namespace']}/{owner['name']}"
    return f"Pod/{metadata['namespace']}/{metadata['name']}"


def _up(pods: list[Object | None]) -> frozenset[str]:
    """Each start of each pod's trainer; nothing unless all of them run and none is to stop."""
    starts = [_start(pod) if pod else "" for pod in pods]
    return frozenset(starts) if starts and all(starts) else frozenset()


def _start(pod: Object) -> str:
    status = _status(pod)
    running = "running" in status.get("state", {}) and not podstatus.is_terminating(pod)
    return f"{pod['metadata']['uid']}/{status['restartCount']}" if running else ""


def _status(pod: Object) -> Object:
    container = trainer_of(pod)
    name = container["name"] if container else ""
    found: Object = next((s for s in pod["status"].get("containerStatuses") or () if s["name"] == name), {})
    return found


def _started_at(pod: Object) -> float:
    return parse_stamp(_status(pod)["state"]["running"]["startedAt"])
