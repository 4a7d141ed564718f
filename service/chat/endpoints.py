"""POST /v1/chat/completions."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from service.auth import User
from service.chat.reply import whole
from service.chat.schemas import ChatReply, ChatRequest
from service.chat.stream import ChatStream
from service.errors import ERRORS, ServiceError
from service.runs.stream import CLIENT_CLOSED, CallerGone, unless_gone
from service.state import Room
from service.thin import ThinRoute

hot = APIRouter(prefix="/v1/chat/completions", tags=["openai"], route_class=ThinRoute, responses=ERRORS)

LONGEST_ID = 64
EPISODE_ID = {
    "name": "x-episode-id",
    "in": "header",
    "required": False,
    "schema": {"anyOf": [{"type": "string", "maxLength": LONGEST_ID}, {"type": "null"}], "title": "X-Episode-Id"},
}
STREAM = {"text/event-stream": {"schema": {"type": "string"}}}


@hot.post(
    "", response_model=ChatReply, responses={200: {"content": STREAM}}, openapi_extra={"parameters": [EPISODE_ID]}
)
async def complete_chat(request: Request, body: ChatRequest, room: Room, caller: User) -> Response:
    """The next message of a conversation whose tools are the client's. The answer comes when it is on record."""
    named = _named(request) or (body.metadata or {}).get("episode_id")
    turn = await room.chats.ask(body, caller, named)
    if body.stream:
        return ChatStream(turn, with_usage=bool(body.stream_options and body.stream_options.include_usage))
    try:
        answer = await unless_gone(turn.end(), request.receive)
    except CallerGone:
        turn.cancel()
        raise ServiceError(CLIENT_CLOSED, "client_closed", "the client left; its answer was not made") from None
    headers = {"X-Episode-Id": answer.episode.id} if turn.question.stored else {}
    return Response(whole(turn, answer).model_dump_json(), headers=headers, media_type="application/json")


def _named(request: Request) -> str | None:
    named = request.headers.get("x-episode-id")
    if named is not None and len(named) > LONGEST_ID:
        long = {"loc": ("header", "x-episode-id"), "msg": f"String should have at most {LONGEST_ID} characters"}
        raise RequestValidationError([long])
    return named
