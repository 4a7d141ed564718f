"""Drawing tokens: one generator per row, so that a row's tokens do not depend on its neighbours."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

from agents.engine import Sampling


def generator_of(sampling: Sampling) -> torch.Generator | None:
    """The row's own source of noise; None for greedy rows. Without a seed, a fresh one."""
    if sampling.temperature <= 0:
        return None
    seed = secrets.randbits(63) if sampling.seed is None else sampling.seed & (2**63 - 1)
    return torch.Generator().manual_seed(seed)


def draw(
    logits: torch.Tensor, samplings: Sequence[Sampling], generators: Sequence[torch.Generator | None]
) -> torch.Tensor:
    """Token ids [n] from logits [n, V], by the Gumbel-max rule.

    Gumbel and not the inverse CDF: rounding changes the choice only where the two best scores tie within it.
    """
    temperatures = torch.tensor([item.temperature or 1.0 for item in samplings]).unsqueeze(1)
    scores = logits / temperatures
    for index, item in enumerate(samplings):
        if item.top_p < 1 and item.temperature > 0:
            scores[index] = nucleus(scores[index], item.top_p)
    noise = torch.full_like(scores, 0.5)
    for row, generator in zip(noise, generators, strict=True):
        if generator is not None:
            row.uniform_(generator=generator)
    return (scores - noise.log_().neg_().log_()).argmax(-1)


def nucleus(scores: torch.Tensor, top_p: float) -> torch.Tensor:
    """Scores [V] with everything outside the smallest set of mass `top_p` at minus infinity; the best token always stays."""
    ordered, order = scores.softmax(-1).sort(descending=True)
    outside = ordered.cumsum(-1) - ordered >= top_p
    outside[0] = False
    return scores.masked_fill(torch.zeros_like(outside).scatter_(0, order, outside), -torch.inf)


def logprobs_of(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Log-probs [n] in nats of `ids` [n] under logits [n, V] at temperature 1, untruncated."""
    return logits.float().log_softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)
