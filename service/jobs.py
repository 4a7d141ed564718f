"""Jobs: the one file that knows a queue exists. A job is a name and ids; the worker's code is never imported."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import structlog
from celery import Celery
from kombu.exceptions import OperationalError

from bank.broker import ROUNDS_QUEUE, RUN_ROUND, BrokerAway, check_broker

EXPIRES_SECONDS = 300
"""A message that no worker took is worthless by then: workers also look into the ledger by themselves."""

PATIENCE = {"max_retries": 1, "interval_start": 0.1, "socket_connect_timeout": 3.0, "socket_timeout": 5.0}
"""A request waits for the broker: seconds, and one more try."""


log = structlog.get_logger(__name__)


class JobsAway(Exception):
    """The queue does not take messages now."""


class Jobs(Protocol):
    """Where rounds are asked for."""

    def run_round(self, round_id: str) -> None:
        """Ask a worker to run a round; sending twice is harmless. Raises `JobsAway`."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class CeleryJobs:
    """Celery by task name."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    @classmethod
    def connect(cls, broker_url: str, folder: Path, visibility_seconds: int = 43_200) -> CeleryJobs:
        """A producer on a broker; an empty URL is the folder queue of an installation without one."""
        app = Celery("ratchet-service", broker=broker_url or "filesystem://", set_as_current=False)
        app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)
        options = {**PATIENCE, "visibility_timeout": visibility_seconds} if broker_url else _folders(folder)
        app.conf.broker_transport_options = options
        return cls(app)

    def run_round(self, round_id: str) -> None:
        """Send the name and the id."""
        # ValueError: the folder queue's routing table, caught while another process was writing it.
        try:
            self._app.send_task(RUN_ROUND, (round_id,), queue=ROUNDS_QUEUE, expires=EXPIRES_SECONDS, retry=False)
        except (OperationalError, OSError, ValueError) as error:
            raise JobsAway(str(error)) from error

    def close(self) -> None:
        """Release connections."""
        self._app.close()


def check_jobs(broker_url: str, visibility_seconds: int) -> None:
    """Raises `bank.broker.BrokerRefused`; a broker that is away now holds nobody up, since rounds stand in the ledger."""
    try:
        check_broker(broker_url, visibility_seconds)
    except BrokerAway as error:
        log.warning("the broker does not answer; rounds wait in the ledger", error=str(error))


def _folders(folder: Path) -> dict[str, str]:
    messages, control = folder / "messages", folder / "control"
    for path in (messages, control):
        path.mkdir(parents=True, exist_ok=True)
    return {"data_folder_in": str(messages), "data_folder_out": str(messages), "control_folder": str(control)}


class MemoryJobs:
    """Keeps what was asked for; for services without a worker and for tests."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def run_round(self, round_id: str) -> None:
        """Remember the id."""
        self.sent.append(round_id)

    def close(self) -> None:
        """Nothing to release."""
