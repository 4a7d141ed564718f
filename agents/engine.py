"""The engine protocol: how the agent asks an explicit student version for one reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agents.adapter import AdapterRef
from agents.tools.spec import ToolSpec
from bank.message import Message


class EngineFault(Exception):
    """The engine could not answer; a boundary fault that the loop records as data."""


class Unavailable(EngineFault):
    """The engine can't be asked just now: it does not answer, is starting or ending, or is full. Later it may."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        """`retry_after`: seconds, as far as anybody knows."""
        super().__init__(message)
        self.retry_after = retry_after


class PromptTooLong(EngineFault):
    """The prompt leaves no room for a reply; asking again changes nothing."""


class UnknownVersion(EngineFault):
    """The named version is not loaded here. Never answered by another version or by the base."""


class LoadRefused(EngineFault):
    """The adapter can't be served by this engine; the message says why."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw tokens."""

    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    max_tokens: int = 256
    seed: int | None = None
    """Same seed, same prompt, same version: same tokens, whatever else shares the batch."""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One model call."""

    version: str
    """Explicit version name; "base" is a name like any other."""
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    sampling: Sampling = Sampling()


@dataclass(frozen=True, slots=True)
class Generation:
    """One reply with the evidence of who gave it."""

    version: str
    """The version that really ran, as the engine reports it."""
    prompt_ids: tuple[int, ...]
    sampled_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """log p of each sampled token at temperature 1, untruncated, in nats."""
    reply: Message
    """Parsed content and tool calls; call ids are unique within the reply's conversation."""
    finish_reason: str
    """"stop", "length"."""


class Engine(Protocol):
    """Serves several immutable student versions over one base model."""

    async def generate(self, request: GenerateRequest) -> Generation:
        """One reply. Raises `UnknownVersion`, `PromptTooLong` or another `EngineFault`."""
        ...

    async def load(self, adapter: AdapterRef) -> None:
        """Make a version resident; idempotent for the same name and digest. Raises `LoadRefused`."""
        ...

    async def unload(self, name: str) -> None:
        """Forget a version; requests already admitted finish. Unknown names are ignored."""
        ...

    async def versions(self) -> Mapping[str, str]:
        """Resident versions: name to digest, the base included."""
        ...

    async def close(self) -> None:
        """Release threads and memory."""
        ...
