"""Every request gets an id, and is counted."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"x-request-id"
_ACCEPTED = re.compile(r"[A-Za-z0-9_.:-]{1,64}")

Count = Callable[[str, str, int], None]
"""(method, route, status)."""


def request_id_of(scope: Scope) -> str:
    """The id that `Access` gave."""
    return str(scope.get("state", {}).get("request_id", ""))


class Access:
    """ASGI middleware: takes a caller's X-Request-Id or makes one, answers with it, counts by route template."""

    def __init__(self, app: ASGIApp, count: Count) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _given(scope) or f"req_{secrets.token_hex(12)}"
        scope.setdefault("state", {})["request_id"] = request_id

        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), (HEADER, request_id.encode())]
                self._count(scope["method"], _route(scope), message["status"])
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception:
            # The answer to a bug is made outside of all middleware.
            if not started:
                self._count(scope["method"], _route(scope), HTTPStatus.INTERNAL_SERVER_ERROR)
            raise


def _given(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == HEADER and _ACCEPTED.fullmatch(value.decode("latin-1")):
            return str(value.decode("latin-1"))
    return None


def _route(scope: Scope) -> str:
    """The template, never the path itself: ids in labels would grow the metrics without bound."""
    return str(getattr(scope.get("route"), "path", "unmatched"))
