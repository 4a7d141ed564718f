"""SDFT (2601.19897): an EMA copy of the student reads a demonstration; forward KL towards it on the student's own tokens.

The paper's eq. 1 is reverse KL; its author states that all results used forward KL, which is what stands here.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agents.transformers_engine.backbone import Backbone
from trainer.batch import Pair
from trainer.method_config import SdftConfig
from trainer.methods import context, divergence
from trainer.methods.context import Opening
from trainer.methods.student_method import Losses, Plan, parts_of
from trainer.methods.text_method import TEACHER, TextMethod, coverage, trajectory_weights
from trainer.sample import Sample
from trainer.team import ALONE, Team


class Sdft(TextMethod[SdftConfig]):
    """One step towards the teacher that has seen a demonstration."""

    def __init__(self, backbone: Backbone, config: SdftConfig, seed: int, team: Team = ALONE) -> None:
        super().__init__(backbone, config, seed, team)
        self.add_follower(TEACHER, config.ema)

    def words(self, opening: Opening, document: str) -> Opening:
        """The demonstration in the first user message."""
        return context.demonstration(opening, document)

    def plan(self, samples: Sequence[Sample]) -> Plan:
        """Trajectories count the same; their first tokens have no loss."""
        kept, openings = self.covered(samples)
        weight_S = trajectory_weights(kept, self.config.skip) if kept else torch.zeros(0)
        pairs = self.twin_pairs(kept, openings, weight_S) if kept else []
        return Plan(parts_of(self._losses, pairs), coverage(kept, samples))

    def _losses(self, pair: Pair) -> Losses:
        student_SD, teacher_SD = self.views(pair, TEACHER)
        batch = pair.student
        both_S2 = self.passes.compared(kl_and_sampled, student_SD, teacher_SD, others=(batch.action_S,))
        kl_S, logp_S = both_S2[:, 0], both_S2[:, 1].detach()
        weight_S = batch.weight_S * row_mean(
            divergence.capped_ratio(logp_S, batch.recorded_S, self.config.ratio_cap), batch.row_S
        )
        return {
            "loss": (weight_S * kl_S).sum(),
            "kl": batch.weight_S @ kl_S,
            "student_logprob": batch.weight_S @ logp_S,
        }


def kl_and_sampled(logp_student_SW: Tensor, logp_teacher_SW: Tensor, action_S: Tensor) -> Tensor:
    """Forward KL and the student's log-probability of the sampled token, [S, 2]."""
    logp_S = logp_student_SW.gather(1, action_S[:, None])[:, 0]
    return torch.stack([divergence.forward_kl(logp_student_SW, logp_teacher_SW), logp_S], dim=1)


def row_mean(value_S: Tensor, row_S: Tensor) -> Tensor:
    """Each token gets the mean over its row, [S]."""
    count_B = torch.bincount(row_S)
    total_B = torch.zeros(len(count_B), device=value_S.device).index_add(0, row_S, value_S)
    return (total_B / count_B)[row_S]
