"""What one step measured, token by token, and the figures shown for it.

Shape suffixes: S supervised tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Scored:
    """Detached per-token values of one micro-batch, [S] each."""

    weight: Tensor
    advantage: Tensor
    kl: Tensor
    """KL(p̃^S ‖ p̃^T), nats."""
    privilege: Tensor
    """δ, clipped if the option is on."""
    teacher: Tensor
    """log p^T(a)."""
    student: Tensor
    """log p^S(a)."""
    tail: Tensor
    """Teacher's probability outside the support."""
    peak: Tensor
    """Student's largest probability on the support."""


def joined(parts: Sequence[Scored]) -> Scored:
    """All micro-batches of a step."""
    return Scored(**{field.name: torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Scored)})


def figures(scored: Scored, uncertain_below: float) -> dict[str, float]:
    """Weighted means over all supervised tokens, and over those where the student is uncertain.

    kl: eq. 10 · margin: Δ, eq. 12 · privilege: mean δ · uncertain: weight of tokens whose peak is below the bound ·
    kl_uncertain, margin_uncertain: the same means over those tokens only (0 without any).
    """
    unsure_S = scored.weight * (scored.peak < uncertain_below)
    share = unsure_S.sum()
    pull_S = scored.advantage * scored.privilege
    found = {
        "kl": scored.weight @ scored.kl,
        "margin": scored.weight @ pull_S,
        "privilege": scored.weight @ scored.privilege,
        "teacher_logprob": scored.weight @ scored.teacher,
        "student_logprob": scored.weight @ scored.student,
        "teacher_tail": scored.weight @ scored.tail,
        "uncertain": share,
        "kl_uncertain": unsure_S @ scored.kl / share.clamp(min=torch.finfo().tiny),
        "margin_uncertain": unsure_S @ pull_S / share.clamp(min=torch.finfo().tiny),
    }
    return {name: value.item() for name, value in found.items()} | {"tokens": float(len(scored.kl))}
