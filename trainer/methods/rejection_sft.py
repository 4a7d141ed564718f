"""Rejection-sampling fine-tuning: -log π_θ of the step's solved rollouts, mean over their sampled tokens."""

from __future__ import annotations

from collections.abc import Sequence

from trainer import objective
from trainer.batch import Batch, Strands
from trainer.method_config import RejectionSftConfig
from trainer.methods.student_method import Losses, Plan, StudentMethod, parts_of
from trainer.methods.text_method import token_weights
from trainer.roles import STUDENT
from trainer.sample import Sample


class RejectionSft(StudentMethod[RejectionSftConfig]):
    """One step of supervised learning on what went right."""

    _replayed: Sequence[Sample] = ()

    def step(self, samples: Sequence[Sample], successes: Sequence[Sample] = ()) -> dict[str, float]:
        """As `Method.step`."""
        self._replayed = successes if self.config.replay else ()
        return super().step(samples)

    def plan(self, samples: Sequence[Sample]) -> Plan:
        """The solved ones, and the bank's if asked."""
        solved = [sample for sample in samples if (sample.episode.reward or 0.0) >= self.config.success]
        used = [*solved, *self._replayed]
        if not used:
            return Plan((), {"used": 0.0})
        weight_S = Strands.of(used).corrected(token_weights(used), used)
        counts = {"used": float(len(used)), "tokens": float(len(weight_S))}
        return Plan(parts_of(self._losses, self.batches(self.rows(used, weight_S))), counts)

    def _losses(self, batch: Batch) -> Losses:
        logp_S = self.sampled(self.passes.plain(batch, STUDENT), batch)
        nll = objective.nll(logp_S, batch.weight_S)
        return {"loss": nll, "nll": nll}
