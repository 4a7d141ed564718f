"""The environment protocol: resettable worlds with programmatic verdicts."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agents.tools.spec import ToolSpec
from bank.episode import Split
from bank.message import Message


class EnvironmentFault(Exception):
    """The world itself failed (not the agent); the loop records it and gives no reward."""


@dataclass(frozen=True, slots=True)
class Task:
    """One resettable task."""

    id: str
    suite: str
    split: Split
    text: str
    """What the user says."""
    payload: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What `reset` needs (EnvScaler scenario: init_config, checklist)."""


class Session(Protocol):
    """One running instance of a world."""

    opening: tuple[Message, ...]
    """Messages before the first turn; the last one is the user's."""
    tools: tuple[ToolSpec, ...]

    def call(self, name: str, arguments: Mapping[str, Any]) -> str | Awaitable[str]:
        """Run one tool that exists; returns the observation, or what to await for it where a tool waits.

        Any exception is a tool error for the model, except `EnvironmentFault`.
        """
        ...

    def verify(self) -> float | None:
        """Reward in [0, 1] of the state reached so far; None where nothing can judge (a user's own request)."""
        ...


class Environment(Protocol):
    """A suite of tasks."""

    name: str

    def tasks(self, split: Split) -> Sequence[Task]:
        """All tasks of a split, in a fixed order."""
        ...

    def task(self, task_id: str) -> Task:
        """One task. Raises KeyError."""
        ...

    def reset(self, task: Task) -> Session:
        """A fresh session; sessions share nothing."""
        ...

    def live(self, text: str) -> Session:
        """A fresh session for a user's own words; nothing verifies it, so only feedback can reward it."""
        ...
