"""From messages and tools to the exact token ids that the model reads."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from agents.chat_template import template_form
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
