"""Who is asking: API keys, by hash, in two roles.

Everything needs a key except what `OPEN_PATHS` names; a route that is added later is closed by default.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from bank.api_key import KeyRole
from service.access import request_id_of
from service.books import BooksAsync
from service.errors import ServiceError, refusal

PREFIX = "rk_"
LONGEST_KEY = 200
MOST_KNOWN = 10_000
"""Keys remembered at once."""
OPEN_PATHS = frozenset({"/healthz", "/healthz/queues", "/readyz", "/metrics", "/openapi.json", "/docs"})
"""Probes, the scraper and the API's description: they hold no one's data and change nothing."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The key behind a request."""

    id: str
    role: KeyRole

    @property
    def is_operator(self) -> bool:
        """Whether operator calls are allowed."""
        return self.role is KeyRole.OPERATOR

    def may_see(self, owner: str | None) -> bool:
        """Whether a row of this owner exists for the caller: operators see all, users their own."""
        return self.is_operator or owner == self.id


def new_secret() -> str:
    """A fresh key, 256 bits."""
    return PREFIX + secrets.token_urlsafe(32)


def secret_hash(secret: str) -> str:
    """What is stored of a key. Plain sha256 suffices: the secret is random, there is no dictionary to slow down."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Callers:
    """Who is behind a key. Belongs to one event loop.

    A key that was found is believed for `seconds` without asking the ledger. Whoever revokes one in this process calls `forget`,
    so it is refused here at once; other processes on the same ledger refuse it after `seconds` at the latest.
    """

    def __init__(self, books: BooksAsync, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._books = books
        self._seconds = seconds
        self._clock = clock
        self._known: dict[str, tuple[Caller, float]] = {}
        """By hash of the secret, with the time until which it is believed."""
        self._forgotten = 0

    async def identify(self, header: str | None) -> Caller:
        """The caller behind an Authorization header. Raises `ServiceError` 401."""
        scheme, _, secret = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not secret.startswith(PREFIX) or len(secret) > LONGEST_KEY:
            raise _unauthorized("send `Authorization: Bearer rk_...`")
        digest = secret_hash(secret)
        known = self._known.get(digest)
        return known[0] if known is not None and self._clock() < known[1] else await self._find(digest)

    def forget(self) -> None:
        """Ask the ledger about every key again, from now on."""
        self._known.clear()
        self._forgotten += 1

    async def _find(self, digest: str) -> Caller:
        asked, forgotten = self._clock(), self._forgotten
        key = await self._books.read(lambda books: books.keys.by_hash(digest))
        if key is None or not hmac.compare_digest(key.hash, digest) or key.revoked_at is not None:
            raise _unauthorized("this key is not known")
        caller = Caller(key.id, key.role)
        if forgotten == self._forgotten:  # or this may be the answer from before a revocation
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[digest] = caller, asked + self._seconds
        return caller


def _unauthorized(message: str) -> ServiceError:
    return ServiceError(401, "unauthorized", message, headers={"WWW-Authenticate": "Bearer"})


class Authenticate:
    """ASGI middleware: puts the `Caller` into the request's state, or answers 401. Stands before the body is read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            try:
                callers: Callers = scope["app"].state.ratchet.callers
                scope["state"]["caller"] = await callers.identify(_header(scope))
            except ServiceError as error:
                await refusal(error, request_id_of(scope))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _header(scope: Scope) -> str | None:
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    return found[0].decode("latin-1") if len(found) == 1 else None


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


async def _operator(request: Request) -> Caller:
    caller: Caller = request.state.caller
    if not caller.is_operator:
        raise ServiceError(403, "forbidden", "this call needs an operator's key")
    return caller


User = Annotated[Caller, Depends(_caller)]
Operator = Annotated[Caller, Depends(_operator)]
