"""McpTools: the tools of an MCP server, over stdio or streamable HTTP, through the official SDK.

What the model is told is what the server said when it was first asked: a server that changes its tools later changes nothing
here until a restart. A call is never repeated by itself, for its effect may have happened; the connection is renewed for the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED, CallToolResult, TextContent, Tool

from agents.tools.check import ToolError
from agents.tools.fetch import guarded_client
from agents.tools.functions import as_text
from agents.tools.spec import ToolSpec
from agents.tools.toolset import ToolsetUnavailable

EVERY_TOOL = "*"
MOST_PAGES = 20
CONNECT_SECONDS = 60.0
"""A server may be a process that has to start first."""
STUCK = 3
"""Deadlines missed in a row after which a connection is given up."""
LOST = (
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
    anyio.EndOfStream,
    httpx2.HTTPError,
    OSError,
    RuntimeError,
)
Connect = Callable[[AsyncExitStack], "Client"]


def over_stdio(command: Sequence[str], environment: Mapping[str, str]) -> Connect:
    """A server that is a child process; it sees a minimal environment and what is given here."""
    server = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(environment))
    return lambda _: Client(server)


def over_http(url: str, headers: Mapping[str, str], *, private: bool) -> Connect:
    """A server at a URL."""

    def connect(stack: AsyncExitStack) -> Client:
        http = guarded_client(private=private, headers=dict(headers), follow_redirects=False)
        stack.push_async_callback(http.aclose)
        return Client(streamable_http_client(url, http_client=http))

    return connect


class McpTools:
    """A toolset (`agents.tools.toolset.Toolset`) with one connection, held by a task of its own."""

    def __init__(self, connect: Connect, allow: Sequence[str], seconds: float) -> None:
        self._connect = connect
        self._allow = frozenset(allow)
        self._seconds = seconds
        self._specs: tuple[ToolSpec, ...] = ()
        self._holder: asyncio.Task[None] | None = None
        self._client: asyncio.Future[Client] | None = None
        self._missed = 0

    @classmethod
    async def open(cls, connect: Connect, allow: Sequence[str], seconds: float) -> McpTools:
        """Connected, its tools known. Raises `ToolsetUnavailable`."""
        tools = cls(connect, allow, seconds)
        try:
            client = await tools._connected()
            async with asyncio.timeout(CONNECT_SECONDS):
                listed = await _listed(client)
        except (MCPError, TimeoutError, ToolError, *LOST) as error:
            await tools.close()
            raise ToolsetUnavailable(f"the MCP server can't be asked: {error or type(error).__name__}") from error
        names = {tool.name for tool in listed}
        missing = tools._allow - names - {EVERY_TOOL}
        if missing:
            await tools.close()
            raise ToolsetUnavailable(
                f"the MCP server has no {', '.join(sorted(missing))}; it has {', '.join(sorted(names))}"
            )
        tools._specs = tuple(_spec(tool) for tool in listed if EVERY_TOOL in tools._allow or tool.name in tools._allow)
        return tools

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The allowed tools."""
        return self._specs

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Text of one call's result. Raises `ToolError`."""
        if name not in {spec.name for spec in self._specs}:
            raise ToolError(f"unknown tool {name}")
        client = await self._connected()
        try:
            async with asyncio.timeout(self._seconds):
                result = await client.call_tool(name, dict(arguments))
        except TimeoutError:
            await self._missed_deadline()
            raise ToolError(f"{name} gave no answer within {self._seconds:g} s") from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                await self.close()
            raise ToolError(f"{name}: {error}") from error
        except LOST as error:
            await self.close()
            raise ToolError(f"{name}: the connection was lost; whether it happened is unknown") from error
        self._missed = 0
        return _text(result)

    async def close(self) -> None:
        """End the connection; the next call makes a new one."""
        holder, self._holder, self._client = self._holder, None, None
        if holder is not None:
            holder.cancel()
            await asyncio.wait([holder])

    async def _missed_deadline(self) -> None:
        self._missed += 1
        if self._missed >= STUCK:
            self._missed = 0
            await self.close()

    async def _connected(self) -> Client:
        if self._holder is None or self._holder.done() or self._client is None:
            self._client = asyncio.get_running_loop().create_future()
            self._holder = asyncio.create_task(self._hold(self._client))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await asyncio.shield(self._client)
        except TimeoutError:
            await self.close()
            raise ToolError(f"no connection to the MCP server within {CONNECT_SECONDS:g} s") from None

    async def _hold(self, ready: asyncio.Future[Client]) -> None:
        """Enter and leave the client in one task, as its cancel scopes demand."""
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(self._connect(stack))
                ready.set_result(client)
                await asyncio.Event().wait()
        except Exception as error:  # noqa: BLE001 - not handled here: handed to those who wait for the connection
            _give_up(ready, f"no connection to the MCP server: {_innermost(error)}")
        finally:
            _give_up(ready, "the connection to the MCP server was closed")


def _give_up(ready: asyncio.Future[Client], reason: str) -> None:
    if not ready.done():
        ready.set_exception(ToolError(reason))
        ready.exception()  # perhaps nobody waits any more


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


async def _listed(client: Client) -> list[Tool]:
    found, cursor = list[Tool](), None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _spec(tool: Tool) -> ToolSpec:
    return ToolSpec(tool.name, tool.description or "", tool.input_schema)


def _text(result: CallToolResult) -> str:
    parts = [part.text if isinstance(part, TextContent) else f"[{part.type}]" for part in result.content]
    text = as_text("\n".join(parts) if parts or result.structured_content is None else result.structured_content)
    if result.is_error:
        raise ToolError(text or "the tool failed")
    return text
