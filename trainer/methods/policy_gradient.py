"""Policy gradients from groups of rollouts of one task: GRPO, DAPO and Dr.GRPO, as pure functions.

Shape suffixes: S sampled tokens, B trajectories.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer import objective
from trainer.method_config import Aggregation

EPSILON = 1e-6
"""Added to a group's standard deviation (TRL 1e-4, verl 1e-6)."""


def group_advantages(reward_B: Tensor, groups: Sequence[str], *, scale: bool) -> Tensor:
    """A_i = r_i - mean of its group, over its standard deviation (of the sample) when `scale`, [B].

    0 for a group of one: there is nothing to compare with.
    """
    advantage_B = torch.zeros_like(reward_B)
    for member_B in _members(groups):
        rewards = reward_B[member_B]
        if len(rewards) > 1:
            deviation = rewards.std() + EPSILON if scale else 1.0
            advantage_B[member_B] = (rewards - rewards.mean()) / deviation
    return advantage_B


def mixed(reward_B: Tensor, groups: Sequence[str]) -> list[bool]:
    """Whether each trajectory's group has unequal rewards (DAPO's dynamic sampling keeps only those)."""
    kept = torch.zeros(len(reward_B), dtype=torch.bool)
    for member_B in _members(groups):
        kept[member_B] = bool(reward_B[member_B].max() > reward_B[member_B].min())
    return kept.tolist()


def surrogate(ratio_S: Tensor, advantage_S: Tensor, low: float, high: float, dual: float | None = None) -> Tensor:
    """min(ρA, clip(ρ, 1-low, 1+high) A); with `dual`, not below dual · A where A < 0. To be maximised, [S]."""
    clipped_S = ratio_S.clamp(1 - low, 1 + high)
    value_S = torch.minimum(ratio_S * advantage_S, clipped_S * advantage_S)
    if dual is None:
        return value_S
    return torch.where(advantage_S < 0, torch.maximum(value_S, dual * advantage_S), value_S)


def aggregation(trajectory_S: Tensor, kind: Aggregation, rollouts: int, constant: int) -> Tensor:
    """Weight of each token in the loss, [S]: see `GrpoConfig.aggregation`; `rollouts` counts those of the whole step."""
    if kind == "dr_grpo":
        return torch.full(trajectory_S.shape, 1 / (rollouts * constant))
    return objective.weights(trajectory_S, "token" if kind == "dapo" else "trajectory")


def overlong_punishment(length_B: Tensor, limit: int, buffer: int) -> Tensor:
    """DAPO's soft punishment, added to the reward, in [-1, 0], [B]: from `limit - buffer` on it falls, -1 beyond `limit`."""
    return -((length_B - (limit - buffer)) / buffer).clamp(0, 1)


def _members(groups: Sequence[str]) -> list[Tensor]:
    places: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        places.setdefault(group, []).append(index)
    return [torch.tensor(place) for place in places.values()]
