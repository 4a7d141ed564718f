"""Rows: the requests in decoding, and the tensors they share."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import torch

from agents.engine import Sampling
from agents.transformers_engine.cache import RowCache, Shape
from agents.transformers_engine.residents import Resident

HIDDEN = torch.finfo(torch.float32).min
"""Attention bias of a column that a row must not see; finite, so that a row of padding gives no NaN."""


@dataclass(slots=True, eq=False)
class Row:
    """One request and what was sampled for it so far."""

    prompt: tuple[int, ...]
    sampling: Sampling
    resident: Resident
    limit: int
    """Most tokens to sample: the request's, or what the context leaves."""
    generator: torch.Generator | None
    future: Future[Row]
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str | None = None

    @property
    def live(self) -> bool:
        """Still decoding, for a caller who still waits."""
        return self.finish_reason is None and not self.future.cancelled()

    @property
    def tokens(self) -> tuple[int, ...]:
        """Prompt and sampled tokens."""
        return (*self.prompt, *self.sampled)

    def take(self, token: int, logprob: float, ends: frozenset[int]) -> None:
        """Append one sampled token; the row finishes at an end token or at its limit."""
        self.sampled.append(token)
        self.logprobs.append(logprob)
        if token in ends:
            self.finish_reason = "stop"
        elif len(self.sampled) >= self.limit:
            self.finish_reason = "length"


@dataclass(slots=True, eq=False)
class Running:
    """Rows over one cache. Finished rows stay, unread, until the next rebuild: a copy for each would cost more."""

    rows: list[Row]
    cache: RowCache
    bias: torch.Tensor
    """[rows, columns of the buffer]: 0 where a row has a token or may get one, `HIDDEN` elsewhere."""

    @property
    def live(self) -> list[int]:
        """Indices of rows that still decode."""
        return [index for index, row in enumerate(self.rows) if row.live]

    def states(self, index: int) -> torch.Tensor:
        """Keys and values of one row's tokens without the padding: [layers, 2, heads, tokens, width]."""
        used = self.cache.used
        seen = (self.bias[index, :used] == 0).nonzero().squeeze(1)
        return self.cache.buffer[:, :, index, :, :used].index_select(3, seen)


def rebuild(shape: Shape, parts: Sequence[Running]) -> Running:
    """The live rows of several batches in one, right-aligned, without columns that nobody uses."""
    kept = [(part, live) for part in parts if (live := part.live)]
    spans = [_span(part, live) for part, live in kept]
    columns = max(spans)
    rows = [part.rows[index] for part, live in kept for index in live]
    cache = RowCache(shape, len(rows), columns)
    bias = torch.zeros(len(rows), cache.buffer.shape[-2])
    start = 0
    for (part, live), span in zip(kept, spans, strict=True):
        end, used, left = start + len(live), part.cache.used, columns - span
        for row, index in enumerate(live, start):
            cache.buffer[:, :, row, :, left:columns] = part.cache.buffer[:, :, index, :, used - span : used]
        cache.buffer[:, :, start:end, :, :left] = 0
        bias[start:end, left:columns] = part.bias[live, used - span : used]
        bias[start:end, :left] = HIDDEN
        start = end
    cache.used = columns
    return Running(rows, cache, bias)


def _span(part: Running, live: Sequence[int]) -> int:
    seen = (part.bias[list(live), : part.cache.used] == 0).any(0)
    return part.cache.used - int(seen.nonzero()[0])
