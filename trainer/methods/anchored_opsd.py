"""OPSD with a canonical-context anchor (2608.07935), RECONSTRUCTED FROM ITS ABSTRACT: the formula below is ours.

Published: beside rollout-conditioned matching, supervised cross-entropy on canonical ground-truth contexts (target tokens
after the target's own prefix), weakened where the rollout agrees with the target token for token. Ours:

    L = L_OPSD + λ · mean over rollouts with a target of (1/|y*|) Σ_t (1 - a_t) [-log π_θ(y*_t | x, y*_<t)]
    a_t = 1 where the rollout's t-th sampled token is the target's, else 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from bank.episode import Episode
from trainer.batch import Batch
from trainer.method_config import AnchoredOpsdConfig
from trainer.methods.opsd import Opsd
from trainer.methods.student_method import Losses, Plan, parts_of
from trainer.methods.text_method import trajectory_weights
from trainer.roles import STUDENT
from trainer.sample import Sample


class AnchoredOpsd(Opsd):
    """One step towards the teacher, and towards the target itself where the rollout strays from it."""

    config: AnchoredOpsdConfig

    def plan(self, samples: Sequence[Sample]) -> Plan:
        """OPSD's micro-batches, then those of the canonical trajectories."""
        matched = super().plan(samples)
        targets = [replace(sample, episode=sample.canonical) for sample in samples if sample.canonical is not None]
        rollouts = [sample.episode for sample in samples if sample.canonical is not None]
        if not targets:
            return replace(matched, counts={**matched.counts, "targets": 0.0})
        apart_S = torch.cat([strayed(one, other.episode) for one, other in zip(rollouts, targets, strict=True)])
        weight_S = self.config.anchor_weight * trajectory_weights(targets) * apart_S
        parts = [*matched.parts, *parts_of(self._anchor, self.batches(self.rows(targets, weight_S)))]
        return Plan(parts, {**matched.counts, "targets": float(len(targets))})

    def _anchor(self, batch: Batch) -> Losses:
        logp_S = self.sampled(self.passes.plain(batch, STUDENT), batch)
        anchor = -(batch.weight_S * logp_S).sum()
        return {"loss": anchor, "anchor": anchor}


def strayed(rollout: Episode, target: Episode) -> Tensor:
    """1 - a_t for each sampled token of the target, [S]."""
    ours, theirs = ([token for turn in episode.turns for token in turn.sampled_ids] for episode in (rollout, target))
    ours += [-1] * (len(theirs) - len(ours))
    return torch.tensor([float(one != other) for one, other in zip(ours, theirs, strict=False)])
