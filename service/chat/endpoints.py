"""POST /v1/chat/completions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import Response

from service.auth import User
from service.body import StrictRoute
from service.chat.reply import whole
from service.chat.schemas import ChatReply, ChatRequest
from service.chat.stream import ChatStream
from service.errors import ERRORS, ServiceError
from service.runs.stream import CLIENT_CLOSED, CallerGone, unless_gone
from service.state import Room

router = APIRouter(prefix="/v1/chat/completions", tags=["openai"], route_class=StrictRoute, responses=ERRORS)

EpisodeId = Annotated[str | None, Header(max_length=64)]
STREAM = {"text/event-stream": {"schema": {"type": "string"}}}


@router.post("", response_model=ChatReply, responses={200: {"content": STREAM}})
async def complete_chat(
    request: Request, response: Response, body: ChatRequest, room: Room, caller: User, x_episode_id: EpisodeId = None
) -> ChatReply | Response:
    """The next message of a conversation whose tools are the client's. The answer comes when it is on record."""
    named = x_episode_id or (body.metadata or {}).get("episode_id")
    turn = await room.chats.ask(body, caller, named)
    if body.stream:
        return ChatStream(turn, with_usage=bool(body.stream_options and body.stream_options.include_usage))
    try:
        answer = await unless_gone(turn.end(), request.receive)
    except CallerGone:
        turn.cancel()
        raise ServiceError(CLIENT_CLOSED, "client_closed", "the client left; its answer was not made") from None
    if turn.question.stored:
        response.headers["X-Episode-Id"] = answer.episode.id
    return whole(turn, answer)
