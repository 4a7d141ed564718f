"""POST and DELETE /feedback."""

from __future__ import annotations

from fastapi import APIRouter

from service.auth import User
from service.body import StrictRoute
from service.errors import ERRORS, RETRY_AFTER, ServiceError
from service.feedback.schemas import FeedbackReply, FeedbackRequest
from service.state import Room
from service.thin import ThinRoute

router = APIRouter(prefix="/feedback", tags=["feedback"], route_class=StrictRoute, responses=ERRORS)
hot = APIRouter(prefix="/feedback", tags=["feedback"], route_class=ThinRoute, responses=ERRORS)


@hot.post("", status_code=201)
async def give_feedback(body: FeedbackRequest, room: Room, caller: User) -> FeedbackReply:
    """Judge an episode; 201 means that the verdict is on disk."""
    playing = room.runs.playing(body.episode_id)
    if playing is not None and caller.may_see(playing.run.owner):
        raise ServiceError(409, "run_in_progress", "the run has not ended yet", headers=RETRY_AFTER)
    return FeedbackReply.of(await room.feedback.give(body, caller))


@router.delete("/{feedback_id}")
async def retract_feedback(feedback_id: str, room: Room, caller: User) -> FeedbackReply:
    """Take a verdict back, and with it the experience that it alone created."""
    return FeedbackReply.of(await room.feedback.retract(feedback_id, caller))
