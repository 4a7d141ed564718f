"""LOPD as a plain implementation of the released procedure does it: the yardstick of `trainer.bench`, written for that only.

One record at a time; full-vocabulary logits over the whole sequence; two teacher forwards (one for the student's loss, one
in the composer's graph); the backbone's weights read from disk again for each of the three phases of a step.
Its loss and gradient are those of our joint update, which the benchmark checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from trainer import objective
from trainer.injection import inject
from trainer.lesson import Equipment
from trainer.methods.lopd import Lopd
from trainer.roles import STUDENT
from trainer.sample import Sample
from trainer.sequences import sequences_of


@dataclass(frozen=True, slots=True)
class Record:
    """One trajectory as tensors."""

    ids_T: Tensor
    actions_S: Tensor
    point: int
    advantage: float
    texts: tuple[str, ...]


class Released:
    """Gradients of one step on the learner's own weights, the plain way."""

    def __init__(self, lopd: Lopd, weights: Path) -> None:
        self._lopd, self._weights = lopd, weights
        self._equipment: Equipment = lopd.equipment
        self._base = dict(lopd.equipment.roles.trunk.named_parameters())

    def step(self, samples: Sequence[Sample]) -> float:
        """Leave the step's gradients on student and composer; returns the loss of eq. 13."""
        records = [self._record(sample) for sample in samples]
        total = sum(len(record.actions_S) for record in records)
        with self._equipment.roles.apart():
            self._reload()
            kl = sum(self._student(record, total) for record in records)
            self._reload()
            parts = [self._composer(record, total, len(records)) for record in records]
            self._reload()
        config = self._lopd.config
        margin, anchor = (sum(values) for values in zip(*parts, strict=True))
        return float(kl + self._lopd.beta * (config.threshold - margin) + config.anchor_weight * anchor)

    def _record(self, sample: Sample) -> Record:
        (sequence,) = sequences_of(sample.episode)
        device = self._equipment.roles.embed.weight.device
        return Record(
            torch.tensor(sequence.ids, device=device),
            torch.tensor(sequence.actions, device=device),
            self._equipment.points.find(sample.episode, sample.tools),
            2 * (sample.episode.reward or 0.0) - 1,
            sample.texts,
        )

    def _reload(self) -> None:
        for name, tensor in load_file(self._weights).items():
            self._base[name].data.copy_(tensor)

    def _student(self, record: Record, total: int) -> float:
        with torch.no_grad():
            teacher_SW = self._teacher(record, self._context(record))
        student_SW = self._student_logp(record)
        kl_S = self._kl(student_SW, teacher_SW)
        loss = kl_S.sum() / total
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    def _composer(self, record: Record, total: int, records: int) -> tuple[float, float]:
        lopd, config = self._lopd, self._lopd.config
        with torch.no_grad():
            student_SW = self._student_logp(record)
        context_LD = self._context(record)
        teacher_SW = self._teacher(record, context_LD)
        kl_S = self._kl(student_SW, teacher_SW)
        action_S1 = record.ids_T[record.actions_S][:, None]
        delta_S = teacher_SW.gather(1, action_S1)[:, 0] - student_SW.gather(1, action_S1)[:, 0]
        margin = (record.advantage * delta_S).sum() / total
        start_LD = self._equipment.frozen.compose(record.texts).flatten(0, 1)
        anchor = objective.anchor(context_LD[None], start_LD[None], config.anchor_reduction) / records
        loss = kl_S.sum() / total - lopd.beta * margin + config.anchor_weight * anchor
        loss.backward()  # type: ignore[no-untyped-call]
        return margin.item(), anchor.item()

    def _context(self, record: Record) -> Tensor:
        return torch.cat([self._equipment.composer.compose([text])[0] for text in record.texts])

    def _student_logp(self, record: Record) -> Tensor:
        roles = self._equipment.roles
        with roles.acting(STUDENT):
            hidden = roles.trunk(input_ids=record.ids_T[None], use_cache=False).last_hidden_state
        return self._logp(hidden)[record.actions_S - 1]

    def _teacher(self, record: Record, context_LD: Tensor) -> Tensor:
        roles, around = self._equipment.roles, self._equipment.frame
        device = record.ids_T.device
        before, after = (roles.embed(torch.tensor(ids, device=device)) for ids in (around.before, around.after))
        embeds = inject(roles.embed(record.ids_T), record.point, before, context_LD, after)
        with roles.acting(None):
            hidden = roles.trunk(inputs_embeds=embeds[None], use_cache=False).last_hidden_state
        return self._logp(hidden)[record.actions_S - 1 + around.length]

    def _logp(self, hidden_1TD: Tensor) -> Tensor:
        logits: Tensor = self._equipment.roles.head(hidden_1TD)[0]
        return logits.float().log_softmax(-1)

    def _kl(self, student_SW: Tensor, teacher_SW: Tensor) -> Tensor:
        config = self._lopd.config
        index_SM = objective.support(teacher_SW, config.support)
        p_student, p_teacher = (
            objective.with_tail(each.gather(1, index_SM), config.tail_least) for each in (student_SW, teacher_SW)
        )
        return objective.reverse_kl(p_student, p_teacher)
