"""ChatStream: server-sent chunks in OpenAI's form.

The text leaves when it is on record, for what a client has read can be judged, and no half call is ever retracted; until then
comments keep the connection alive, and a client who leaves ends the engine's work.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.access import request_id_of
from service.chat.reply import chunks, event, first_chunk
from service.chat.turn import ChatTurn
from service.errors import ServiceError
from service.runs.stream import HEADERS, QUIET_SECONDS, CallerGone, unless_gone, with_comments


class ChatStream(Response):
    """The response of a streamed chat."""

    def __init__(self, turn: ChatTurn, *, with_usage: bool) -> None:
        super().__init__(status_code=200)
        self._turn = turn
        self._with_usage = with_usage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        question = self._turn.question
        named = [(b"x-episode-id", question.id.encode())] if question.stored else []
        await send({"type": "http.response.start", "status": self.status_code, "headers": [*HEADERS, *named]})
        try:
            with contextlib.suppress(CallerGone):
                await unless_gone(self._send_all(request_id_of(scope), send), receive)
        finally:
            self._turn.cancel()

    async def _send_all(self, request_id: str, send: Send) -> None:
        async for chunk in with_comments(self._events(request_id), QUIET_SECONDS):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _events(self, request_id: str) -> AsyncIterator[bytes]:
        yield first_chunk(self._turn, with_usage=self._with_usage)
        try:
            answer = await self._turn.end()
        except ServiceError as error:
            told = {"code": error.code, "message": error.message, "detail": error.facts}
            yield event({"error": told, "request_id": request_id})
            return
        for chunk in chunks(self._turn, answer, with_usage=self._with_usage):
            yield chunk
