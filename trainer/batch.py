"""Micro-batches: rows sorted by length, padded on the right, within a token budget.

Shape suffixes: B rows, T tokens after the shared prefix, C tokens of the shared prefix, S supervised tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer import objective
from trainer.injection import InsertionPoints
from trainer.sample import Sample
from trainer.sequences import Sequence as TokenSequence
from trainer.sequences import sequences_of


@dataclass(frozen=True, slots=True)
class Row:
    """One training sequence of one trajectory."""

    trajectory: int
    """Index of its sample in the step."""
    ids: tuple[int, ...]
    actions: tuple[int, ...]
    point: int
    """Where the latent context goes in; tokens before it may be shared with other rows."""
    weight_S: Tensor
    """ω over the normaliser of the whole step."""
    advantage_S: Tensor
    """A, the same on every token unless centred."""
    recorded_S: Tensor
    """Log-probabilities under the version that sampled the tokens."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one forward and backward pass; columns count from the end of the shared prefix."""

    prefix_1C: Tensor
    """What all rows begin with, before any insertion point: computed once, not once per row."""
    ids_BT: Tensor
    reach: tuple[int, ...]
    """Columns of each row that matter: those after them come too late for any supervised token."""
    trajectory_B: Tensor
    points: tuple[int, ...]
    row_S: Tensor
    column_S: Tensor
    """Position whose hidden state predicts the supervised token."""
    action_S: Tensor
    weight_S: Tensor
    advantage_S: Tensor
    recorded_S: Tensor


@dataclass(frozen=True, slots=True)
class Strands:
    """Every training sequence of a step, in the order of its samples."""

    found: tuple[tuple[int, TokenSequence], ...]
    """Index of the sample, and the sequence."""
    trajectory_S: Tensor
    """Index of the sample that each supervised token belongs to."""

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Strands:
        """All sequences of all samples."""
        found = tuple((i, sequence) for i, sample in enumerate(samples) for sequence in sequences_of(sample.episode))
        counts = torch.tensor([len(sequence.actions) for _, sequence in found], dtype=torch.long)
        return cls(found, torch.tensor([index for index, _ in found]).repeat_interleave(counts))

    def corrected(self, weight_S: Tensor, samples: Sequence[Sample]) -> Tensor:
        """Each token's weight times its trajectory's importance ratio (1 for fresh rollouts)."""
        return weight_S * torch.tensor([sample.importance for sample in samples])[self.trajectory_S]

    def rows(self, points: Sequence[int], weight_S: Tensor, advantage_S: Tensor) -> list[Row]:
        """The sequences with a point for each, and what the whole step gives to their tokens."""
        counts = [len(sequence.actions) for _, sequence in self.found]
        values = zip(torch.split(weight_S, counts), torch.split(advantage_S, counts), strict=True)
        parts = zip(self.found, points, values, strict=True)
        return [
            Row(i, s.ids, s.actions, point, weight, advantage, torch.tensor(s.logprobs))
            for (i, s), point, (weight, advantage) in parts
        ]


def rows_of(
    samples: Sequence[Sample], points: InsertionPoints, normalisation: objective.Normalisation, *, centre: bool
) -> list[Row]:
    """LOPD's rows of a step; weights and advantages are those of the whole step, whatever micro-batch a row lands in.

    Raises `NoInsertionPoint`.
    """
    strands = Strands.of(samples)
    places = [points.find(sample.episode, sample.tools) for sample in samples]
    weight_S = strands.corrected(objective.weights(strands.trajectory_S, normalisation), samples)
    reward_B = torch.tensor([sample.episode.reward or 0.0 for sample in samples])
    advantage_S = objective.verdict(reward_B)[strands.trajectory_S]
    if centre:
        advantage_S = objective.centred(advantage_S, weight_S)
    return strands.rows([places[index] for index, _ in strands.found], weight_S, advantage_S)


def batches_of(rows: Sequence[Row], budget: int, extra: int, device: torch.device) -> list[Batch]:
    """Rows grouped so that rows x (longest + `extra`) stays within `budget` tokens; a longer row stands alone."""
    lengths = [len(row.ids) + extra for row in rows]
    return [_batch([rows[index] for index in part], device) for part in _parts(lengths, budget)]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same supervised tokens twice: as the student saw them, and as a teacher that reads more does."""

    student: Batch
    teacher: Batch
    """Rows in the student's order, so that supervised token for supervised token they are the same."""


def pairs_of(rows: Sequence[Row], twins: Sequence[Row], budget: int, device: torch.device) -> list[Pair]:
    """As `batches_of`, the longer of row and twin counting."""
    lengths = [max(len(row.ids), len(twin.ids)) for row, twin in zip(rows, twins, strict=True)]
    return [
        Pair(_batch([rows[index] for index in part], device), _batch([twins[index] for index in part], device))
        for part in _parts(lengths, budget)
    ]


def _parts(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices sorted by length, cut where one more would break the budget."""
    part: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda number: lengths[number]):
        if part and (len(part) + 1) * lengths[index] > budget:
            yield part
            part = []
        part.append(index)
    yield part


def _batch(rows: Sequence[Row], device: torch.device) -> Batch:
    shared = _shared(rows)
    longest = max(len(row.ids) for row in rows) - shared
    ids_BT = torch.zeros(len(rows), longest, dtype=torch.long)
    for index, row in enumerate(rows):
        ids_BT[index, : len(row.ids) - shared] = torch.tensor(row.ids[shared:])
    row_S = torch.arange(len(rows)).repeat_interleave(torch.tensor([len(row.actions) for row in rows]))
    column_S = torch.cat([torch.tensor(row.actions) for row in rows]) - shared
    return Batch(
        prefix_1C=torch.tensor([rows[0].ids[:shared]], dtype=torch.long, device=device),
        ids_BT=ids_BT.to(device),
        reach=tuple(row.actions[-1] - shared for row in rows),
        trajectory_B=torch.tensor([row.trajectory for row in rows], device=device),
        points=tuple(row.point - shared for row in rows),
        row_S=row_S.to(device),
        column_S=(column_S - 1).to(device),
        action_S=ids_BT[row_S, column_S].to(device),
        weight_S=torch.cat([row.weight_S for row in rows]).to(device),
        advantage_S=torch.cat([row.advantage_S for row in rows]).to(device),
        recorded_S=torch.cat([row.recorded_S for row in rows]).to(device),
    )


def _shared(rows: Sequence[Row]) -> int:
    """Length of the longest common prefix that ends at or before every insertion point."""
    limit = min(row.point for row in rows)
    first, last = min(row.ids[:limit] for row in rows), max(row.ids[:limit] for row in rows)
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=True))
    return sum(1 for _ in same)


def rows_within_reach(batch: Batch) -> list[list[int]]:
    """Token ids of each row up to the last position that predicts a supervised token."""
    return [ids[:reach] for ids, reach in zip(batch.ids_BT.tolist(), batch.reach, strict=True)]
