"""Toolset: what a run may be given to work with; and a session of a user's own words over one."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from agents.tools.spec import ToolSpec
from bank.message import Message, Role


class ToolsetUnavailable(Exception):
    """The toolset's far end does not answer; another time it may."""


class Toolset(Protocol):
    """Tools that many runs share."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Result of one call. Raises `ToolError`, or what the tool raises; all of it goes back to the model."""
        ...

    async def close(self) -> None:
        """Release processes and connections."""
        ...


class ToolSession:
    """A conversation over a toolset (`agents.environment.Session`); nothing verifies it."""

    def __init__(self, toolset: Toolset, text: str, system: str = "") -> None:
        introduction = (Message(Role.SYSTEM, system),) if system else ()
        self.opening: tuple[Message, ...] = (*introduction, Message(Role.USER, text))
        self.tools = toolset.specs
        self._toolset = toolset

    def call(self, name: str, arguments: Mapping[str, Any]) -> Awaitable[str]:
        """Start one tool."""
        return self._toolset.call(name, arguments)

    def verify(self) -> float | None:
        """None: only feedback can reward it."""
        return None
