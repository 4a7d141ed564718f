"""The trainer's Celery tasks: names, queues, clock, and bodies of one line. Imports nothing heavy.

Messages are only wake-up calls. They are acknowledged when they arrive and may be lost, doubled or late:
what is to be done stands in the ledger, and a claim there decides who does it.
"""

from __future__ import annotations

from typing import Any, Protocol

from celery import Celery
from celery.schedules import crontab

from bank.broker import RELAY_QUEUE, ROUNDS_QUEUE, RUN_ROUND
from trainer import folder_queue
from trainer.settings import Settings

RESUME_ROUNDS = "ratchet.resume_rounds"
"""`RUN_ROUND` without an announcement: queued rounds whose message was lost, running ones whose worker died."""
RELAY = "ratchet.relay"
SCHEDULE_ROUND = "ratchet.schedule_round"

QUEUES = (ROUNDS_QUEUE, RELAY_QUEUE)
ROUTES = {
    RUN_ROUND: {"queue": ROUNDS_QUEUE},
    RESUME_ROUNDS: {"queue": ROUNDS_QUEUE},
    SCHEDULE_ROUND: {"queue": ROUNDS_QUEUE},
    RELAY: {"queue": RELAY_QUEUE},
}


class Jobs(Protocol):
    """What the tasks ask for."""

    def run_rounds(self) -> None:
        """Run every round that can be claimed."""
        ...

    def relay(self) -> None:
        """Bring the index up to the ledger."""
        ...

    def schedule_round(self) -> None:
        """Create the round of the current schedule slot, and run it."""
        ...


def build_app(settings: Settings) -> Celery:
    """A Celery app without tasks; makes the queue folder in embedded mode."""
    app = Celery("ratchet", set_as_current=False)
    app.conf.update(
        broker_url=settings.broker_url or folder_queue.URL,
        broker_connection_retry_on_startup=True,
        task_routes=ROUTES,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        timezone="UTC",
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_enable_remote_control=False,
        beat_schedule=beat_schedule(settings),
    )
    if settings.embedded:
        app.conf.broker_transport = f"{folder_queue.__name__}:{folder_queue.Transport.__name__}"
        app.conf.broker_transport_options = folder_queue.transport_options(settings.data / "queue")
    else:
        app.conf.broker_transport_options = {"visibility_timeout": settings.broker_visibility_seconds}
    return app


def register(app: Celery, jobs: Jobs) -> None:
    """Bind the task names to `jobs`, in this app alone."""

    @app.task(name=RUN_ROUND, shared=False)  # type: ignore[untyped-decorator]
    def run_round(_round_id: str) -> None:
        jobs.run_rounds()

    @app.task(name=RESUME_ROUNDS, shared=False)  # type: ignore[untyped-decorator]
    def resume_rounds() -> None:
        jobs.run_rounds()

    @app.task(name=RELAY, shared=False)  # type: ignore[untyped-decorator]
    def relay() -> None:
        jobs.relay()

    @app.task(name=SCHEDULE_ROUND, shared=False)  # type: ignore[untyped-decorator]
    def schedule_round() -> None:
        jobs.schedule_round()


def beat_schedule(settings: Settings) -> dict[str, dict[str, Any]]:
    """What the clock sends. Polls expire before the next one, so none pile up behind a long round."""
    period = settings.poll_seconds
    entries = {
        name: {"task": name, "schedule": period, "options": {**ROUTES[name], "expires": period}}
        for name in (RELAY, RESUME_ROUNDS)
    }
    if settings.schedule:
        nightly = crontab.from_string(settings.schedule)
        entries[SCHEDULE_ROUND] = {"task": SCHEDULE_ROUND, "schedule": nightly, "options": ROUTES[SCHEDULE_ROUND]}
    return entries
