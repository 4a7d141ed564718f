"""/v1/checkpoints."""

from __future__ import annotations

from fastapi import APIRouter

from service.auth import Operator
from service.body import StrictRoute
from service.checkpoints.schemas import CheckpointList, CheckpointReply
from service.errors import ERRORS, ServiceError
from service.state import Room
from service.wire import Limit

router = APIRouter(prefix="/v1/checkpoints", tags=["checkpoints"], route_class=StrictRoute, responses=ERRORS)


@router.get("")
async def list_checkpoints(room: Room, _: Operator, limit: Limit = 20) -> CheckpointList:
    """Newest first."""
    rows = await room.books.read(lambda books: books.checkpoints.latest(limit))
    return CheckpointList(checkpoints=[CheckpointReply.of(row) for row in rows])


@router.get("/{name}")
async def get_checkpoint(name: str, room: Room, _: Operator) -> CheckpointReply:
    """One version with lineage and gate report."""
    row = await room.books.read(lambda books: books.checkpoints.get(name))
    if row is None:
        raise ServiceError(404, "unknown_checkpoint", "there is no such checkpoint")
    return CheckpointReply.of(row)
