"""SR-OPSD (2608.09745; abstract and code): a geometric target between self-teacher and reference, projected by Rényi.

q ∝ p_T^w · p_ref^(1-w) ; L = mean of min(π_θ/π_old, cap) · [ D_ρ(q ‖ p_S) - entropy coefficient · H(p_S) ] over tokens of
rollouts with evidence. Self-teacher: EMA of the student, reading the evidence; reference: the policy that the round began
with, reading nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agents.transformers_engine.backbone import Backbone
from trainer.batch import Pair
from trainer.method_config import SrOpsdConfig
from trainer.methods import context, divergence
from trainer.methods.context import Opening
from trainer.methods.grpo import REFERENCE
from trainer.methods.sdpo import on_students_support
from trainer.methods.student_method import Losses, Plan, parts_of
from trainer.methods.text_method import TEACHER, TextMethod, coverage, token_weights
from trainer.sample import Sample
from trainer.team import ALONE, Team


class SrOpsd(TextMethod[SrOpsdConfig]):
    """One step towards a target that stays near where the round began."""

    def __init__(self, backbone: Backbone, config: SrOpsdConfig, seed: int, team: Team = ALONE) -> None:
        super().__init__(backbone, config, seed, team)
        self.add_follower(TEACHER, config.ema)
        self.add_follower(REFERENCE, 0.0)

    def words(self, opening: Opening, document: str) -> Opening:
        """As SDPO, on whose code the release stands."""
        return context.reprompt(opening, document, None)

    def plan(self, samples: Sequence[Sample]) -> Plan:
        """Tokens of rollouts with evidence count the same."""
        kept, openings = self.covered(samples)
        pairs = self.twin_pairs(kept, openings, token_weights(kept)) if kept else []
        return Plan(parts_of(self._losses, pairs), coverage(kept, samples))

    def _losses(self, pair: Pair) -> Losses:
        config, batch = self.config, pair.student
        student_SD, teacher_SD = self.views(pair, TEACHER)
        logp_SM, action_S, index_SM = on_students_support(self.passes, student_SD, batch.action_S, config.support)
        with torch.no_grad():
            reference_SD = self.passes.plain(batch, REFERENCE)
            teacher_SM, reference_SM = (self.passes.scores(each, index_SM) for each in (teacher_SD, reference_SD))
        student_SN, teacher_SN, reference_SN = (
            divergence.supported(each, config.tail_least) for each in (logp_SM, teacher_SM, reference_SM)
        )
        kl_S = projected(student_SN, teacher_SN, reference_SN, config)
        ratio_S = divergence.capped_ratio(action_S, batch.recorded_S, config.ratio_cap)
        loss_S = ratio_S * (kl_S - config.entropy * divergence.entropy(student_SN))
        return {"loss": (batch.weight_S * loss_S).sum(), "kl": batch.weight_S @ kl_S}


def projected(student_SN: Tensor, teacher_SN: Tensor, reference_SN: Tensor, config: SrOpsdConfig) -> Tensor:
    """D_ρ(q ‖ p_S) of each token, at most `token_clip`, [S]."""
    target_SN = divergence.geometric(teacher_SN, reference_SN, config.reference_weight)
    value_S = divergence.renyi(student_SN, target_SN, config.order)
    return value_S if config.token_clip is None else value_S.clamp(max=config.token_clip)
