"""Chat messages as the model sees them: the one currency of prompts, trajectories and the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    """Who speaks (OpenAI chat roles)."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asked for."""

    id: str
    """Unique inside its episode; a tool message answers it by this id."""
    name: str
    arguments: str
    """JSON text exactly as the model wrote it; parsed only when dispatched."""

    def to_wire(self) -> dict[str, Any]:
        """OpenAI form."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> ToolCall:
        """Inverse of `to_wire`."""
        return cls(id=wire["id"], name=wire["function"]["name"], arguments=wire["function"]["arguments"])


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """Set on tool messages only: the call that this observation answers."""

    def to_wire(self) -> dict[str, Any]:
        """OpenAI form; absent fields are left out."""
        wire: dict[str, Any] = {"role": self.role.value, "content": self.content}
        if self.tool_calls:
            wire["tool_calls"] = [call.to_wire() for call in self.tool_calls]
        if self.tool_call_id is not None:
            wire["tool_call_id"] = self.tool_call_id
        return wire

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Message:
        """Inverse of `to_wire`; null or absent content reads as the empty string."""
        return cls(
            role=Role(wire["role"]),
            content=wire.get("content") or "",
            tool_calls=tuple(ToolCall.from_wire(call) for call in wire.get("tool_calls") or ()),
            tool_call_id=wire.get("tool_call_id"),
        )
