"""/healthz, /readyz and /metrics."""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from service.bank.schemas import BankReply
from service.errors import ERRORS, RETRY_AFTER, ServiceError
from service.health.schemas import Alive, Ready
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


@router.get("/metrics")
async def metrics(room: Room) -> Response:
    """Prometheus text format."""
    threshold = room.settings.success_threshold
    bank = await room.books.read(lambda books: BankReply.read(books, threshold))
    room.telemetry.set_bank(bank.model_dump())
    return Response(room.telemetry.exposition(), media_type=CONTENT_TYPE_LATEST)
