"""Wire: HTTP to one server. Every failure leaves as an `EngineFault` of the right kind.

aiohttp, because httpx costs ten times the CPU per request. Calls may be repeated once when a kept connection turns out to
be closed: asking, loading and unloading are all safe to repeat.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson
from pydantic import ValidationError

from agents.engine import EngineFault, Unavailable
from agents.vllm_engine.schemas import Trouble

KEPT_SECONDS = 3.0
"""How long an idle connection is kept: below the five seconds after which vLLM's server closes it."""
FULL = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
AWAY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)
HEALTH_SECONDS = 5.0
LONGEST_LINE = 2**22
"""Bytes of one event: the first one repeats the prompt's ids."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Longest waits, seconds."""

    connect: float = 5.0
    answer: float = 600.0
    """For a whole reply."""
    load: float = 120.0
    """For a version to be loaded, or anything else that is no reply."""


class Refused(EngineFault):
    """The server lives and said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Wire:
    """One server's address and connections. Belongs to the event loop that first uses it."""

    def __init__(self, url: str, patience: Patience, connections: int) -> None:
        self.url = url.rstrip("/")
        self._patience = patience
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def get(self, path: str) -> bytes:
        """The body of a 200. Raises `Refused` or another `EngineFault`."""
        return await self._call("GET", path, None, self._patience.load)

    async def post(self, path: str, body: Mapping[str, Any], *, reply: bool = False) -> bytes:
        """As `get`. `reply`: the model answers, which may take long."""
        return await self._call("POST", path, body, self._patience.answer if reply else self._patience.load)

    async def events(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[bytes]:
        """Data of server-sent events until `[DONE]`; leaving the iteration early makes the server stop. Raises as `get`."""
        async with self._asked("POST", path, body, self._patience.answer) as response:
            async for line in response.content:
                data = line.removeprefix(b"data:").strip()
                if data == b"[DONE]":
                    return
                if line.startswith(b"data:"):
                    yield data

    async def close(self) -> None:
        """Close every connection; calls in flight fail."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float) -> bytes:
        async with self._asked(method, path, body, seconds) as response:
            return await response.read()

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            async with await self._send(method, path, body, seconds) as response:
                if response.status != HTTPStatus.OK:
                    await self._raise(response)
                yield response
        except TimeoutError:
            raise Unavailable(f"{self.url} did not answer {path} in {seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            if self._closed:
                raise EngineFault("the engine is closed") from None
            raise Unavailable(f"{self.url} is not there: {type(error).__name__} {error}") from error

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float
    ) -> aiohttp.ClientResponse:
        data = None if body is None else orjson.dumps(body)
        timeout = aiohttp.ClientTimeout(total=seconds, connect=None, sock_connect=self._patience.connect)
        session = self._open()
        try:
            return await session.request(method, self.url + path, data=data, timeout=timeout)
        except (aiohttp.ServerDisconnectedError, ConnectionResetError):
            return await session.request(method, self.url + path, data=data, timeout=timeout)

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise EngineFault("the engine is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=KEPT_SECONDS),
                headers={"Content-Type": "application/json"},
                read_bufsize=LONGEST_LINE,
            )
        return self._session

    async def _raise(self, response: aiohttp.ClientResponse) -> None:
        status, message = response.status, _message(await response.read())
        if status in FULL:
            raise Unavailable(f"{self.url} is full: {message}", _seconds(response.headers.get("Retry-After")))
        if status in AWAY:
            raise Unavailable(f"{self.url} is not there: status {status}")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and not await self._healthy():
            raise Unavailable(f"{self.url} is failing: {message}")
        raise Refused(status, message)

    async def _healthy(self) -> bool:
        """Whether the engine behind the server lives: a dead one answers everything with 500."""
        with suppress(aiohttp.ClientError, OSError, TimeoutError):
            timeout = aiohttp.ClientTimeout(total=HEALTH_SECONDS)
            async with self._open().get(f"{self.url}/health", timeout=timeout) as response:
                return response.status == HTTPStatus.OK
        return False


def _message(body: bytes) -> str:
    try:
        return Trouble.model_validate_json(body).message
    except ValidationError:
        return body[:200].decode("utf-8", "replace")


def _seconds(header: str | None) -> float:
    try:
        return max(0.0, float(header or 1.0))
    except ValueError:
        return 1.0
