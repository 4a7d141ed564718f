"""Guarded weight updates: nothing moves unless every gradient is there and finite."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from trainer.errors import NoGradient, NonFinite


class Learner:
    """Parameters with their AdamW and gradient clip."""

    def __init__(
        self, name: str, parameters: Sequence[nn.Parameter], learning_rate: float, weight_decay: float, clip: float
    ) -> None:
        self.name = name
        self.parameters = list(parameters)
        self.optimizer = torch.optim.AdamW(self.parameters, lr=learning_rate, weight_decay=weight_decay, fused=True)
        self._clip = clip

    def clear(self) -> None:
        """Forget gradients."""
        self.optimizer.zero_grad(set_to_none=True)

    def clip(self, *, zero: bool = False) -> float:
        """Clip the gradients and return their norm before clipping; moves no weight.

        Raises `NonFinite`, and `NoGradient` when a weight has none or, unless `zero` is allowed, when all are zero.
        """
        absent = sum(parameter.grad is None for parameter in self.parameters)
        if absent:
            raise NoGradient(f"{self.name}: {absent} of {len(self.parameters)} weights got no gradient")
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self._clip).item()
        if not math.isfinite(norm):
            raise NonFinite(f"{self.name}: gradient norm is {norm}")
        if norm == 0 and not zero:
            raise NoGradient(f"{self.name}: the gradient is exactly zero")
        return norm

    def step(self) -> None:
        """Move the weights; call `clip` of every learner first."""
        self.optimizer.step()
        self.clear()
