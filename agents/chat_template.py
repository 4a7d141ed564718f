"""ChatTemplate: messages and tools to the exact token ids that the model reads, and its tokens back to text. Torch-free.

Renders what `transformers` would (same sandbox, same options); `tests/agents/test_chat_template.py` compares the two. A
server that renders by itself would refuse arguments that are no JSON, and could have another template.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from agents.engine import EngineFault
from agents.tools.spec import ToolSpec
from bank.message import Message

NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""Entries of tokenizer_config.json that templates may mention."""


class ChatTemplate:
    """Tokenizer and template of one model folder."""

    def __init__(self, folder: Path) -> None:
        """Raises `FileNotFoundError` when tokenizer or template are missing, `jinja2.TemplateError` for a broken template."""
        self._tokenizer = Tokenizer.from_file(_existing(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        config = json.loads(Path(_existing(folder / "tokenizer_config.json")).read_bytes())
        self._named = {name: _text(config[name]) for name in NAMED_TOKENS if config.get(name)}
        self._template = _environment().from_string(Path(_existing(folder / "chat_template.jinja")).read_text("utf-8"))

    @property
    def end_id(self) -> int | None:
        """The tokenizer's own end token."""
        end = self._named.get("eos_token")
        return None if end is None else self._tokenizer.token_to_id(end)

    @property
    def vocabulary(self) -> int:
        """Number of token ids, added ones included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> tuple[int, ...]:
        """Prompt ids up to and including the opening of the assistant's turn. Raises `EngineFault` when the template refuses."""
        return tuple(self._tokenizer.encode(self.render_text(messages, tools), add_special_tokens=False).ids)

    def render_text(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> str:
        """The same prompt as text."""
        try:
            return self._template.render(
                messages=[template_form(message) for message in messages],
                tools=[tool.to_wire() for tool in tools] or None,
                documents=None,
                add_generation_prompt=True,
                **self._named,
            )
        except TemplateError as error:
            raise EngineFault(f"the chat template refuses these messages: {error}") from error

    def decode(self, ids: Sequence[int]) -> str:
        """Text of these tokens, special ones included."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))


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


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _refuse
    return environment


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:
    # Jinja's own filter escapes HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **more)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _text(token: Any) -> str:
    """A named token is stored as its text, or as an object with it."""
    return str(token["content"]) if isinstance(token, dict) else str(token)


def _existing(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent.name}: no {path.name}")
    return str(path)
