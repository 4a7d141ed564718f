"""GET /v1/toolsets."""

from __future__ import annotations

from fastapi import APIRouter

from service.auth import User
from service.body import StrictRoute
from service.errors import ERRORS
from service.state import Room
from service.toolsets.schemas import ToolsetList

router = APIRouter(prefix="/v1/toolsets", tags=["runs"], route_class=StrictRoute, responses=ERRORS)


@router.get("")
async def list_toolsets(room: Room, _caller: User) -> ToolsetList:
    """What the operator configured, and what installed packages bring."""
    return ToolsetList(toolsets=list(room.toolbox.names))
