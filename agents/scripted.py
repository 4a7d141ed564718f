"""ScriptedEngine: a deterministic engine without a model, for tests and dry runs.

Its tokens are the words, spaces and signs of the reply. It honours versions, token limits and in-flight
unloading as the real engines do; `tests/agents/engine_contract.py` holds it to that.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence

from agents.adapter import AdapterRef
from agents.engine import EngineFault, GenerateRequest, Generation, LoadRefused, PromptTooLong, UnknownVersion
from agents.parsing.hermes import parse
from bank.message import Message, Role

BASE = "base"
BASE_DIGEST = "0" * 64
VOCABULARY = 50_000

Answer = Callable[[GenerateRequest], str | Awaitable[str]]
"""The reply's text, tool calls in Hermes form; may wait."""

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


class ScriptedEngine:
    """An `agents.engine.Engine` that answers from a list (one text a turn) or a function."""

    def __init__(
        self, script: Sequence[str] | Answer, versions: Mapping[str, str] | None = None, context: int | None = None
    ) -> None:
        """`context`: most tokens of a prompt; None is no bound."""
        self.requests: list[GenerateRequest] = []
        """Every admitted request, in order of arrival."""
        self._script = script
        self._versions = {BASE: BASE_DIGEST, **(versions or {})}
        self._context = context
        self._closed = False

    async def generate(self, request: GenerateRequest) -> Generation:
        """The scripted reply, cut to `max_tokens`. A list's text `i` answers turn `i` of any conversation."""
        if self._closed:
            raise EngineFault("the engine is closed")
        if request.version not in self._versions:
            raise UnknownVersion(f"{request.version} is not loaded; loaded: {', '.join(self._versions)}")
        self._require_room(request)
        self.requests.append(request)
        await asyncio.sleep(0)
        return _generation(request, await self._text(request))

    async def load(self, adapter: AdapterRef) -> None:
        """Make a version known; its folder is not read."""
        if self._versions.setdefault(adapter.name, adapter.digest) != adapter.digest:
            raise LoadRefused(f"{adapter.name} is loaded with another digest")

    async def unload(self, name: str) -> None:
        """Forget a version. The base stays."""
        if name != BASE:
            self._versions.pop(name, None)

    async def versions(self) -> Mapping[str, str]:
        """Name to digest."""
        return dict(self._versions)

    async def close(self) -> None:
        """Refuse further requests."""
        self._closed = True

    def _require_room(self, request: GenerateRequest) -> None:
        size = len(_prompt_ids(request))
        if self._context is not None and size >= self._context:
            raise PromptTooLong(f"the prompt's {size} tokens leave no room in a context of {self._context}")

    async def _text(self, request: GenerateRequest) -> str:
        if callable(self._script):
            text = self._script(request)
            return await text if inspect.isawaitable(text) else text
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        if turn >= len(self._script):
            raise EngineFault(f"the script ends before turn {turn}")
        return self._script[turn]


def _generation(request: GenerateRequest, text: str) -> Generation:
    tokens = _TOKEN.findall(text)
    sampled = tokens[: request.sampling.max_tokens]
    finished = len(sampled) < request.sampling.max_tokens
    ids = (*map(_id, sampled), *([0] if finished else []))
    parsed = parse("".join(sampled))
    return Generation(
        version=request.version,
        prompt_ids=_prompt_ids(request),
        sampled_ids=ids,
        logprobs=tuple(-1.0 / (1 + number) for number in ids),
        reply=Message(Role.ASSISTANT, parsed.content, parsed.tool_calls),
        finish_reason="stop" if finished else "length",
    )


def _prompt_ids(request: GenerateRequest) -> tuple[int, ...]:
    return tuple(_id(token) for message in request.messages for token in _prompt(message))


def _prompt(message: Message) -> list[str]:
    calls = [part for call in message.tool_calls for part in (call.name, call.arguments)]
    return _TOKEN.findall(" ".join([message.role.value, message.content, *calls]))


def _id(token: str) -> int:
    """Stable across processes; 0 is the end of a turn."""
    return 1 + zlib.crc32(token.encode("utf-8", "replace")) % (VOCABULARY - 1)
