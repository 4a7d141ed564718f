"""GET /v1/audit."""

from __future__ import annotations

from fastapi import APIRouter

from service.audit.schemas import AuditLine, AuditLog
from service.auth import Operator
from service.body import StrictRoute
from service.errors import ERRORS
from service.state import Room
from service.wire import Limit

router = APIRouter(prefix="/v1/audit", tags=["audit"], route_class=StrictRoute, responses=ERRORS)


@router.get("")
async def get_audit(room: Room, _: Operator, limit: Limit = 50) -> AuditLog:
    """Newest first."""
    rows = await room.books.read(lambda books: books.audit.latest(limit))
    return AuditLog(audit=[AuditLine.of(row) for row in rows])
