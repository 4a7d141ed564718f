"""From messages and tools to the exact token ids that the model reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from agents.engine import EngineFault
from agents.tools.spec import ToolSpec
from bank.message import Message


def render(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
) -> tuple[int, ...]:
    """Prompt ids up to and including the opening of the assistant's turn. Raises `EngineFault` when the template refuses."""
    text = render_text(tokenizer, messages, tools)
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def render_text(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> str:
    """The same prompt as text."""
    try:
        text = tokenizer.apply_chat_template(
            [template_form(message) for message in messages],
            tools=[tool.to_wire() for tool in tools] or None,
            add_generation_prompt=True,
            tokenize=False,
        )
    except TemplateError as error:
        raise EngineFault(f"the chat template refuses these messages: {error}") from error
    return str(text)


def template_form(message: Message) -> dict[str, Any]:
    """OpenAI form with arguments as objects, which is what chat templates expect."""
    wire = message.to_wire()
    for call in wire.get("tool_calls", ()):
        call["function"]["arguments"] = arguments_object(call["function"]["arguments"])
    return wire


def arguments_object(text: str) -> dict[str, Any] | str:
    """The parsed object, or the text as it is when the model did not write one."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return parsed if isinstance(parsed, dict) else text
