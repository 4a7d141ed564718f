"""Health over the wire."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from bank.broker import RELAY_QUEUE, ROUNDS_QUEUE
from bank.pulse import Pulse
from service.wire import ReplyBody


class Alive(ReplyBody):
    """The process answers."""

    status: str = "ok"


class Ready(ReplyBody):
    """The live version can answer."""

    status: str = "ready"
    generation: int
    replicas: int
    """How many hold the live version."""


class QueueReply(ReplyBody):
    """One queue of the workers."""

    queue: str
    served: bool
    worker: str | None = None
    """Who took the last task."""
    silent_seconds: float | None = None
    """Since then; none when no task was ever taken."""


class QueueHealth(ReplyBody):
    """All queues."""

    served: bool
    queues: list[QueueReply]

    @classmethod
    def of(cls, pulses: Iterable[Pulse], silence_seconds: float, now: datetime) -> QueueHealth:
        """What these last tasks mean."""
        last = {pulse.queue: pulse for pulse in pulses}
        queues = [_queue(name, last.get(name), silence_seconds, now) for name in (ROUNDS_QUEUE, RELAY_QUEUE)]
        return cls(served=all(queue.served for queue in queues), queues=queues)


def _queue(name: str, pulse: Pulse | None, silence_seconds: float, now: datetime) -> QueueReply:
    if pulse is None:
        return QueueReply(queue=name, served=False)
    silent = max(0.0, (now - pulse.at).total_seconds())
    return QueueReply(queue=name, served=silent <= silence_seconds, worker=pulse.worker, silent_seconds=silent)
