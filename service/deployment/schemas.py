"""The deployment over the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from bank.deployment import Deployment
from service.replica import Replica
from service.wire import ReplyBody, RequestBody

LONGEST_REASON = 1_000
Reason = Annotated[str, Field(max_length=LONGEST_REASON)]
Generation = Annotated[int, Field(ge=0)]


class PromoteRequest(RequestBody):
    """A version that shall answer from now on."""

    checkpoint: Annotated[str, Field(min_length=1, max_length=200)]
    reason: Reason = ""
    expected_generation: Generation | None = None
    """Refuse when somebody moved the pointer since this generation."""


class RollbackRequest(RequestBody):
    """Back to the version before."""

    reason: Reason = ""
    expected_generation: Generation | None = None


class ReplicaReply(ReplyBody):
    """One engine."""

    name: str
    versions: dict[str, str]
    """Resident versions, name to digest."""
    runs: dict[str, int]
    """Runs in progress by version."""
    ready: bool
    """Whether it holds and has proven the live version."""

    @classmethod
    def of(cls, replica: Replica, *, ready: bool) -> ReplicaReply:
        """What the service knows of it."""
        runs = {name: count for name, count in replica.leases.items() if count}
        return cls(name=replica.name, versions=dict(replica.resident), runs=runs, ready=ready)


class FlipReply(ReplyBody):
    """One position of the pointer."""

    generation: int
    current: str
    previous: str | None
    actor: str
    reason: str
    changed_at: datetime

    @classmethod
    def of(cls, row: Deployment) -> FlipReply:
        """The row."""
        return cls(**{name: getattr(row, name) for name in FlipReply.model_fields})


class DeploymentReply(FlipReply):
    """Where the pointer is."""

    rollback_to: str | None
    """The version that a rollback goes to."""
    replicas: list[ReplicaReply]


class History(ReplyBody):
    """Newest first."""

    history: list[FlipReply]
