"""GET /v1/bank."""

from __future__ import annotations

from fastapi import APIRouter

from service.auth import Operator
from service.bank.schemas import BankReply
from service.body import StrictRoute
from service.errors import ERRORS
from service.state import Room

router = APIRouter(prefix="/v1/bank", tags=["bank"], route_class=StrictRoute, responses=ERRORS)


@router.get("")
async def get_bank(room: Room, _: Operator) -> BankReply:
    """How full the bank is."""
    threshold = room.settings.success_threshold
    return await room.books.read(lambda books: BankReply.read(books, threshold))
