"""OpenAI's chat wire, as far as this service means it.

What would change the answer and can't be done here is refused by name; what only concerns accounting is accepted. A message
may carry any further fields: clients send back what a reply of theirs had.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from agents.engine import Sampling
from agents.tools.spec import ToolSpec
from bank.message import ToolCall
from service.runs.schemas import MOST_REPLY, SEED_BITS
from service.wire import ReplyBody, RequestBody

MOST_MESSAGES, MOST_TOOLS, MOST_CALLS, LONGEST_TEXT = 512, 128, 64, 400_000
NAME = r"^[a-zA-Z0-9_-]{1,64}$"
ToolName = Annotated[str, Field(pattern=NAME)]
Id = Annotated[str, Field(min_length=1, max_length=200)]
MetaKey = Annotated[str, Field(max_length=64)]
MetaValue = Annotated[str, Field(max_length=512)]


class Carried(RequestBody):
    """Parts of messages: unknown fields are what the client's library adds, and are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, frozen=True)


class TextPart(Carried):
    """One piece of a message; this service reads text only."""

    type: Literal["text"]
    text: Annotated[str, Field(max_length=LONGEST_TEXT)]


class FunctionBody(Carried):
    """The function of a call."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    arguments: Annotated[str, Field(max_length=LONGEST_TEXT)] = "{}"

    @field_validator("arguments")
    @classmethod
    def _holds_object(cls, value: str) -> str:
        """A string in the API, an object in the template (vLLM and Qwen disagree on anything else)."""
        if not _is_object(value or "{}"):
            raise ValueError("arguments must be the JSON text of an object")
        return value or "{}"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


class CallBody(Carried):
    """A call that an assistant made."""

    id: Id
    type: Literal["function"] = "function"
    function: FunctionBody

    def call(self) -> ToolCall:
        """As the agent keeps it."""
        return ToolCall(self.id, self.function.name, self.function.arguments)


class MessageBody(Carried):
    """One message; content may be text, parts, null, or absent."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: (
        Annotated[str, Field(max_length=LONGEST_TEXT)] | Annotated[list[TextPart], Field(max_length=256)] | None
    ) = None
    tool_calls: Annotated[list[CallBody], Field(max_length=MOST_CALLS)] | None = None
    tool_call_id: Id | None = None

    @property
    def text(self) -> str:
        """The content as one text."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class FunctionSpec(RequestBody):
    """A tool of the client."""

    name: ToolName
    description: Annotated[str, Field(max_length=20_000)] | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolBody(RequestBody):
    """A declared tool."""

    type: Literal["function"]
    function: FunctionSpec

    def spec(self) -> ToolSpec:
        """As the model is told."""
        parameters = self.function.parameters or {"type": "object", "properties": {}}
        return ToolSpec(self.function.name, self.function.description or "", parameters)


class NamedFunction(RequestBody):
    """The function of a named choice."""

    name: ToolName


class NamedChoice(RequestBody):
    """Exactly this tool is to be called."""

    type: Literal["function"]
    function: NamedFunction


class StreamOptions(RequestBody):
    """How to stream."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class ResponseFormat(RequestBody):
    """Free text only."""

    type: Literal["text"]


class ChatRequest(RequestBody):
    """A request for the next message of a conversation."""

    model: Annotated[str, Field(min_length=1, max_length=200)]
    messages: Annotated[list[MessageBody], Field(min_length=1, max_length=MOST_MESSAGES)]
    tools: Annotated[list[ToolBody], Field(max_length=MOST_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedChoice | None = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MOST_REPLY)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=MOST_REPLY)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**SEED_BITS)] | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = None
    """One answer a request."""
    stop: Annotated[list[str], Field(max_length=0)] | None = None
    """A reply ends where the model ends it."""
    logprobs: Literal[False] | None = None
    presence_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    frequency_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    response_format: ResponseFormat | None = None
    store: bool | None = None
    """False: nothing of it is recorded, so it can't be judged and never trains."""
    metadata: Annotated[dict[MetaKey, MetaValue], Field(max_length=16)] | None = None
    """`episode_id` joins a conversation, as the header `X-Episode-Id` does."""
    user: Annotated[str, Field(max_length=512)] | None = None
    safety_identifier: Annotated[str, Field(max_length=512)] | None = None
    prompt_cache_key: Annotated[str, Field(max_length=512)] | None = None
    service_tier: Annotated[str, Field(max_length=64)] | None = None
    reasoning_effort: Annotated[str, Field(max_length=64)] | None = None

    @model_validator(mode="after")
    def _choice_exists(self) -> Self:
        names = [tool.function.name for tool in self.tools or ()]
        if len(set(names)) != len(names):
            raise ValueError("tools: two have the same name")
        if isinstance(self.tool_choice, NamedChoice) and self.tool_choice.function.name not in names:
            raise ValueError("tool_choice: names a tool that is not declared")
        if self.tool_choice == "required" and not names:
            raise ValueError("tool_choice: required without tools")
        return self

    def sampling(self) -> Sampling:
        """As the engine takes it."""
        given: dict[str, Any] = {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed}
        given["max_tokens"] = self.max_completion_tokens or self.max_tokens
        return Sampling(**{name: value for name, value in given.items() if value is not None})


class Usage(ReplyBody):
    """Tokens that this request read and wrote, corrections included."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Choice(ReplyBody):
    """The answer."""

    index: int = 0
    message: dict[str, Any]
    finish_reason: Literal["stop", "length", "tool_calls"]
    logprobs: None = None


class ChatReply(ReplyBody):
    """The next message."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    """The exact version that gave every token of the answer."""
    system_fingerprint: str
    """Digest of that version."""
    choices: list[Choice]
    usage: Usage
    episode_id: str | None
    """What to judge with `/feedback`; null when nothing was stored."""
