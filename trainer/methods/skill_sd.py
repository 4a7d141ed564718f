"""Skill-SD (2604.10674): GRPO + λ Σ ρ (e^(-l) - 1 + l), l = log π_θ(y|x) - log π_θ̄(y|x, skill), ρ = π_θ/π_old differentiable.

With ρ in the graph the k3 term's gradient is the reverse-KL gradient E[l ∇log π]; without it, it would be the forward one.
The teacher is the student itself before the step (hard sync). Skills compete by UCB1. Ours, for want of a source: a skill
is the trace of one of the bank's successes, and its pay is the mean reward of its task's rollouts when the task comes up again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from agents.transformers_engine.backbone import Backbone
from trainer.batch import Pair, Strands
from trainer.method_config import GrpoConfig, SkillSdConfig
from trainer.methods import context, divergence, policy_gradient
from trainer.methods.context import Opening
from trainer.methods.grpo import policy_losses
from trainer.methods.student_method import Losses, Plan, parts_of
from trainer.methods.text_method import TextMethod, coverage
from trainer.roles import STUDENT
from trainer.sample import Sample
from trainer.team import ALONE, Team


class SkillSd(TextMethod[SkillSdConfig]):
    """A policy-gradient step with a pull towards the self that reads a skill."""

    def __init__(self, backbone: Backbone, config: SkillSdConfig, seed: int, team: Team = ALONE) -> None:
        super().__init__(backbone, config, seed, team)
        self.references = config.arms
        self._bandits: dict[str, Bandit] = {}
        self._policy = GrpoConfig(clip_low=config.clip_low, clip_high=config.clip_high)

    def words(self, opening: Opening, document: str) -> Opening:
        """The skill before the first user message."""
        return context.skill(opening, document)

    def plan(self, samples: Sequence[Sample]) -> Plan:
        """Every rollout, with one skill for each task."""
        groups = [sample.episode.task_id for sample in samples]
        reward_B = torch.tensor([sample.episode.reward or 0.0 for sample in samples])
        chosen = {group: self._choose(group, samples, reward_B) for group in dict.fromkeys(groups)}
        openings = [self.worded(sample.episode.opening, chosen[sample.episode.task_id]) for sample in samples]
        strands = Strands.of(samples)
        advantage_B = policy_gradient.group_advantages(reward_B, groups, scale=True)
        weight_S = policy_gradient.aggregation(strands.trajectory_S, "grpo", len(samples), 1)
        rows = self.rows(samples, weight_S, advantage_B[strands.trajectory_S])
        pairs = self.pairs(rows, self.text.twins(rows, samples, openings))
        per_token = 1 / len(weight_S)
        return Plan(parts_of(lambda pair: self._losses(pair, per_token), pairs), coverage(samples, samples))

    def _choose(self, task: str, samples: Sequence[Sample], reward_B: Tensor) -> str:
        mine = [index for index, sample in enumerate(samples) if sample.episode.task_id == task]
        bandit = self._bandits.setdefault(task, Bandit())
        bandit.pay(reward_B[mine].mean().item())
        skills = {experience.id: experience.document for experience in samples[mine[0]].references}
        return skills[bandit.choose(list(skills), self.config.exploration)]

    def _losses(self, pair: Pair, per_token: float) -> Losses:
        batch = pair.student
        with torch.no_grad():
            teacher_S = self.sampled(self.passes.plain(pair.teacher, STUDENT), pair.teacher)
        logp_S = self.sampled(self.passes.plain(batch, STUDENT), batch)
        found = dict(policy_losses(logp_S, batch, self._policy))
        distilled = per_token * weighted_k3(logp_S, teacher_S, batch.recorded_S).sum()
        return found | {"loss": found["loss"] + self.config.weight * distilled, "distillation": distilled}

    def extra(self) -> dict[str, Any]:
        """The bandits."""
        return {task: bandit.wire() for task, bandit in self._bandits.items()}

    def restore_extra(self, extra: Mapping[str, Any]) -> None:
        """Inverse of `extra`."""
        self._bandits = {task: Bandit(**wire) for task, wire in extra.items()}


def weighted_k3(logp_S: Tensor, teacher_S: Tensor, recorded_S: Tensor) -> Tensor:
    """ρ (e^(-l) - 1 + l) with gradients through ρ and l, [S] (eq. 12)."""
    return divergence.ratio(logp_S, recorded_S) * divergence.k3(logp_S - teacher_S.detach())


class Bandit:
    """UCB1 over one task's skills."""

    def __init__(
        self, plays: dict[str, int] | None = None, total: dict[str, float] | None = None, last: str | None = None
    ) -> None:
        self.plays = dict(plays or {})
        self.total = dict(total or {})
        self.last = last

    def choose(self, arms: Sequence[str], exploration: float) -> str:
        """An arm never tried, else the largest mean + c √(ln N / n); the first of equals."""
        rounds = sum(self.plays.values())

        def worth(arm: str) -> float:
            plays = self.plays.get(arm, 0)
            if plays == 0:
                return math.inf
            return self.total[arm] / plays + exploration * math.sqrt(math.log(rounds) / plays)

        self.last = max(arms, key=worth)
        return self.last

    def pay(self, reward: float) -> None:
        """What the arm chosen last was good for; nothing before the first choice."""
        if self.last is not None:
            self.plays[self.last] = self.plays.get(self.last, 0) + 1
            self.total[self.last] = self.total.get(self.last, 0.0) + reward

    def wire(self) -> dict[str, Any]:
        """Plain values, for the resume file."""
        return {"plays": dict(self.plays), "total": dict(self.total), "last": self.last}
