"""/healthz, /healthz/queues, /readyz and /metrics."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import Response

from service.bank.schemas import BankReply
from service.errors import ERRORS, RETRY_AFTER, ServiceError
from service.health.gauges import Gauges
from service.health.schemas import Alive, QueueHealth, Ready
from service.state import Room

router = APIRouter(tags=["health"], responses=ERRORS)


@router.get("/healthz")
async def healthz() -> Alive:
    """Whether the process answers; a failure means: restart it."""
    return Alive()


@router.get("/readyz")
async def readyz(room: Room) -> Ready:
    """Whether runs are answered: ledger readable, live version loaded and proven, not stopping."""
    await room.books.read(lambda books: books.deployments.current())
    ready, pointer = room.fleet.ready(), room.fleet.pointer
    if pointer is None or not ready:
        raise ServiceError(503, "not_ready", "no replica holds the live version", headers=RETRY_AFTER)
    if room.runs.draining:
        raise ServiceError(503, "shutting_down", "the service is stopping", headers=RETRY_AFTER)
    return Ready(generation=pointer.generation, replicas=len(ready))


@router.get("/healthz/queues")
async def queues(room: Room) -> QueueHealth:
    """Whether workers take tasks from every queue: the last task counts, not a process that is up."""
    pulses = await room.books.read(lambda books: books.pulses.latest())
    health = QueueHealth.of(pulses, room.settings.queue_silence_seconds, datetime.now(UTC))
    if not health.served:
        silent = ", ".join(queue.queue for queue in health.queues if not queue.served)
        detail = health.model_dump(mode="json")
        raise ServiceError(503, "queue_silent", f"no worker takes from: {silent}", detail=detail, headers=RETRY_AFTER)
    return health


@router.get("/metrics")
async def metrics(room: Room) -> Response:
    """Prometheus text format."""
    threshold = room.settings.success_threshold
    bank, vitals = await room.books.read(lambda books: (BankReply.read(books, threshold), books.vitals.read()))
    room.telemetry.set_bank(bank.model_dump())
    read_now = CollectorRegistry()
    read_now.register(Gauges(vitals, room.fleet))
    return Response(room.telemetry.exposition() + generate_latest(read_now), media_type=CONTENT_TYPE_LATEST)
