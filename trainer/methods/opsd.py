"""OPSD (2601.18734): the policy that the round began with reads the oracle trajectory and teaches the student's tokens.

L = E[ (1/|y|) Σ_t D(p_T(.|x, y*, y_<t) ‖ p_S(.|x, y_<t)) ], D the generalised JSD (forward KL by default), gradient
through the student only; every vocabulary entry's summand may be clipped.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agents.transformers_engine.backbone import Backbone
from trainer.batch import Pair, Strands
from trainer.method_config import OpsdConfig
from trainer.methods import context, divergence
from trainer.methods.context import Opening
from trainer.methods.student_method import Losses, Plan, parts_of
from trainer.methods.text_method import TEACHER, TextMethod, coverage, trajectory_weights
from trainer.sample import Sample
from trainer.team import ALONE, Team


class Opsd(TextMethod[OpsdConfig]):
    """One step towards the teacher that knows the answer."""

    def __init__(self, backbone: Backbone, config: OpsdConfig, seed: int, team: Team = ALONE) -> None:
        super().__init__(backbone, config, seed, team)
        self.add_follower(TEACHER, config.ema)

    def words(self, opening: Opening, document: str) -> Opening:
        """The oracle trajectory in the system message."""
        return context.oracle(opening, document)

    def plan(self, samples: Sequence[Sample]) -> Plan:
        """Trajectories count the same."""
        kept, openings = self.covered(samples)
        if not kept:
            return Plan((), coverage(kept, samples))
        weight_S = Strands.of(kept).corrected(trajectory_weights(kept), kept)
        pairs = self.twin_pairs(kept, openings, weight_S)
        return Plan(parts_of(self.losses, pairs), coverage(kept, samples))

    def losses(self, pair: Pair) -> Losses:
        """Divergence of one micro-batch."""
        student_SD, teacher_SD = self.views(pair, TEACHER)
        kl_S = self.passes.compared(self._divergence, student_SD, teacher_SD)
        kl = pair.student.weight_S @ kl_S
        return {"loss": kl, "kl": kl}

    def _divergence(self, logp_student_SW: Tensor, logp_teacher_SW: Tensor) -> Tensor:
        return tempered_jsd(logp_student_SW, logp_teacher_SW, self.config)


def tempered_jsd(logp_student_SW: Tensor, logp_teacher_SW: Tensor, config: OpsdConfig) -> Tensor:
    """The configured divergence of both distributions at the loss's temperature, [S]."""
    one, other = (
        logp_SW if config.temperature == 1 else torch.log_softmax(logp_SW / config.temperature, 1)
        for logp_SW in (logp_student_SW, logp_teacher_SW)
    )
    return divergence.jsd(one, other, config.jsd, config.pointwise_clip)
