"""Rounds over the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from bank.round import Round, RoundStatus, RoundStep
from service.wire import ReplyBody, RequestBody


class RoundRequest(RequestBody):
    """A round to start now."""

    config: dict[str, Any] = Field(default_factory=dict)
    """Overrides of the trainer's configuration; the trainer checks them, and a wrong one fails the round."""


class RoundReply(ReplyBody):
    """One round."""

    id: str
    slot: str
    status: RoundStatus
    phase: str
    created_at: datetime
    config: dict[str, Any]
    parent: str
    attempts: int
    snapshot: dict[str, Any]
    candidate: str | None
    error: str | None
    finished_at: datetime | None

    @classmethod
    def of(cls, row: Round) -> RoundReply:
        """The row without its lease."""
        return cls(**_fields(row))


class StepReply(ReplyBody):
    """What one training step measured."""

    step: int
    rollouts: int
    metrics: dict[str, float]
    created_at: datetime


class RoundProgress(RoundReply):
    """One round with its steps."""

    steps: list[StepReply]

    @classmethod
    def with_steps(cls, row: Round, steps: tuple[RoundStep, ...]) -> RoundProgress:
        """The row and its steps in order."""
        return cls(**_fields(row), steps=[_step(step) for step in steps])


class RoundList(ReplyBody):
    """Newest first."""

    rounds: list[RoundReply]


def _fields(row: Round) -> dict[str, Any]:
    fields = {name: getattr(row, name) for name in RoundReply.model_fields}
    return {**fields, "config": dict(row.config), "snapshot": dict(row.snapshot)}


def _step(step: RoundStep) -> StepReply:
    return StepReply(step=step.step, rollouts=step.rollouts, metrics=dict(step.metrics), created_at=step.created_at)
