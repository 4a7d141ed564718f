"""/v1/deployment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import APIRouter

from agents.engine import EngineFault
from bank.deployment import Deployment
from bank.ledger.errors import NotFound
from service.auth import Operator
from service.body import StrictRoute
from service.deployment.schemas import (
    DeploymentReply,
    FlipReply,
    History,
    PromoteRequest,
    ReplicaReply,
    RollbackRequest,
)
from service.errors import ERRORS, RETRY_AFTER, ServiceError
from service.residency import NoRoom
from service.state import Room, State
from service.swap import HISTORY, Change, NothingBefore, Unproven
from service.way_back import way_back
from service.wire import Limit

router = APIRouter(prefix="/v1/deployment", tags=["deployment"], route_class=StrictRoute, responses=ERRORS)


@router.get("")
async def get_deployment(room: Room, _: Operator) -> DeploymentReply:
    """The live version, the way back, and the replicas."""
    return await _reply(room)


@router.get("/history")
async def get_history(room: Room, _: Operator, limit: Limit = 20) -> History:
    """What was live when, newest first."""
    rows = await room.books.read(lambda books: books.deployments.history(limit))
    return History(history=[FlipReply.of(row) for row in rows])


@router.post("/promote")
async def promote(body: PromoteRequest, room: Room, caller: Operator) -> DeploymentReply:
    """Load and prove a version on every replica, then flip the pointer to it."""
    with _refusals():
        await room.swap.promote(body.checkpoint, Change(caller.id, body.reason, body.expected_generation))
    return await _reply(room)


@router.post("/rollback")
async def rollback(room: Room, caller: Operator, body: RollbackRequest | None = None) -> DeploymentReply:
    """Flip the pointer back to the version before."""
    wanted = body or RollbackRequest()
    with _refusals():
        await room.swap.rollback(Change(caller.id, wanted.reason, wanted.expected_generation, "rollback"))
    return await _reply(room)


async def _reply(room: State) -> DeploymentReply:
    history = await room.books.read(lambda books: books.deployments.history(HISTORY))
    if not history:
        raise ServiceError(503, "not_ready", "nothing is deployed yet", headers=RETRY_AFTER)
    ready = room.fleet.ready()
    replicas = [ReplicaReply.of(replica, ready=replica in ready) for replica in room.fleet.replicas]
    return DeploymentReply(**_fields(history[0]), rollback_to=way_back(history), replicas=replicas)


def _fields(row: Deployment) -> dict[str, object]:
    return FlipReply.of(row).model_dump()


@contextmanager
def _refusals() -> Iterator[None]:
    """Status and code of what a swap may refuse."""
    try:
        yield
    except NotFound as error:
        raise ServiceError(404, "unknown_checkpoint", str(error)) from None
    except NothingBefore as error:
        raise ServiceError(409, "nothing_to_roll_back", str(error)) from None
    except Unproven as error:
        raise ServiceError(409, "probe_failed", str(error)) from None
    except NoRoom as error:
        raise ServiceError(503, "no_room", str(error), headers=RETRY_AFTER) from None
    except EngineFault as error:
        raise ServiceError(503, "engine_unavailable", str(error), headers=RETRY_AFTER) from None
