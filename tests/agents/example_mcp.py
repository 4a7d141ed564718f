"""An MCP server of the reference kind: the official SDK's own server, with tools that answer, fail, hang and die."""

import asyncio
import os
import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("example")


@server.tool()
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


@server.tool()
def refuse() -> str:
    """Always fail."""
    raise ToolError("no such order")


@server.tool()
async def hang() -> str:
    """Never answer."""
    await asyncio.sleep(3600)
    return "never"


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(1)


@server.tool()
def seen() -> list[str]:
    """Names in the environment."""
    return sorted(os.environ)


@server.tool()
def pages(size: int) -> str:
    """Much text."""
    return "漢" * size


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        server.run("streamable-http", port=int(os.environ["PORT"]))
    server.run("stdio")
