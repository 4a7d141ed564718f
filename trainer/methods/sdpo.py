"""SDPO (2601.20802): an EMA copy of the student reads a solved sibling rollout; reverse KL on the student's top-K and tail.

L = mean over tokens of rollouts with a target: min(π_θ/π_old, cap) · D_α(π_θ ‖ sg π_T), D the generalised JSD.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agents.transformers_engine.backbone import Backbone
from trainer import objective
from trainer.batch import Pair
from trainer.method_config import SdpoConfig
from trainer.methods import context, divergence
from trainer.methods.context import Opening
from trainer.methods.student_method import Losses, Plan, parts_of
from trainer.methods.text_method import TEACHER, TextMethod, coverage, token_weights
from trainer.sample import Sample
from trainer.team import ALONE, Team
from trainer.views import Passes


class Sdpo(TextMethod[SdpoConfig]):
    """One step towards the teacher that has seen how it can be done."""

    def __init__(self, backbone: Backbone, config: SdpoConfig, seed: int, team: Team = ALONE) -> None:
        super().__init__(backbone, config, seed, team)
        self.add_follower(TEACHER, config.ema)

    def words(self, opening: Opening, document: str) -> Opening:
        """The solution after the last user message."""
        return context.reprompt(opening, document, None)

    def opening(self, sample: Sample, step: Sequence[Sample]) -> Opening | None:
        """A solved sibling; else, where the attempt failed and was told why, that."""
        found = super().opening(sample, step)
        if found is not None or not self.config.feedback or (sample.episode.reward or 0.0) >= self.config.success:
            return found
        feedback = context.failed_calls(sample.episode)
        return None if feedback is None else context.reprompt(sample.episode.opening, None, feedback)

    def plan(self, samples: Sequence[Sample]) -> Plan:
        """Tokens of rollouts with a target count the same."""
        kept, openings = self.covered(samples)
        pairs = self.twin_pairs(kept, openings, token_weights(kept)) if kept else []
        return Plan(parts_of(self._losses, pairs), coverage(kept, samples))

    def _losses(self, pair: Pair) -> Losses:
        config, batch = self.config, pair.student
        student_SD, teacher_SD = self.views(pair, TEACHER)
        both_S2 = self.passes.compared(self._compared, student_SD, teacher_SD, others=(batch.action_S,))
        kl_S, action_S = both_S2[:, 0], both_S2[:, 1].detach()
        ratio_S = divergence.capped_ratio(action_S, batch.recorded_S, config.ratio_cap)
        return {
            "loss": (batch.weight_S * ratio_S * kl_S).sum(),
            "kl": batch.weight_S @ kl_S,
            "student_logprob": batch.weight_S @ action_S,
        }

    def _compared(self, logp_student_SW: Tensor, logp_teacher_SW: Tensor, action_S: Tensor) -> Tensor:
        """Divergence on the student's support and its log-probability of the sampled token, [S, 2]."""
        config = self.config
        index_SM = objective.support(logp_student_SW, config.support)
        least = config.tail_least if config.tail else None
        one, other = (
            divergence.supported(each.gather(1, index_SM), least) for each in (logp_student_SW, logp_teacher_SW)
        )
        logp_S = logp_student_SW.gather(1, action_S[:, None])[:, 0]
        return torch.stack([divergence.jsd(one, other, config.alpha), logp_S], dim=1)


def on_students_support(
    passes: Passes, student_SD: Tensor, action_S: Tensor, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of the student's top entries [S, M] and of the sampled tokens [S], and the entries' ids [S, M]."""
    index_SM = passes.support(student_SD, size)
    found_SN = passes.scores(student_SD, torch.cat([index_SM, action_S[:, None]], dim=1))
    return found_SN[:, :-1], found_SN[:, -1], index_SM
