"""Request bodies: bounded by counted bytes, and read strictly.

Python's JSON reader accepts NaN, turns `1e400` into infinity, lets the last of two equal keys win, and passes NUL and lone
surrogates that databases refuse. Each of those would surface later as a 500 or a wrong reward, so they end here.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.access import request_id_of
from service.errors import ServiceError, refusal

LIMIT_BYTES = 1024 * 1024
DRAIN_BYTES = 32 * 1024 * 1024
"""Read and forgotten of a body over the limit, so that an ordinary client gets to read the answer."""
READ_SECONDS = 30.0


def parse_json(text: bytes) -> Any:
    """Decode one JSON text. Raises `ServiceError` 400 (no JSON) or 422 (JSON that this API does not take)."""
    try:
        decoded = text.decode("utf-8")
        value = DECODER.decode(decoded)
    except ServiceError:
        raise
    except (ValueError, RecursionError):
        raise ServiceError(400, "invalid_json", "the body is not JSON that can be read") from None
    if "\\u" in decoded:
        _refuse_unstorable(value)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ServiceError(422, "invalid_number", f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ServiceError(422, "invalid_number", "a number is out of range")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ServiceError(422, "duplicate_key", "an object has the same key twice")
    return value


DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique)
"""Made once: that costs more than reading a small body."""


def _refuse_unstorable(value: Any) -> None:
    """NUL and lone surrogates can only come from escapes; an explicit stack, since nesting is the caller's choice."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend((*item.keys(), *item.values()))
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, str) and any(char == "\0" or "\ud800" <= char <= "\udfff" for char in item):
            raise ServiceError(422, "invalid_text", "a text has a NUL or half of a surrogate pair")


class StrictRequest(Request):
    """A request whose JSON is read by `parse_json`."""

    async def json(self) -> Any:
        """The decoded body."""
        if not hasattr(self, "_strict"):
            self._strict = parse_json(await self.body())
        return self._strict


class StrictRoute(APIRoute):
    """The route class of every router: hands FastAPI a `StrictRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler behind the strict reader."""
        handler = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return strictly


class BodyLimit:
    """ASGI middleware: reads the whole body before the application sees the request; 413 above the limit, 408 if slow."""

    def __init__(self, app: ASGIApp, limit: int = LIMIT_BYTES, seconds: float = READ_SECONDS) -> None:
        self._app = app
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read_in_time(receive)
        except ServiceError as error:
            await refusal(error, request_id_of(scope))(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _replay(body, receive), send)

    async def _read_in_time(self, receive: Receive) -> bytes | None:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._read(receive)
        except TimeoutError:
            close = {"Connection": "close"}
            raise ServiceError(408, "body_timeout", "the body did not arrive in time", headers=close) from None

    async def _read(self, receive: Receive) -> bytes | None:
        """The body; None when the client left before its end."""
        chunks, size, more = list[bytes](), 0, True
        while more and size <= DRAIN_BYTES:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunk, more = message.get("body", b""), message.get("more_body", False)
            size += len(chunk)
            if size <= self._limit:
                chunks.append(chunk)
        if size > self._limit:
            raise ServiceError(413, "body_too_large", f"the body is larger than {self._limit} bytes")
        return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once, then whatever else the server has to say (a disconnect)."""
    waiting = [body]

    async def replayed() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replayed
