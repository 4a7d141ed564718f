"""ToolSpec: what the model is told about a tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool in OpenAI's function schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments object."""

    def to_wire(self) -> dict[str, Any]:
        """OpenAI form."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}
