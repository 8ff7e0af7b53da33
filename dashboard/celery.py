"""The Celery app: which queues there are, what each worker may run, and what beat sends.

Owns the settings of Celery and the workers of the embedded default. Must not import a task: each worker
loads the module of its own queue only, since a worker runs whatever it has registered, on whichever queue it comes.

    celery -A dashboard.celery worker -Q watch -P threads
    celery -A dashboard.celery beat
"""

import importlib
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery import Celery, beat, signals
from celery.worker import WorkController
from celery.worker.consumer import Consumer
from celery.worker.loops import synloop
from kombu.entity import Queue
from kombu.exceptions import OperationalError

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

import django
from django.conf import settings
from django.db import close_old_connections

from fleet import wiring

log = logging.getLogger(__name__)

# A watcher that died is missed when its lease has run out, and replaced by the next sweep: within 15 s in all.
SWEEP_S = 5
SCRAPE_S = 15
HISTORY_S = 900
SCAN_S = 30


@dataclass(frozen=True)
class Work:
    """One queue: where its tasks are, how many may run at once, and the task that starts it."""

    tasks: str
    threads: Callable[[], int]
    first: str


QUEUES = {
    # A thread for every cluster, and one for the messages that find their cluster watched already.
    "watch": Work("fleet.tasks.watch", lambda: len(wiring.sites()) + 1, "fleet.tasks.watch.watch_clusters"),
    # As for watching, one thread for the keeping of history, and one for every cluster whose exporters are scraped.
    "readings": Work(
        "fleet.tasks.readings",
        lambda: len(wiring.sites()) * (2 if wiring.scrapes() else 1) + 2,
        "fleet.tasks.readings.ingest_all",
    ),
    # An action waits more than it works; four at once, and one for the sweep.
    "actions": Work("fleet.tasks.actions", lambda: 5, "fleet.tasks.actions.sweep"),
    # A thread for every cluster's scan, one for beat's messages, and two for checks that read whole checkpoints.
    "checkpoints": Work("fleet.tasks.checkpoints", lambda: len(wiring.sites()) + 3, "fleet.tasks.checkpoints.scan_all"),
}

SCHEDULE = {
    "watch": {
        "task": "fleet.tasks.watch.watch_clusters",
        "schedule": SWEEP_S,
        "options": {"expires": SWEEP_S},
    },
    "readings": {
        "task": "fleet.tasks.readings.ingest_all",
        "schedule": SWEEP_S,
        "options": {"expires": SWEEP_S},
    },
    "history": {
        "task": "fleet.tasks.readings.keep_history",
        "schedule": HISTORY_S,
        "options": {"expires": HISTORY_S},
    },
    "actions": {
        "task": "fleet.tasks.actions.sweep",
        "schedule": SWEEP_S,
        "options": {"expires": SWEEP_S},
    },
    "checkpoints": {
        "task": "fleet.tasks.checkpoints.scan_all",
        "schedule": SCAN_S,
        "options": {"expires": SCAN_S},
    },
}


SCRAPES = {
    "scrape": {
        "task": "fleet.tasks.readings.scrape_all",
        "schedule": SCRAPE_S,
        "options": {"expires": SCRAPE_S},
    },
}

REDIS_BROKER = {"global_keyprefix": "vigie:broker:"}
# In memory a waiting message is found by polling; the default of 1 s would make it wait half a second.
MEMORY_BROKER = {"polling_interval": 0.02}


def make_app(**options: Any) -> Celery:
    """An app with the settings of this project."""
    # Celery's own fixup for Django runs every system check, and with them every view, in each worker.
    made = Celery("vigie", fixups=[], **options)
    made.conf.update(
        # kombu has a word of its own for Redis on a Unix socket.
        broker_url=settings.VIGIE_REDIS_URL.replace("unix://", "redis+socket://", 1) or "memory://localhost/",
        broker_transport_options=REDIS_BROKER if settings.VIGIE_REDIS_URL else MEMORY_BROKER,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_queues=[Queue(name) for name in QUEUES],  # type: ignore[no-untyped-call]
        task_routes={f"{work.tasks}.*": {"queue": name} for name, work in QUEUES.items()},
        task_create_missing_queues=False,
        task_default_queue=next(iter(QUEUES)),
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        beat_schedule=SCHEDULE | (SCRAPES if wiring.scrapes() else {}),
        beat_schedule_filename=str(settings.VIGIE_HOME / "beat-schedule"),
        beat_max_loop_interval=5,
    )
    return made


