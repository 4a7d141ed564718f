"""/v1/rounds."""

from __future__ import annotations

from fastapi import APIRouter

from service.auth import Operator
from service.body import StrictRoute
from service.errors import ERRORS
from service.rounds.schemas import RoundList, RoundProgress, RoundReply, RoundRequest
from service.state import Room
from service.wire import Limit

router = APIRouter(prefix="/v1/rounds", tags=["rounds"], route_class=StrictRoute, responses=ERRORS)


@router.get("")
async def list_rounds(room: Room, _: Operator, limit: Limit = 20) -> RoundList:
    """Newest first."""
    rows = await room.books.read(lambda books: books.rounds.latest(limit))
    return RoundList(rounds=[RoundReply.of(row) for row in rows])


@router.post("", status_code=202)
async def start_round(room: Room, caller: Operator, body: RoundRequest | None = None) -> RoundReply:
    """Start a round now; 202 means that it is on disk and waits for a worker."""
    return RoundReply.of(await room.rounds.start(dict((body or RoundRequest()).config), caller))


@router.get("/{round_id}")
async def get_round(round_id: str, room: Room, _: Operator) -> RoundProgress:
    """A round with its progress."""
    return RoundProgress.with_steps(*await room.rounds.progress(round_id))


@router.post("/{round_id}/cancel")
async def cancel_round(round_id: str, room: Room, caller: Operator) -> RoundReply:
    """Stop a round after its current step."""
    return RoundReply.of(await room.rounds.cancel(round_id, caller))
