"""A client's message list, made whole: what the model may be asked to go on with, and how to know it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.loop import INTERRUPTED
from bank.message import Message, Role
from service.chat.schemas import MessageBody
from service.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation as the client has it, every call answered."""

    messages: tuple[Message, ...]

    @property
    def answered(self) -> int:
        """How many messages reach up to and including the last one of the assistant."""
        return max((at + 1 for at, message in enumerate(self.messages) if message.role is Role.ASSISTANT), default=0)

    @property
    def news(self) -> tuple[Message, ...]:
        """What came after the assistant's last message."""
        return self.messages[self.answered :]

    @property
    def task(self) -> str:
        """The first words of the user."""
        return next(message.content for message in self.messages if message.role is Role.USER)


def read_transcript(bodies: Sequence[MessageBody]) -> Transcript:
    """The conversation. Calls that nobody answered (the client crashed, or was cancelled) get a result that says so.

    Raises `ServiceError` 422 for what is no conversation.
    """
    messages, pending = list[Message](), dict[str, None]()
    for body in bodies:
        if body.role == "tool":
            messages.append(_result(body, pending))
            continue
        messages += _interrupted(pending)
        pending = dict.fromkeys(call.id for call in body.tool_calls or ())
        messages.append(_spoken(body, len(pending)))
    messages += _interrupted(pending)
    if not any(message.role is Role.USER for message in messages):
        raise _refused("no message is the user's")
    if messages[-1].role is Role.ASSISTANT:
        raise _refused("the last message is the assistant's: there is nothing to answer")
    return Transcript(tuple(messages))


def fingerprint(messages: Sequence[Message]) -> str:
    """The same for every way in which clients write the same conversation down: ids, spaces and key order don't count."""
    seen = [
        [message.role, message.content.strip(), [_call(call) for call in message.tool_calls]] for message in messages
    ]
    return hashlib.sha256(json.dumps(seen).encode("utf-8", "surrogatepass")).hexdigest()


def _call(call: Any) -> list[str]:
    return [call.name, json.dumps(json.loads(call.arguments), sort_keys=True)]


def _result(body: MessageBody, pending: dict[str, None]) -> Message:
    if body.tool_call_id is None or body.tool_call_id not in pending:
        raise _refused("a tool message answers no open call of the message before it")
    del pending[body.tool_call_id]
    return Message(Role.TOOL, body.text, tool_call_id=body.tool_call_id)


def _spoken(body: MessageBody, distinct: int) -> Message:
    calls = tuple(call.call() for call in body.tool_calls or ())
    if calls and (body.role != "assistant" or distinct != len(calls)):
        raise _refused("tool_calls: only an assistant's, each with an id of its own")
    role = Role.SYSTEM if body.role == "developer" else Role(body.role)
    return Message(role, body.text, calls)


def _interrupted(pending: dict[str, None]) -> list[Message]:
    return [Message(Role.TOOL, INTERRUPTED, tool_call_id=call_id) for call_id in pending]


def _refused(message: str) -> ServiceError:
    return ServiceError(422, "invalid_messages", f"messages: {message}")
