"""GET /v1/models."""

from __future__ import annotations

from fastapi import APIRouter

from service.auth import Caller, User
from service.body import StrictRoute
from service.chat.service import STUDENT
from service.errors import ERRORS, ServiceError
from service.fleet import Fleet
from service.models.schemas import Model, ModelList
from service.state import Room

router = APIRouter(prefix="/v1/models", tags=["openai"], route_class=StrictRoute, responses=ERRORS)


@router.get("")
async def list_models(room: Room, caller: User) -> ModelList:
    """The alias for everybody; every version that is loaded for operators."""
    return ModelList(data=_models(room.fleet, caller))


@router.get("/{model_id}")
async def get_model(model_id: str, room: Room, caller: User) -> Model:
    """One of them."""
    for model in _models(room.fleet, caller):
        if model.id == model_id:
            return model
    raise ServiceError(404, "model_not_found", "there is no such model")


def _models(fleet: Fleet, caller: Caller) -> list[Model]:
    pointer = fleet.pointer
    live = None if pointer is None else pointer.name
    alias = Model(id=STUDENT, version=live, live=live is not None)
    loaded = {name for replica in fleet.replicas for name in replica.resident} if caller.is_operator else set[str]()
    return [alias, *(Model(id=name, live=name == live) for name in sorted(loaded))]
