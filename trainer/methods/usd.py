"""USD (2608.08176), RECONSTRUCTED FROM ITS ABSTRACT: formulas and constants below are ours, not the paper's.

Published: maximise the teacher-student divergence subject to a budget on learning difficulty; one dual variable sets both
the token threshold and the direction of the privileged information. Ours:

    max_{w, level} Σ w_t D_t  s.t.  Σ w_t d_t ≤ B
    D_t = KL(p_T ‖ p_S) · d_t = -log p_S(the teacher's first choice)
    w_t = [D_t - μ d_t > 0] · the level moves along the sign of the difference quotient of Σ w (D - μ d)
    μ ← [μ + η (Σ w d - B)]_+
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from agents.transformers_engine.backbone import Backbone
from trainer.batch import Pair
from trainer.method_config import UsdConfig
from trainer.methods import context, divergence
from trainer.methods.context import Opening
from trainer.methods.student_method import Losses, Plan, parts_of
from trainer.methods.text_method import TEACHER, TextMethod, coverage, evidence_for, trajectory_weights
from trainer.sample import Sample
from trainer.team import ALONE, Team


class Usd(TextMethod[UsdConfig]):
    """One step on the tokens that are worth their difficulty."""

    def __init__(self, backbone: Backbone, config: UsdConfig, seed: int, team: Team = ALONE) -> None:
        super().__init__(backbone, config, seed, team)
        self.add_follower(TEACHER, 0.0)
        self.price = config.price
        self.level = config.levels

    def words(self, opening: Opening, document: str) -> Opening:
        """As OPSD."""
        return context.oracle(opening, document)

    def plan(self, samples: Sequence[Sample]) -> Plan:
        """The step at the present level, and what the neighbouring level would have been worth."""
        documents = [evidence_for(sample, samples, self.config) for sample in samples]
        known = [(sample, text) for sample, text in zip(samples, documents, strict=True) if text is not None]
        kept = [sample for sample, _ in known]
        counts = coverage(kept, samples) | {"level": float(self.level)}
        if not kept:
            return Plan((), counts)
        texts = [text for _, text in known]
        if self.config.levels > 1:
            beside = self._at(kept, texts, self._neighbour)
            counts["neighbour_gain"] = sum(self._losses(pair)["gain"].item() for pair in beside)
        return Plan(parts_of(self._losses, self._at(kept, texts, self.level)), counts)

    @property
    def _neighbour(self) -> int:
        return self.level + 1 if self.level < self.config.levels else self.level - 1

    def _at(self, kept: Sequence[Sample], texts: Sequence[str], level: int) -> list[Pair]:
        shown = [context.shown_up_to(text, level, self.config.levels) for text in texts]
        openings = [self.worded(sample.episode.opening, text) for sample, text in zip(kept, shown, strict=True)]
        return self.twin_pairs(kept, openings, trajectory_weights(kept))

    def _losses(self, pair: Pair) -> Losses:
        student_SD, teacher_SD = self.views(pair, TEACHER)
        both_S2 = self.passes.compared(divergence_and_difficulty, student_SD, teacher_SD)
        kl_S, difficulty_S = both_S2[:, 0], both_S2[:, 1].detach()
        weight_S = pair.student.weight_S * worth_learning(kl_S, difficulty_S, self.price)
        return {
            "loss": (weight_S * kl_S).sum(),
            "kl": pair.student.weight_S @ kl_S,
            "difficulty": weight_S @ difficulty_S,
            "gain": weight_S @ (kl_S - self.price * difficulty_S),
            "selected": weight_S.sum(),
        }

    def after(self, found: Mapping[str, float]) -> None:
        """Move price and level."""
        config = self.config
        if config.levels > 1:
            slope = (found["neighbour_gain"] - found["gain"]) * (self._neighbour - self.level)
            self.level = min(config.levels, max(1, self.level + (slope > 0) - (slope < 0)))
        self.price = max(0.0, self.price + config.price_rate * (found["difficulty"] - config.budget))

    def extra(self) -> dict[str, Any]:
        """Price and level."""
        return {"price": self.price, "level": self.level}

    def restore_extra(self, extra: Mapping[str, Any]) -> None:
        """Inverse of `extra`."""
        self.price, self.level = extra["price"], extra["level"]


def divergence_and_difficulty(logp_student_SW: Tensor, logp_teacher_SW: Tensor) -> Tensor:
    """D_t and d_t side by side, [S, 2]."""
    first_S1 = logp_teacher_SW.argmax(1, keepdim=True)
    difficulty_S = -logp_student_SW.gather(1, first_S1)[:, 0]
    return torch.stack([divergence.forward_kl(logp_student_SW, logp_teacher_SW), difficulty_S], dim=1)


def worth_learning(kl_S: Tensor, difficulty_S: Tensor, price: float) -> Tensor:
    """w_t in {0, 1}, [S]; no gradient."""
    return (kl_S.detach() - price * difficulty_S > 0).float()
