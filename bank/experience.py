"""Experience: what a verified success leaves behind, ready to be retrieved."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from bank.episode import Episode
from bank.message import Message, ToolCall

RESULT_CHARACTERS = 60
"""Longest result kept in a trace; longer observations are left out (LOPD app. A.3 keeps no verbose ones)."""


@dataclass(frozen=True, slots=True)
class Experience:
    """One verified success."""

    id: str
    episode_id: str
    suite: str
    task_id: str
    task: str
    trace: str
    """Compact action-result lines, see `compact_trace`."""
    reward: float
    created_at: datetime

    @property
    def document(self) -> str:
        """The text that is embedded and composed: task and trace (LOPD eq. 15)."""
        return f"{self.task}\n{self.trace}"


def compact_trace(episode: Episode) -> str:
    """One line per call, `name(argument=value) -> result`, closed by the final answer if there is one."""
    lines = [line for turn in episode.turns for line in _lines(turn.reply, turn.observations)]
    return "\n".join(lines)


def _lines(reply: Message, observations: tuple[Message, ...]) -> list[str]:
    results = {message.tool_call_id: message.content for message in observations}
    calls = [f"{_signature(call)} -> {_short(results.get(call.id, ''))}" for call in reply.tool_calls]
    return calls or ([reply.content] if reply.content else [])


def _signature(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):  # whatever a model may have written, huge integers and deep nesting included
        arguments = None
    if not isinstance(arguments, dict):
        return f"{call.name}({call.arguments})"
    return f"{call.name}({', '.join(f'{key}={value}' for key, value in arguments.items())})"


def _short(result: str) -> str:
    return result if len(result) <= RESULT_CHARACTERS else "..."
