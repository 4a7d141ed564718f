"""Method: what a round needs from any way of learning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from trainer.sample import Sample


class Method(Protocol):
    """Owns the student's weights while a round lasts."""

    @property
    def references(self) -> int:
        """Retrieved experiences of other tasks that every sample must carry; 0 when none are needed."""
        ...

    def load_student(self, folder: Path) -> None:
        """Start from a published adapter. Raises KeyError or ValueError when its shape isn't the configured student's."""
        ...

    def step(self, samples: Sequence[Sample], successes: Sequence[Sample] = ()) -> dict[str, float]:
        """One step from judged rollouts; `successes` (verified, from the bank) serve those that replay.

        Returns the figures of the step; without anything to learn from, counts only, and nothing has moved.
        Raises `trainer.errors.LearningError` before any weight moves.
        """
        ...

    def log_ratios(self, samples: Sequence[Sample]) -> Tensor:
        """Log π_θ(τ) - log π_recorded(τ) of each sample in nats, [B]; changes nothing."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, as copies; `torch.save` can write it."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of `state`."""
        ...
