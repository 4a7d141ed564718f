"""/v1/keys."""

from __future__ import annotations

from fastapi import APIRouter

from bank.api_key import KeyRole
from service.auth import Operator
from service.body import StrictRoute
from service.errors import ERRORS
from service.keys.schemas import KeyRequest, NewKey, RevokedKey
from service.state import Room

router = APIRouter(prefix="/v1/keys", tags=["keys"], route_class=StrictRoute, responses=ERRORS)


@router.post("", status_code=201)
async def make_key(body: KeyRequest, room: Room, caller: Operator) -> NewKey:
    """A key for a user or another operator."""
    key, secret = await room.keys.make(KeyRole(body.role), body.label, caller.id)
    return NewKey(id=key.id, role=key.role, label=key.label, key=secret)


@router.delete("/{key_id}")
async def revoke_key(key_id: str, room: Room, caller: Operator) -> RevokedKey:
    """End a key's validity at once."""
    await room.keys.revoke(key_id, caller)
    return RevokedKey(id=key_id)
