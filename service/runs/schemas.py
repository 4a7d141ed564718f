"""Runs over the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from agents.engine import Sampling
from agents.limits import Limits
from bank.episode import Episode, StopReason, Turn
from bank.feedback import Feedback
from service.feedback.schemas import FeedbackReply
from service.wire import ReplyBody, RequestBody

MOST_STEPS, MOST_TOKENS, MOST_SECONDS, MOST_REPLY = 64, 65_536, 600.0, 4_096
LONGEST_INPUT = 32_000
SEED_BITS = 63


class LimitsBody(RequestBody):
    """Caps of one run; a field that is left out has the service's default."""

    steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] = Limits().steps
    tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = Limits().tokens
    seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS)] = Limits().seconds

    def limits(self) -> Limits:
        """As the loop takes them."""
        return Limits(steps=self.steps, tokens=self.tokens, seconds=self.seconds)


class SamplingBody(RequestBody):
    """How to draw tokens."""

    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_tokens: Annotated[int, Field(ge=1, le=MOST_REPLY)] = Sampling().max_tokens
    seed: Annotated[int, Field(ge=0, lt=2**SEED_BITS)] | None = None

    def sampling(self) -> Sampling:
        """As the loop takes it."""
        return Sampling(**self.model_dump())


class RunRequest(RequestBody):
    """A task of a suite, or a user's own words."""

    task_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    input: Annotated[str, Field(min_length=1, max_length=LONGEST_INPUT)] | None = None
    environment: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """Suite spec such as "order_desk:7"; the service's own when left out."""
    toolset: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """Work on `input` with these tools instead of an environment's."""
    limits: LimitsBody = LimitsBody()
    sampling: SamplingBody = SamplingBody()
    stream: bool = False
    """Answer with server-sent events: `run`, `step`..., then `done` or `error`."""

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.task_id is None) == (self.input is None):
            raise ValueError("give exactly one of task_id and input")
        if self.input is not None and not self.input.strip():
            raise ValueError("input is blank")
        if self.toolset is not None and (self.input is None or self.environment is not None):
            raise ValueError("a toolset goes with input, and not with an environment")
        return self


class Policy(ReplyBody):
    """The exact version that gave every turn of the answer."""

    checkpoint: str
    digest: str


class Usage(ReplyBody):
    """Tokens of all model calls."""

    prompt_tokens: int
    completion_tokens: int


class Step(ReplyBody):
    """One model call and what its tools answered, in OpenAI's message form."""

    reply: dict[str, Any]
    observations: list[dict[str, Any]]

    @classmethod
    def of(cls, turn: Turn) -> Step:
        """The turn without its tokens."""
        return cls(reply=turn.reply.to_wire(), observations=[message.to_wire() for message in turn.observations])


class WholeResult(ReplyBody):
    """A tool's result that was too long for the prompt, up to a million characters of it."""

    call_id: str
    text: str


class RunStarted(ReplyBody):
    """First event of a stream."""

    id: str
    policy: Policy


class RunReply(ReplyBody):
    """A recorded run."""

    id: str
    created_at: datetime
    task_id: str
    output: str
    """The model's final answer; empty when the run was stopped before one."""
    steps: list[Step]
    stop_reason: StopReason
    reward: float | None
    """Verified by the environment; null when nothing could verify it."""
    usage: Usage
    policy: Policy
    fault: str | None
    """What failed when `stop_reason` is "fault"."""

    @classmethod
    def of(cls, episode: Episode) -> RunReply:
        """The episode as its owner sees it."""
        return cls(**_fields(episode))


class RunRecord(RunReply):
    """A recorded run with what was said about it."""

    feedback: list[FeedbackReply]

    @classmethod
    def with_feedback(cls, episode: Episode, feedback: tuple[Feedback, ...]) -> RunRecord:
        """The episode and its verdicts, retracted ones included."""
        return cls(**_fields(episode), feedback=[FeedbackReply.of(row) for row in feedback])


class RunList(ReplyBody):
    """Newest first."""

    runs: list[RunReply]


def _fields(episode: Episode) -> dict[str, Any]:
    prompt = sum(len(turn.prompt_ids) for turn in episode.turns)
    completion = sum(len(turn.sampled_ids) for turn in episode.turns)
    finished = episode.stop_reason is StopReason.FINISHED
    return {
        "id": episode.id,
        "created_at": episode.created_at,
        "task_id": episode.task_id,
        "output": episode.turns[-1].reply.content if finished and episode.turns else "",
        "steps": [Step.of(turn) for turn in episode.turns],
        "stop_reason": episode.stop_reason,
        "reward": episode.reward,
        "usage": Usage(prompt_tokens=prompt, completion_tokens=completion),
        "policy": Policy(checkpoint=episode.policy, digest=episode.digest),
        "fault": episode.fault,
    }
