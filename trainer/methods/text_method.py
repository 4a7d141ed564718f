"""What methods with a text teacher share: which evidence each rollout's teacher reads, and the rows of both."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from agents.transformers_engine.backbone import Backbone
from bank.experience import Experience, compact_trace
from trainer import objective
from trainer.batch import Pair, Strands
from trainer.method_config import TextTeacherConfig
from trainer.methods import context
from trainer.methods.context import Opening
from trainer.methods.student_method import StudentMethod
from trainer.roles import STUDENT
from trainer.sample import Sample
from trainer.team import ALONE, Team

T = TypeVar("T", bound=TextTeacherConfig)
TEACHER = "teacher"
"""Adapter of a teacher that is a copy of the student."""


class TextMethod(StudentMethod[T]):
    """A student that is pulled towards a teacher that reads evidence about the task."""

    def __init__(self, backbone: Backbone, config: T, seed: int, team: Team = ALONE) -> None:
        super().__init__(backbone, config, seed, team)
        self.references = 1 if config.evidence in ("retrieved", "own_or_retrieved") else 0

    @abstractmethod
    def words(self, opening: Opening, document: str) -> Opening:
        """The opening with the evidence in it, in the method's own template."""

    def covered(self, samples: Sequence[Sample]) -> tuple[list[Sample], list[Opening]]:
        """The samples for which there is something to read, and what their teacher reads."""
        found = [(sample, self.opening(sample, samples)) for sample in samples]
        kept = [(sample, opening) for sample, opening in found if opening is not None]
        return [sample for sample, _ in kept], [opening for _, opening in kept]

    def opening(self, sample: Sample, step: Sequence[Sample]) -> Opening | None:
        """What this sample's teacher reads; None without evidence."""
        document = evidence_for(sample, step, self.config)
        return None if document is None else self.worded(sample.episode.opening, document)

    def worded(self, opening: Opening, document: str) -> Opening:
        """The evidence in the configured words."""
        return context.framed(opening, document) if self.config.wording == "framing" else self.words(opening, document)

    def twin_pairs(self, samples: Sequence[Sample], openings: Sequence[Opening], weight_S: Tensor) -> list[Pair]:
        """Micro-batches of the samples' rows and of the same rows as the teacher reads them."""
        rows = self.rows(samples, weight_S)
        return self.pairs(rows, self.text.twins(rows, samples, openings))

    def views(self, pair: Pair, teacher: str | None) -> tuple[Tensor, Tensor]:
        """Hidden states of student (in its graph) and teacher (a constant), [S, D] each."""
        with torch.no_grad():
            teacher_SD = self.passes.plain(pair.teacher, teacher)
        return self.passes.plain(pair.student, STUDENT), teacher_SD


def evidence_for(sample: Sample, step: Sequence[Sample], config: TextTeacherConfig) -> str | None:
    """The document that the configuration grants this sample's teacher: task and trace of a success."""
    own = sample.own.document if sample.own is not None else None
    if config.evidence == "own":
        return own
    if config.evidence == "sibling":
        return sibling(sample, step, config.success)
    return own if own is not None and config.evidence == "own_or_retrieved" else retrieved(sample.references)


def sibling(sample: Sample, step: Sequence[Sample], success: float) -> str | None:
    """The first other rollout of the same task in this step that was solved, never the rollout itself (SDPO)."""
    for other in step:
        episode = other.episode
        solved = episode.reward is not None and episode.reward >= success
        if episode.id != sample.episode.id and episode.task_id == sample.episode.task_id and solved:
            return f"{episode.task}\n{compact_trace(episode)}"
    return None


def retrieved(references: Sequence[Experience]) -> str | None:
    """The best match of another task."""
    return references[0].document if references else None


def coverage(kept: Sequence[Sample], samples: Sequence[Sample]) -> dict[str, float]:
    """How many rollouts had a teacher, and how many had nothing to read."""
    tokens = sum(len(turn.sampled_ids) for sample in kept for turn in sample.episode.turns)
    return {"covered": float(len(kept)), "uncovered": float(len(samples) - len(kept)), "tokens": float(tokens)}


def trajectory_weights(samples: Sequence[Sample], skip: int = 0) -> Tensor:
    """Mean over trajectories of token means, without the first `skip` sampled tokens of each, [S]."""
    trajectory_S = Strands.of(samples).trajectory_S
    place_S = torch.cat([torch.arange(int(length)) for length in torch.bincount(trajectory_S)])
    weight_S = torch.zeros(len(trajectory_S))
    kept_S = place_S >= skip
    if kept_S.any():
        weight_S[kept_S] = objective.weights(trajectory_S[kept_S], "trajectory")
    return weight_S


def token_weights(samples: Sequence[Sample]) -> Tensor:
    """Every sampled token the same, [S]."""
    return objective.weights(Strands.of(samples).trajectory_S, "token")
