"""GRPO (2402.03300) with DAPO (2503.14476) and Dr.GRPO (2503.20783) as options.

L = - Σ w [ min(ρA, clip(ρ) A) - β KL_k3(π_θ ‖ π_ref) ], A from the rewards of the same task's rollouts, ρ = π_θ / π_old.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agents.transformers_engine.backbone import Backbone
from bank.episode import StopReason
from trainer.batch import Batch, Strands
from trainer.method_config import GrpoConfig
from trainer.methods import divergence, policy_gradient
from trainer.methods.student_method import Losses, Plan, StudentMethod, parts_of
from trainer.roles import STUDENT
from trainer.sample import Sample
from trainer.team import ALONE, Team

REFERENCE = "reference"
TRUNCATED = {StopReason.STEP_LIMIT, StopReason.TOKEN_LIMIT, StopReason.TIME_LIMIT}


class Grpo(StudentMethod[GrpoConfig]):
    """One policy-gradient step (or `updates`) on groups of rollouts."""

    def __init__(self, backbone: Backbone, config: GrpoConfig, seed: int, team: Team = ALONE) -> None:
        super().__init__(backbone, config, seed, team)
        self._reference = self.add_follower(REFERENCE, 0.0) if config.kl > 0 else None

    @property
    def updates(self) -> int:
        """As configured."""
        return self.config.updates

    def plan(self, samples: Sequence[Sample]) -> Plan:
        """Rows whose group says something about them."""
        config = self.config
        groups = [sample.episode.task_id for sample in samples]
        reward_B = rewards(samples, config)
        kept_B = policy_gradient.mixed(reward_B, groups) if config.dynamic_sampling else [True] * len(samples)
        if config.drop_truncated:
            kept_B = [kept and s.episode.stop_reason not in TRUNCATED for kept, s in zip(kept_B, samples, strict=True)]
        advantage_B = policy_gradient.group_advantages(reward_B, groups, scale=config.scale)
        kept = [sample for sample, keep in zip(samples, kept_B, strict=True) if keep]
        counts = {"left_out": float(len(samples) - len(kept)), "tokens": 0.0}
        if not kept:
            return Plan((), counts)
        advantage_B = advantage_B[torch.tensor(kept_B)]
        trajectory_S = Strands.of(kept).trajectory_S
        weight_S = policy_gradient.aggregation(trajectory_S, config.aggregation, len(kept), config.constant_length)
        # without a KL term a token with A = 0 has no loss: its pass is saved
        used_S = weight_S if config.kl > 0 else weight_S * (advantage_B[trajectory_S] != 0)
        batches = self.batches(self.rows(kept, used_S, advantage_B[trajectory_S]))
        counts["tokens"] = float(sum(len(batch.action_S) for batch in batches))
        return Plan(parts_of(self._losses, batches), counts)

    def _losses(self, batch: Batch) -> Losses:
        config = self.config
        logp_S = self.sampled(self.passes.plain(batch, STUDENT), batch)
        reference_S = None
        if self._reference is not None:
            with torch.no_grad():
                reference_S = self.sampled(self.passes.plain(batch, self._reference), batch)
        return policy_losses(logp_S, batch, config, reference_S)


def policy_losses(logp_S: Tensor, batch: Batch, config: GrpoConfig, reference_S: Tensor | None = None) -> Losses:
    """Loss and figures of one micro-batch from the student's log-probabilities of the sampled tokens."""
    ratio_S = divergence.ratio(logp_S, batch.recorded_S)
    value_S = policy_gradient.surrogate(ratio_S, batch.advantage_S, config.clip_low, config.clip_high, config.dual_clip)
    loss = -(batch.weight_S * value_S).sum()
    found = {"ratio": batch.weight_S @ ratio_S, "student_logprob": batch.weight_S @ logp_S}
    outside_S = (ratio_S < 1 - config.clip_low) | (ratio_S > 1 + config.clip_high)
    found["clipped"] = batch.weight_S @ outside_S.float()
    if reference_S is not None:
        found["kl"] = batch.weight_S @ divergence.k3(logp_S - reference_S)
        loss = loss + config.kl * found["kl"]
    return found | {"loss": loss}


def rewards(samples: Sequence[Sample], config: GrpoConfig) -> Tensor:
    """Verified rewards, with DAPO's overlong punishment when it is on, [B]."""
    reward_B = torch.tensor([sample.episode.reward or 0.0 for sample in samples])
    if config.overlong_limit is None:
        return reward_B
    lengths = [float(sum(len(turn.sampled_ids) for turn in sample.episode.turns)) for sample in samples]
    punished = policy_gradient.overlong_punishment(torch.tensor(lengths), config.overlong_limit, config.overlong_buffer)
    return reward_B + punished
