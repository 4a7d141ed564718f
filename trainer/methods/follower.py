"""Follower: a copy of the student that stays where it was, or comes after it as a moving average."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.config import StudentConfig
from trainer.roles import STUDENT, Roles, copied


class Follower:
    """An adapter of the student's shape, never trained.

    The average is taken of the two LoRA factors. They begin as a copy of the student's own, A included, so the product
    follows at the rate asked for to first order; averages that begin at zero (a fresh adapter) lag quadratically.
    """

    def __init__(self, roles: Roles, name: str, student: StudentConfig, seed: int, rate: float) -> None:
        self.name = name
        self._roles = roles
        self._rate = rate
        roles.add(name, student.rank, student.alpha, seed, trained=False)
        self.begin()

    def begin(self) -> None:
        """Become the student as it is now."""
        self._mix(1.0)

    def follow(self) -> None:
        """After a step: φ ← rate · θ + (1 - rate) · φ."""
        if self._rate > 0:
            self._mix(self._rate)

    def weights(self) -> dict[str, Tensor]:
        """Copies."""
        return copied(self._roles.parameters(self.name))

    def load(self, weights: dict[str, Tensor]) -> None:
        """Inverse of `weights`."""
        self._roles.load(self.name, weights)

    @torch.no_grad()
    def _mix(self, rate: float) -> None:
        student = self._roles.parameters(STUDENT)
        for key, weight in self._roles.parameters(self.name).items():
            weight.lerp_(student[key.replace(f".{self.name}.", f".{STUDENT}.")], rate)
