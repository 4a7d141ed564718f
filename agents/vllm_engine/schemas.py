"""What vLLM's server answers, as far as it is read. Unknown fields are ignored: they change with every release."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Read(BaseModel):
    """An answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Card(Read):
    """One entry of /v1/models: the base, or a loaded version."""

    id: str
    root: str | None = None
    """Folder that it was loaded from, as the server sees it."""
    parent: str | None = None
    """None for a base model."""
    max_model_len: int | None = None


class Cards(Read):
    """GET /v1/models."""

    data: tuple[Card, ...]


class Logprobs(Read):
    """Of sampled tokens, nats."""

    token_logprobs: tuple[float, ...]


class Choice(Read):
    """One reply, or a piece of one."""

    text: str = ""
    token_ids: tuple[int, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None
    prompt_logprobs: tuple[dict[int, PromptLogprob] | None, ...] | None = None


class PromptLogprob(Read):
    """Of one candidate at one position of the prompt."""

    logprob: float


class Completion(Read):
    """POST /v1/completions, or one event of its stream."""

    model: str
    choices: tuple[Choice, ...]


class Trouble(Read):
    """The body of an error; vLLM's own has `error`, its web framework's has `detail`."""

    error: dict[str, Any] | None = None
    detail: Any = None

    @property
    def message(self) -> str:
        """For people."""
        return str((self.error or {}).get("message") or self.detail or "")
