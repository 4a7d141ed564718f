"""ThinRoute: FastAPI's declaration of a call, without FastAPI's work per request.

Thousands of verdicts and answers a second go through a few calls. For those, resolving dependencies, copying the reply through its
model and searching the included routers cost several times what the call itself does. The declaration stays the usual one, so
the OpenAPI is made from it; the refusals are the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, APIRouter
from pydantic import BaseModel, ValidationError
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.body import parse_json

JSON = "application/json"
GIVEN: Mapping[str, Callable[[Scope, Receive], Any]] = {
    "request": Request,
    "room": lambda scope, _: scope["app"].state.ratchet,
    "caller": lambda scope, _: scope["state"]["caller"],
}
"""What an endpoint may ask for by name, beside its `body`."""


class ThinRoute(APIRoute):
    """For an endpoint with a `body` that is a pydantic model, and any of `GIVEN`; returns a model or a response."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self._model: type[BaseModel] = get_type_hints(endpoint)["body"]
        self._given = {name: GIVEN[name] for name in inspect.signature(endpoint).parameters if name != "body"}
        self.app = self.answer

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI, without looking at method and path."""
        scope["route"] = self
        body = self._read(scope, await _whole(receive))
        reply = await self.endpoint(body=body, **{name: give(scope, receive) for name, give in self._given.items()})
        if not isinstance(reply, Response):
            reply = Response(reply.model_dump_json(), self.status_code or 200, media_type=JSON)
        await reply(scope, receive, send)

    def _read(self, scope: Scope, body: bytes) -> BaseModel:
        if not _is_json(scope):
            raise _refused(f"send JSON, with Content-Type: {JSON}")
        if not body:
            raise _refused("Field required")
        try:
            return self._model.model_validate(parse_json(body))
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_url=False, include_input=False)) from None


class ThinApi(FastAPI):
    """FastAPI whose thin routes are found by method and path, under the same middleware and the same error handlers.

    What is left out: the search through the included routers (each is searched twice), exit stacks for dependencies, and FastAPI's
    own telemetry.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._thin: dict[tuple[str, str], ASGIApp] = {}

    def include_thin(self, router: APIRouter) -> None:
        """Add a router of thin routes without parameters in their paths, after all middleware and handlers."""
        self.router.routes[:0] = router.routes
        for route in router.routes:
            if isinstance(route, ThinRoute):
                self._thin |= {(method, route.path): self._stack(route) for method in route.methods or ()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        thin = self._thin.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if thin is None or scope.get("root_path"):
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        await thin(scope, receive, send)

    def _stack(self, route: ThinRoute) -> ASGIApp:
        """As `build_middleware_stack` makes it for all routes."""
        handlers = {kind: handler for kind, handler in self.exception_handlers.items() if kind is not Exception}
        stack: ASGIApp = ExceptionMiddleware(route.answer, handlers)
        for middleware in reversed(self.user_middleware):
            stack = middleware.cls(stack, *middleware.args, **middleware.kwargs)
        return ServerErrorMiddleware(stack, self.exception_handlers[Exception])


async def _whole(receive: Receive) -> bytes:
    """The body, which `BodyLimit` hands on in one piece."""
    message = await receive()
    body: bytes = message.get("body", b"")
    return body


def _is_json(scope: Scope) -> bool:
    media = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    kind = media.partition(b";")[0].strip().lower()
    return bool(kind == b"application/json" or (kind.startswith(b"application/") and kind.endswith(b"+json")))


def _refused(problem: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body",), "msg": problem}])
