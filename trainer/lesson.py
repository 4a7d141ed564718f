"""Lesson: the samples of one step, made ready: micro-batches and latent context.

Shape suffixes: B trajectories, J references, L = J·K latent positions, D width, N distinct texts, K queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.batch import Batch, batches_of, rows_of
from trainer.composer import Composer, FrozenLatents
from trainer.config import LopdConfig
from trainer.errors import BadSpan
from trainer.injection import Frame, InsertionPoints
from trainer.roles import Roles
from trainer.sample import Sample
from trainer.team import ALONE, Team
from trainer.views import Views


@dataclass(frozen=True, slots=True)
class Equipment:
    """What every step computes with."""

    config: LopdConfig
    roles: Roles
    views: Views
    composer: Composer
    """φ."""
    frozen: FrozenLatents
    """φ0."""
    frame: Frame
    points: InsertionPoints
    team: Team = ALONE
    """Those that share the micro-batches."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One step's inputs."""

    batches: tuple[Batch, ...]
    rows: int
    """Training sequences; more than trajectories when a template re-rendered earlier turns."""
    texts: tuple[str, ...]
    """Distinct (task, item) texts: each is encoded once."""
    index_BJ: Tensor
    context_BLD: Tensor
    """c_φ in the composer's graph (a constant when φ isn't trained)."""
    leaf_BLD: Tensor
    """The same values as a leaf: micro-batches collect their gradient here, so the composer's graph is walked once."""

    @classmethod
    def of(cls, equipment: Equipment, samples: Sequence[Sample], *, attached: bool) -> Lesson:
        """Prepare; `attached` says whether φ is trained. Raises `BadSpan`, `NoInsertionPoint`."""
        config = equipment.config
        _check_references(samples, config.composer.references)
        centre = config.advantage == "centred"
        rows = rows_of(samples, equipment.points, config.normalisation, centre=centre)
        device = equipment.roles.embed.weight.device
        batches = batches_of(rows, config.micro_tokens, equipment.frame.length, device)
        texts = tuple(dict.fromkeys(text for sample in samples for text in sample.texts))
        place = {text: index for index, text in enumerate(texts)}
        index_BJ = torch.tensor([[place[text] for text in sample.texts] for sample in samples], device=device)
        latent_NKD = (equipment.composer if attached else equipment.frozen).compose(texts)
        context_BLD = latent_NKD[index_BJ].flatten(1, 2)
        leaf_BLD = context_BLD.detach().requires_grad_(attached)
        return cls(tuple(batches), len(rows), texts, index_BJ, context_BLD, leaf_BLD)

    def start(self, equipment: Equipment) -> Tensor:
        """c_φ0 of the same samples, [B, L, D], no gradient."""
        return equipment.frozen.compose(self.texts)[self.index_BJ].flatten(1, 2)

    def backward(self, extra: Tensor | None) -> None:
        """Carry the collected gradient, and that of a scalar `extra` term on the context, into φ."""
        terms = [self.context_BLD] if extra is None else [self.context_BLD, extra]
        gradients = [self.leaf_BLD.grad] if extra is None else [self.leaf_BLD.grad, None]
        torch.autograd.backward(terms, gradients)


def _check_references(samples: Sequence[Sample], references: int) -> None:
    for sample in samples:
        if len(sample.references) != references:
            raise BadSpan(f"{sample.episode.id}: {len(sample.references)} references instead of {references}")