app = make_app()
app.set_default()  # tasks that send tasks do so from pool threads, which have no current app


def run_soon(action: int) -> None:
    """Say that an action can be run now. Only a hint: the row is the queue, and the next sweep finds it all the same."""
    try:
        app.send_task("fleet.tasks.actions.run_action", (action,), expires=SWEEP_S, retry=False)
    except OperationalError as error:
        log.warning("a hint about action %d was not sent: %s", action, error)


def check_soon(cluster: str, workload: str, path: str, asked_by: str) -> bool:
    """Ask for a deep check of one checkpoint; whether somebody can have heard it."""
    arguments = (cluster, workload, path, asked_by)
    try:
        app.send_task("fleet.tasks.checkpoints.deep_check", arguments, expires=HISTORY_S, retry=False)
    except OperationalError as error:
        log.warning("a deep check was not asked for: %s", error)
        return False
    return True


# A worker of its own process


@signals.celeryd_init.connect  # type: ignore[untyped-decorator]
def take_own_tasks(conf: Any, options: dict[str, Any], **_: Any) -> None:
    """Load the modules of the queues that this worker serves, and run as many threads as they want."""
    django.setup()
    queues = _queues(options.get("queues"))
    for name in queues:
        importlib.import_module(QUEUES[name].tasks)
    conf.worker_concurrency = sum(QUEUES[name].threads() for name in queues)


@signals.worker_ready.connect  # type: ignore[untyped-decorator]
def begin(sender: Consumer, **_: Any) -> None:
    """Do not wait for beat's first message."""
    for name in sender.app.amqp.queues.consume_from:
        sender.app.send_task(QUEUES[name].first, expires=SWEEP_S)


@signals.task_prerun.connect  # type: ignore[untyped-decorator]
@signals.task_postrun.connect  # type: ignore[untyped-decorator]
def drop_stale_connections(**_: Any) -> None:
    close_old_connections()


@signals.worker_shutting_down.connect  # type: ignore[untyped-decorator]
def stop_waiting(**_: Any) -> None:
    wiring.stopping.set()


def _queues(option: str | list[str] | None) -> list[str]:
    names = option.split(",") if isinstance(option, str) else option
    return [name for name in names or QUEUES if name in QUEUES]


# Workers of the embedded default


class PromptConsumer(Consumer):  # type: ignore[misc]
    """Looks around every 0.1 s, where Celery's own waits 2 s for a message before it sees that it has to stop."""

    def loop(self, consumer: Consumer, connection: Any, *rest: Any) -> None:
        synloop(consumer, _Prompt(connection), *rest)


class _Prompt:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def drain_events(self, timeout: float) -> None:
        self._connection.drain_events(timeout=min(timeout, 0.1))


def embedded_worker(queue: str) -> WorkController:
    """A worker for one queue on threads of this process. It has an app of its own, because an app consumes one set of queues."""
    work = QUEUES[queue]
    return WorkController(
        app=make_app(set_as_current=False),
        hostname=f"{queue}@embedded",
        queues=[queue],
        include=[work.tasks],
        pool="threads",
        concurrency=work.threads(),
        consumer_cls=PromptConsumer,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )


class Background:
    """Every queue's worker and beat, on threads of this process and an in-memory broker."""

    def __init__(self) -> None:
        self.stopping = wiring.stopping
        self._workers: list[WorkController] = []
        self._beat = beat.Service(app, max_interval=0.25, scheduler_cls=beat.Scheduler, remote_control=False)
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start everything and send the first messages. Returns at once."""
        logging.getLogger("celery").setLevel(logging.WARNING)  # otherwise two lines per task
        self._workers = [embedded_worker(queue) for queue in QUEUES]
        for worker in self._workers:
            self._run(worker.hostname, worker.start)
        self._run("beat", self._beat.start)
        for work in QUEUES.values():
            app.send_task(work.first, expires=SWEEP_S)

    def stop(self) -> None:
        """Ask every task to end, then end the workers; takes about a second."""
        self.stopping.set()
        self._beat.stop()
        for worker in self._workers:
            worker.stop()
        for thread in self._threads:
            thread.join(2)

    def _run(self, name: str, body: Callable[[], None]) -> None:
        thread = threading.Thread(target=body, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)
