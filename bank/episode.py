"""Episode: one run of the agent on one task, with the exact tokens that were sampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from bank.message import Message


class StopReason(StrEnum):
    """Why a run ended."""

    FINISHED = "finished"
    """The model answered without asking for a tool."""
    STEP_LIMIT = "step_limit"
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - tokens of text, no secret
    TIME_LIMIT = "time_limit"
    REPEATED = "repeated"
    """The same calls kept giving the same results (repeat and cycle guard)."""
    WAITING = "waiting"
    """The caller has the next word: it holds tool calls that it has not answered yet."""
    CANCELLED = "cancelled"
    FAULT = "fault"
    """A boundary (engine, environment, verifier) failed; `Episode.fault` names it."""


class Split(StrEnum):
    """Which side of the evaluation wall a task stands on."""

    TRAIN = "train"
    HELD_OUT = "held_out"
    """Never enters the bank, never trains."""
    LIVE = "live"
    """A user's own request; no suite behind it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One model call and what its tools answered."""

    prompt_ids: tuple[int, ...]
    """Exact prompt tokens that the engine consumed."""
    sampled_ids: tuple[int, ...]
    """Exact sampled tokens, the end-of-turn token included when it was sampled."""
    logprobs: tuple[float, ...]
    """Log-probability (nats) of each sampled token under the version that sampled it, at temperature 1."""
    reply: Message
    observations: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Episode:
    """One run as it is recorded."""

    id: str
    created_at: datetime
    task_id: str
    suite: str
    """Suite name, or "live" for a user's own request."""
    split: Split
    task: str
    """The text of the first user message."""
    policy: str
    """Version name that produced every turn; "base" is a name like any other."""
    digest: str
    """Content digest of that version."""
    opening: tuple[Message, ...]
    """Messages before the first turn."""
    turns: tuple[Turn, ...]
    stop_reason: StopReason
    reward: float | None = None
    """The environment's verdict in [0, 1]; None when nothing verified the run."""
    fault: str | None = None
    owner: str | None = None
    """Id of the API key that asked for the run."""
    whole_results: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Tool results that were cut for the prompt, by call id; written with the episode, read one by one."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole conversation, in order."""
        tail = [message for turn in self.turns for message in (turn.reply, *turn.observations)]
        return (*self.opening, *tail)
