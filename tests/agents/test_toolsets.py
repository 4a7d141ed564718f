"""The toolbox: what the operator's file and installed packages bring, and which mistakes stop the start."""

import json
import sys
from importlib.metadata import EntryPoint

import pytest

from agents.tools.check import ToolError
from agents.tools.toolset import ToolsetUnavailable
from agents.toolsets import GROUP, open_toolbox
from tests.agents import example_mcp

PLUGIN = EntryPoint("weights", "tests.agents.example_tools:TOOLS", GROUP)


@pytest.fixture
async def toolbox(tmp_path):
    opened = []

    def make(config=None, plugins=(), environment=None):
        file = tmp_path / "tools.json"
        file.write_text(json.dumps(config or {}))
        opened.append(open_toolbox(file, environment or {}, plugins))
        return opened[-1]

    yield make
    for box in opened:
        await box.close()


async def test_installed_packages_bring_functions(toolbox):
    box = toolbox(plugins=[PLUGIN])
    assert box.names == ("weights",)
    tools = await box.get("weights")
    assert [spec.name for spec in tools.specs] == ["convert", "move"]
    assert await tools.call("convert", {"amount": 1}) == "1 kg"
    assert await box.get("weights") is tools


async def test_the_file_names_functions_servers_and_code(toolbox):
    config = {
        "weights": {"python": {"functions": ["tests.agents.example_tools:convert"]}},
        "sums": {
            "mcp": {"command": [sys.executable, example_mcp.__file__], "allow": ["add"], "env": {"TOKEN": "$MINE"}}
        },
        "code": {"code": {}},
    }
    box = toolbox(config, environment={"MINE": "secret"})
    assert box.names == ("code", "sums", "weights")
    assert await (await box.get("sums")).call("add", {"left": 2, "right": 2}) == "4"
    code = await box.get("code")
    assert await code.call("run_python", {"code": "def solve():\n    return {'é': sum(range(10))}"}) == '{"é": 45}'


@pytest.mark.parametrize(
    "code",
    [
        "import os",
        "import socket",
        "import ctypes",
        "open('/etc/passwd')",
        "solve = lambda: open('x', 'w')",
        "def solve():\n    return ().__class__.__base__.__subclasses__()[0].__init__.__globals__",
        "def solve():\n    while True: pass",
        "def solve():\n    return 'x' * 10**10",
        "raise SystemExit",
    ],
)
async def test_code_of_the_model_gets_no_files_no_network_and_no_time(toolbox, code):
    with pytest.raises(ToolError):
        await (await toolbox({"code": {"code": {}}}).get("code")).call("run_python", {"code": code})


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"x": {}}, "exactly one of mcp, openapi, python, code"),
        ({"x": {"code": {}, "python": {"functions": ["a:b"]}}}, "exactly one"),
        ({"x": {"mcp": {"allow": ["*"]}}}, "exactly one of command and url"),
        ({"x": {"mcp": {"command": ["a"]}}}, "allow"),
        (
            {"x": {"mcp": {"command": ["a"], "allow": ["*"], "env": {"KEY": "$NOT_SET"}}}},
            "toolset x: .NOT_SET is not set",
        ),
        ({"x": {"python": {"functions": ["no.such.module:f"]}}}, "toolset x: No module"),
        ({"x": {"python": {"functions": ["tests.agents.example_tools:nothing"]}}}, "toolset x: .*nothing"),
        (
            {"x": {"openapi": {"file": "/nowhere.json", "url": "http://example.com", "allow": ["a"]}}},
            "toolset x: .*nowhere",
        ),
        ({"Bad Name": {"code": {}}}, "Bad Name"),
        ({"x": {"unknown": {}}}, "unknown"),
        ({"weights": {"code": {}}}, "an installed package has one of this name"),
    ],
)
def test_a_mistake_stops_the_start_and_names_the_toolset(toolbox, config, problem):
    with pytest.raises(ValueError, match=problem):
        toolbox(config, [PLUGIN])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"gone\.json can't be read"):
        open_toolbox(tmp_path / "gone.json", {}, [])


async def test_a_server_that_is_away_stops_the_run_and_not_the_start(toolbox):
    box = toolbox({"x": {"mcp": {"command": ["/no/such/server"], "allow": ["*"]}}})
    with pytest.raises(ToolsetUnavailable):
        await box.get("x")
