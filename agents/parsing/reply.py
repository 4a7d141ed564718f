"""From the text that a model wrote to the assistant's message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agents.parsing.hermes import parse
from bank.message import Message, Role


def reply_of(text: str, conversation: Sequence[Message]) -> Message:
    """Content and calls of one reply; call ids are new in the conversation."""
    parsed = parse(text)
    earlier = {call.id for message in conversation for call in message.tool_calls}
    fresh = (name for index in range(len(earlier) + len(parsed.tool_calls)) if (name := f"call_{index}") not in earlier)
    calls = tuple(replace(call, id=name) for call, name in zip(parsed.tool_calls, fresh, strict=False))
    return Message(Role.ASSISTANT, parsed.content, calls)
