"""Toolbox: the toolsets of an installation, by name, opened when a run first wants one.

They come from entry points of the group `ratchet.toolsets` (each names a sequence of functions) and from the operator's JSON
file: `{"files": {"mcp": {"command": ["files-server"], "allow": ["read_file"]}}, "shop": {"openapi": {...}}, "code": {"code": {}}}`.
A mistake in either stops the start; a far end that does not answer is `ToolsetUnavailable` for the run that wants it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, model_validator

from agents.tools.functions import find
from agents.tools.openapi_tools import OpenApiTools
from agents.tools.python_tools import PythonTools
from agents.tools.toolset import Toolset
from agents.worlds.code.tool import run_python

GROUP = "ratchet.toolsets"
Seconds = Annotated[float, Field(gt=0, le=600)]
Names = Annotated[list[str], Field(min_length=1)]
Make = Callable[[], Awaitable[Toolset]]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class McpConfig(_Part):
    """An MCP server: a command (stdio) or a url (streamable HTTP)."""

    command: Names | None = None
    url: str | None = None
    allow: Names
    """Tools that may be used; `["*"]` for all."""
    env: dict[str, str] = {}
    """Of the command; a value "$NAME" is read from the service's environment, here and in `headers`."""
    headers: dict[str, str] = {}
    seconds: Seconds = 30.0
    private: bool = False
    """Whether the url may lead into the inner network."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give exactly one of command and url")
        return self


class OpenApiConfig(_Part):
    """Operations of an HTTP API."""

    file: Path
    """Its OpenAPI 3 description in JSON."""
    url: str
    allow: Names
    """operationIds."""
    headers: dict[str, str] = {}
    private: bool = False


class PythonConfig(_Part):
    """Functions by "module:name"."""

    functions: Names
    seconds: Seconds = 30.0


class CodeConfig(_Part):
    """Python that the model writes, in the sandboxed process."""

    seconds: Seconds = 10.0


class ToolsetConfig(_Part):
    """Exactly one kind."""

    mcp: McpConfig | None = None
    openapi: OpenApiConfig | None = None
    python: PythonConfig | None = None
    code: CodeConfig | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("give exactly one of mcp, openapi, python, code")
        return self


class ToolboxFile(RootModel[dict[Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,64}$")], ToolsetConfig]]):
    """The operator's file."""


class Toolbox:
    """Belongs to one event loop."""

    def __init__(self, makers: Mapping[str, Make]) -> None:
        self._makers = makers
        self._open: dict[str, Toolset] = {}
        self._opening = asyncio.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """What there is."""
        return tuple(sorted(self._makers))

    async def get(self, name: str) -> Toolset:
        """The toolset, opened at its first use. Raises KeyError, `ToolsetUnavailable`."""
        make = self._makers[name]
        if name not in self._open:
            async with self._opening:
                if name not in self._open:
                    self._open[name] = await make()
        return self._open[name]

    async def close(self) -> None:
        """Close what was opened."""
        while self._open:
            await self._open.popitem()[1].close()


def open_toolbox(
    file: Path | None, environment: Mapping[str, str], plugins: Iterable[EntryPoint] | None = None
) -> Toolbox:
    """All toolsets; `plugins` are the installed ones unless given. Raises ValueError that names the one that is wrong."""
    makers: dict[str, Make] = {}
    for plugin in entry_points(group=GROUP) if plugins is None else plugins:
        makers[plugin.name] = _named(plugin.name, partial(_plugged, plugin))
    for name, config in _read(file).items():
        if name in makers:
            raise ValueError(f"toolset {name}: an installed package has one of this name")
        makers[name] = _named(name, partial(_maker, config, environment))
    return Toolbox(makers)


def _plugged(plugin: EntryPoint) -> Make:
    return _ready(PythonTools(plugin.load()))


def _named(name: str, make: Callable[[], Make]) -> Make:
    try:
        return make()
    except (ValueError, TypeError, ImportError, AttributeError, OSError, KeyError) as error:
        raise ValueError(f"toolset {name}: {error}") from error


def _read(file: Path | None) -> dict[str, ToolsetConfig]:
    if file is None:
        return {}
    try:
        return ToolboxFile.model_validate_json(file.read_bytes()).root
    except OSError as error:
        raise ValueError(f"{file} can't be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _maker(config: ToolsetConfig, environment: Mapping[str, str]) -> Make:
    if config.mcp is not None:
        return _mcp(config.mcp, environment)
    if config.openapi is not None:
        told = config.openapi
        document = json.loads(told.file.read_bytes())
        headers = _filled(told.headers, environment)
        return _ready(OpenApiTools.of(document, told.url, told.allow, headers, private=told.private))
    if config.python is not None:
        return _ready(PythonTools([find(place) for place in config.python.functions], config.python.seconds))
    return _ready(PythonTools([run_python], config.code.seconds if config.code else CodeConfig().seconds))


def _mcp(config: McpConfig, environment: Mapping[str, str]) -> Make:
    # The SDK is a second's import; most installations have no MCP server.
    from agents.tools.mcp_tools import McpTools, over_http, over_stdio  # noqa: PLC0415

    if config.command is not None:
        connect = over_stdio(config.command, _filled(config.env, environment))
    else:
        connect = over_http(config.url or "", _filled(config.headers, environment), private=config.private)
    return lambda: McpTools.open(connect, config.allow, config.seconds)


def _ready(toolset: Toolset) -> Make:
    async def make() -> Toolset:
        return toolset

    return make


def _filled(values: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    missing = [value for value in values.values() if value.startswith("$") and value[1:] not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} is not set in the environment")
    return {name: environment[value[1:]] if value.startswith("$") else value for name, value in values.items()}
