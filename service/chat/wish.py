"""What a client wants of the reply (`tools`, `tool_choice`, `parallel_tool_calls`), and what a reply is worth against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from agents.tools.check import CallCheck, ToolError
from bank.message import Message, Role, ToolCall
from service.chat.schemas import ChatRequest, NamedChoice

TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
SECOND = "one call at a time"


class Mode(StrEnum):
    """How free the model is."""

    NONE = "none"
    AUTO = "auto"
    MUST = "must"
    """At least one call of the offered tools: `required`, or a named one, which is then the only tool offered."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reply, taken apart for client and record."""

    shown: Message
    """What the client gets."""
    answers: tuple[Message, ...]
    """Errors that answer the calls which the client does not get."""
    met: bool


class Wish:
    """The client's tools and its choice."""

    def __init__(self, request: ChatRequest) -> None:
        specs = tuple(tool.spec() for tool in request.tools or ())
        choice = request.tool_choice
        named = choice.function.name if isinstance(choice, NamedChoice) else None
        self.mode = Mode.NONE if choice == "none" else Mode.MUST if named or choice == "required" else Mode.AUTO
        self.offered = tuple(spec for spec in specs if named in (None, spec.name)) if self.mode is not Mode.NONE else ()
        self._single = request.parallel_tool_calls is False
        self._check = CallCheck([replace(spec, parameters=outline(spec.parameters)) for spec in self.offered])
        self._name_check = CallCheck([replace(spec, parameters={}) for spec in self.offered])

    def judge(self, reply: Message, *, last: bool) -> Verdict:
        """`last`: nobody asks again, so calls that only break their schema are the client's to see."""
        check = self._name_check if last else self._check
        kept, errors = list[ToolCall](), list[Message]()
        for call in reply.tool_calls:
            problem = SECOND if kept and self._single else _problem(check, call)
            if problem is None:
                kept.append(call)
            else:
                errors.append(Message(Role.TOOL, f"error: {problem}", tool_call_id=call.id))
        lost = reply.tool_calls and not kept
        met = bool(kept) or (self.mode is not Mode.MUST and (not lost or last or self.mode is Mode.NONE))
        content = "\n".join(filter(None, [reply.content, *map(_as_text, reply.tool_calls)])) if lost else reply.content
        return Verdict(Message(Role.ASSISTANT, content, tuple(kept)), tuple(errors), met)

    @property
    def reminder(self) -> Message:
        """For a model that called nothing though it must."""
        names = ", ".join(spec.name for spec in self.offered)
        return Message(Role.USER, f"Answer with a tool call. Tools: {names}")


def _problem(check: CallCheck, call: ToolCall) -> str | None:
    try:
        check.arguments(call)
    except ToolError as error:
        return str(error)
    return None


def outline(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The first level of a client's schema: names, types and enums.

    A whole schema is a program (references that double, regular expressions that backtrack) and would run in this process.
    """
    properties = schema.get("properties")
    inner = {key: _outline(value) for key, value in properties.items()} if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, Sequence) else []
    closed = schema.get("additionalProperties") is False
    return {"properties": inner, "required": names, **({"additionalProperties": False} if closed else {})}


def _outline(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {}
    kinds = value.get("type")
    listed = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    known = bool(listed) and all(isinstance(kind, str) and kind in TYPES for kind in listed)
    options = value.get("enum")
    return {
        **({"type": kinds} if known else {}),
        **({"enum": options} if isinstance(options, list) and options else {}),
    }


def _as_text(call: ToolCall) -> str:
    """A call that can't be handed on, as the words it is: nothing a model said disappears."""
    return f"{call.name} {call.arguments}".strip()
