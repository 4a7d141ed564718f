"""Server-sent events of a run, and the watch for a caller who leaves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import structlog
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bank.episode import StopReason
from service.access import request_id_of
from service.errors import ErrorBody, ErrorDetail
from service.runs.live import LiveRun
from service.runs.schemas import Policy, RunReply, RunStarted, Step

log = structlog.get_logger(__name__)

T = TypeVar("T")

CLIENT_CLOSED = 499
QUIET_SECONDS = 15.0
"""After so much silence a comment is sent, or proxies take the stream for dead."""
HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]


class CallerGone(Exception):
    """The client closed the connection before its answer was complete."""


async def unless_gone(work: Awaitable[T], receive: Receive) -> T:
    """The result of `work`; it is cancelled when the client leaves first. Raises `CallerGone`."""
    job, watch = asyncio.ensure_future(work), asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait({job, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise CallerGone
        return job.result()
    finally:
        job.cancel()
        watch.cancel()
        await asyncio.wait({job, watch})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class RunStream(Response):
    """The response of a streamed run."""

    def __init__(self, live: LiveRun) -> None:
        super().__init__(status_code=200)
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": HEADERS})
        try:
            with contextlib.suppress(CallerGone):
                await unless_gone(self._send_all(request_id_of(scope), send), receive)
        finally:
            self._live.cancel()
        await self._live.end()

    async def _send_all(self, request_id: str, send: Send) -> None:
        try:
            async for chunk in with_comments(_events(self._live, request_id), QUIET_SECONDS):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except Exception:
            broken = _error("internal", "internal error; the run has no record", request_id)
            await send({"type": "http.response.body", "body": _event("error", broken), "more_body": False})
            raise
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _events(live: LiveRun, request_id: str) -> AsyncIterator[bytes]:
    policy = Policy(checkpoint=live.run.version, digest=live.run.digest)
    yield _event("run", RunStarted(id=live.run.episode_id, policy=policy))
    async for turn in live.turns():
        yield _event("step", Step.of(turn))
    episode = await live.end()
    if episode.stop_reason is StopReason.CANCELLED:
        yield _event("error", _error("shutting_down", "the service is stopping; the run was ended", request_id))
    else:
        yield _event("done", RunReply.of(episode))


async def with_comments(events: AsyncIterator[bytes], quiet: float) -> AsyncIterator[bytes]:
    """The events, with a comment whenever none came for `quiet` seconds."""
    while True:
        following = asyncio.ensure_future(anext(events))
        try:
            while not (await asyncio.wait({following}, timeout=quiet))[0]:
                yield b": still there\n\n"
            yield following.result()
        except StopAsyncIteration:
            return
        finally:
            following.cancel()


def _event(name: str, data: BaseModel) -> bytes:
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n".encode()


def _error(code: str, message: str, request_id: str) -> ErrorBody:
    return ErrorBody(error=ErrorDetail(code=code, message=message), request_id=request_id)
