"""MCP servers as toolsets: over both transports, with an allow-list, deadlines and a connection that comes back."""

import asyncio
import os
import socket
import subprocess
import sys
import time

import pytest

from agents.environment import Task
from agents.loop import Run, run_episode
from agents.scripted import ScriptedEngine
from agents.tools.check import ToolError
from agents.tools.mcp_tools import McpTools, over_http, over_stdio
from agents.tools.toolset import ToolSession, ToolsetUnavailable
from bank.episode import Split, StopReason
from tests.agents import example_mcp

COMMAND = [sys.executable, example_mcp.__file__]


@pytest.fixture(scope="module")
def url():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([*COMMAND, "http"], env={**os.environ, "PORT": str(port)}, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/mcp"
    server.terminate()
    server.wait()


@pytest.fixture
def connect(url):
    return over_http(url, {}, private=True)


@pytest.fixture
async def opened():
    made = []

    async def start(connect, allow=("*",), seconds=20.0):
        made.append(await McpTools.open(connect, allow, seconds))
        return made[-1]

    yield start
    for tools in made:
        await tools.close()


async def test_tools_are_listed_and_called_and_fail_as_tools(opened, connect):
    tools = await opened(connect)
    spec = next(spec for spec in tools.specs if spec.name == "add")
    assert spec.description == "Add two numbers."
    assert spec.parameters["required"] == ["left", "right"]
    answers = await asyncio.gather(*(tools.call("add", {"left": n, "right": 1}) for n in range(5)))
    assert answers == ["1", "2", "3", "4", "5"]
    with pytest.raises(ToolError, match="no such order"):
        await tools.call("refuse", {})
    assert len(await tools.call("pages", {"size": 160_000})) == 160_000


async def test_only_allowed_tools_exist(opened, connect):
    tools = await opened(connect, ["add"])
    assert [spec.name for spec in tools.specs] == ["add"]
    with pytest.raises(ToolError, match="unknown tool die"):
        await tools.call("die", {})


async def test_an_allowed_tool_that_the_server_lacks_is_a_mistake(opened, connect):
    with pytest.raises(ToolsetUnavailable, match="has no fly"):
        await opened(connect, ["add", "fly"])


async def test_a_tool_that_hangs_is_given_up_and_the_server_used_on(opened, connect):
    tools = await opened(connect)
    tools._seconds = 0.5
    for _ in range(4):
        with pytest.raises(ToolError, match=r"hang gave no answer within 0\.5 s"):
            await tools.call("hang", {})
    tools._seconds = 20.0
    assert await tools.call("add", {"left": 1, "right": 1}) == "2"


async def test_a_child_process_serves_too_with_a_bare_environment_and_is_started_again(opened, monkeypatch):
    monkeypatch.setenv("RATCHET_LEDGER_URL", "postgresql://user:secret@host/db")
    tools = await opened(over_stdio(COMMAND, {"TOKEN": "1"}))
    names = await tools.call("seen", {})
    assert "TOKEN" in names
    assert "RATCHET" not in names
    with pytest.raises(ToolError, match="die"):
        await tools.call("die", {})
    assert await tools.call("add", {"left": 1, "right": 1}) == "2"


@pytest.mark.parametrize("command", [["/no/such/server"], [sys.executable, "-c", "print('hello')"]])
async def test_what_is_no_server_is_unavailable(opened, command):
    with pytest.raises(ToolsetUnavailable):
        await opened(over_stdio(command, {}))


async def test_a_url_into_the_inner_network_needs_the_operators_word(opened, url):
    with pytest.raises(ToolsetUnavailable, match="not a public address"):
        await opened(over_http(url, {}, private=False))


async def test_a_server_is_used_in_a_run(opened, connect):
    session = ToolSession(await opened(connect, ["add"]), "what is two and three?")
    reply = '<tool_call>{"name": "add", "arguments": {"left": 2, "right": 3}}</tool_call>'
    run = Run("ep", Task("live/1", "live", Split.LIVE, "go"), "base", "0")
    episode = await run_episode(ScriptedEngine([reply, "Five."]), session, run)
    assert [message.content for message in episode.turns[0].observations] == ["5"]
    assert episode.stop_reason is StopReason.FINISHED
