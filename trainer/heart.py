"""Heart: the signs of life of a worker's queues, and its end when the broker has gone silent.

A worker can be up, connected and deaf: after some restarts of Redis nothing arrives any more. So health is the last
task taken, not the process, and a worker that is idle for too long ends itself for its supervisor to start it anew.
"""

from __future__ import annotations

import os
import socket
import threading
import time

import structlog
from sqlalchemy.exc import OperationalError

from bank.broker import ROUNDS_QUEUE, BrokerAway, BrokerRefused, check_broker
from bank.ledger.ledger import Ledger
from bank.pulse import Pulse
from trainer.lease import utc_now
from trainer.settings import Settings

DEAF = 3
"""Exit status of a worker that heard nothing for too long."""
LOOK_SECONDS = 1.0

log = structlog.get_logger(__name__)


class Heart:
    """Beats for each task taken, and while a round is being watched."""

    def __init__(self, ledger: Ledger, settings: Settings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._worker = worker_name(settings)
        self._taken = time.monotonic()

    def beat(self, queue: str) -> None:
        """Somebody works on this queue now. A ledger that is away is not this method's business."""
        self._taken = time.monotonic()
        try:
            with self._ledger.write() as books:
                books.pulses.beat(Pulse(queue, self._worker, utc_now()))
            check_broker(self._settings.broker_url, self._settings.broker_visibility_seconds)
        except (OperationalError, BrokerAway, BrokerRefused) as error:
            log.warning("no pulse", queue=queue, error=str(error))

    def round_beat(self) -> None:
        """The round that this worker watches is alive."""
        self.beat(ROUNDS_QUEUE)

    def listen(self) -> None:
        """From now on, end this process once nothing was taken for `idle_seconds`."""
        threading.Thread(target=self._listen, name="heart", daemon=True).start()

    def _listen(self) -> None:
        limit = max(self._settings.idle_seconds, 5 * self._settings.poll_seconds)
        while (idle := time.monotonic() - self._taken) < limit:
            time.sleep(LOOK_SECONDS)
        log.error("nothing taken from the queues, ending to be started anew", idle_seconds=round(idle))
        # no tidy end: what is deaf may hang there, and everything here may be killed anywhere
        os._exit(DEAF)


def worker_name(settings: Settings) -> str:
    """What this worker is called in the ledger: the setting, or the host."""
    return settings.worker_name or socket.gethostname()
