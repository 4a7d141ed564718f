"""Feedback over the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bank.feedback import Feedback
from service.wire import ReplyBody, RequestBody

LONGEST_COMMENT = 10_000
LONGEST_KEY = 255
THUMBS = {"up": 1.0, "down": 0.0}


class FeedbackRequest(RequestBody):
    """One verdict: a number from 0 to 1, or a thumb."""

    episode_id: Annotated[str, Field(min_length=1, max_length=100)]
    value: Annotated[float, Field(ge=0, le=1)] | None = None
    thumbs: Literal["up", "down"] | None = None
    metric: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = "success"
    comment: Annotated[str, Field(max_length=LONGEST_COMMENT)] = ""
    idempotency_key: Annotated[str, Field(min_length=1, max_length=LONGEST_KEY)] | None = None
    """The same key and body get the same reply and have one effect; another body is refused."""

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.value is None) == (self.thumbs is None):
            raise ValueError("give exactly one of value and thumbs")
        return self

    @property
    def verdict(self) -> float:
        """The number, without a negative zero."""
        return (THUMBS[self.thumbs] if self.thumbs is not None else self.value or 0.0) + 0.0


class FeedbackReply(ReplyBody):
    """A stored verdict."""

    id: str
    episode_id: str
    value: float
    metric: str
    comment: str
    trusted: bool
    """Whether it may make a success an experience."""
    idempotency_key: str | None
    created_at: datetime
    retracted_at: datetime | None

    @classmethod
    def of(cls, row: Feedback) -> FeedbackReply:
        """The row without its rater."""
        return cls(**{name: getattr(row, name) for name in cls.model_fields})
