"""Continuous batched decoding: prefill what is new, append to the running rows, one forward a step for all versions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from peft import PeftModel

from agents.transformers_engine.cache import RowCache, Shape
from agents.transformers_engine.lending import Lender
from agents.transformers_engine.prefixes import Prefix, PrefixStore, agreement
from agents.transformers_engine.residents import Residents
from agents.transformers_engine.rows import HIDDEN, Row, Running, rebuild
from agents.transformers_engine.sampling import draw, logprobs_of

PATIENCE = 8
"""Steps before waiting requests get a look in when no row finishes."""
WORTH = 32
"""Shortest common beginning of new prompts that is worth a forward of its own."""


class Decoder:
    """Rows in decoding over one PEFT model. Not thread-safe: one thread calls everything."""

    def __init__(self, model: PeftModel, ends: frozenset[int], residents: Residents, cache_bytes: int) -> None:
        self._model = model
        self._lender = Lender(model)
        self._ends = ends
        self._residents = residents
        self._shape = Shape.of(model.config)
        self._prefixes = PrefixStore(cache_bytes)
        self._running: Running | None = None

    @property
    def live(self) -> list[Row]:
        """Rows that still decode."""
        running = self._running
        return [] if running is None else [running.rows[index] for index in running.live]

    def admit(self, rows: Sequence[Row]) -> list[Row]:
        """Prefill rows and sample their first token; returns those that finished with it."""
        self._prefixes.keep_only(self._residents.owners())
        with self._lender.lend([row.resident.adapter for row in rows]) as extra:
            self._share_beginning(rows, extra)
            hits = [self._prefixes.find(self._residents.identity(row.resident), row.prompt) for row in rows]
            fresh, logits = self._prefill(rows, hits, extra)
            finished = self._sample(fresh, range(len(rows)), logits)
            parts = [fresh] if self._running is None else [self._running, fresh]
            self._running = rebuild(self._shape, parts) if any(part.live for part in parts) else None
        return finished

    def advance(self) -> list[Row]:
        """Up to `PATIENCE` tokens for every running row, less when a row finishes; returns the finished ones."""
        running, finished = self._running, list[Row]()
        live = [] if running is None else running.live
        if running is None or not live:
            self._running = None
            return finished
        with torch.inference_mode():
            if 2 * len(live) <= len(running.rows) or running.cache.room < PATIENCE:
                running = self._running = rebuild(self._shape, [running])
                live = running.live
        adapters = _adapters(running, live)
        with self._lender.lend(adapters) as extra:
            for _ in range(PATIENCE):
                finished = self._sample(running, live, self._step(running, extra))
                if finished:
                    break
        return finished

    def score(self, row: Row) -> list[float]:
        """Log-probs in nats of `row.sampled` after `row.prompt` at temperature 1, in one plain forward."""
        with self._lender.lend([row.resident.adapter]) as extra:
            ids = torch.tensor([row.tokens])
            count = len(row.sampled)
            logits = self._model(input_ids=ids, use_cache=False, logits_to_keep=count + 1, **extra).logits
            scores: list[float] = logprobs_of(logits[0, :-1], ids[0, -count:]).tolist()
        return scores

    def drop_all(self) -> list[Row]:
        """Give up every running row (after a failed forward)."""
        live, self._running = self.live, None
        return live

    def _share_beginning(self, rows: Sequence[Row], extra: dict[str, list[str]]) -> None:
        """Compute the beginning that new prompts of a version share once instead of for each of them."""
        if extra:
            return
        for _, group in groupby(rows, key=lambda row: id(row.resident)):
            together = list(group)
            first, owner = together[0], self._residents.identity(together[0].resident)
            length = min(_common([row.prompt for row in together]), len(first.prompt) - 1)
            if together == [first] or length < WORTH or self._prefixes.find(owner, first.prompt[:length]) is not None:
                continue
            running, _ = self._prefill([first], [None], extra, length)
            self._prefixes.add(Prefix(owner, first.prompt[:length], running.states(0)))

    def _prefill(
        self,
        rows: Sequence[Row],
        hits: Sequence[torch.Tensor | None],
        extra: dict[str, list[str]],
        stop: int | None = None,
    ) -> tuple[Running, torch.Tensor]:
        """Cache and last logits [rows, V] of the prompts (up to `stop`), given states of their beginnings."""
        known = [0 if hit is None else hit.shape[-2] for hit in hits]
        new = [row.prompt[start:stop] for row, start in zip(rows, known, strict=True)]
        before, width = max(known), max(map(len, new))
        cache = RowCache(self._shape, len(rows), before + width)
        bias = torch.zeros(len(rows), cache.buffer.shape[-2])
        ids, positions = torch.zeros(2, len(rows), width, dtype=torch.long)
        for index, (hit, start, tokens) in enumerate(zip(hits, known, new, strict=True)):
            cache.buffer[:, :, index, :, : before - start] = 0
            if hit is not None:
                cache.buffer[:, :, index, :, before - start : before] = hit
            pad = width - len(tokens)
            bias[index, : before - start] = HIDDEN
            bias[index, before : before + pad] = HIDDEN
            ids[index, pad:] = torch.tensor(tokens)
            positions[index, pad:] = torch.arange(start, start + len(tokens))
        cache.used = before
        logits = self._forward(cache, ids, positions, _causal(bias[:, : before + width], before, width), extra)
        return Running(list(rows), cache, bias), logits

    def _step(self, running: Running, extra: dict[str, list[str]]) -> torch.Tensor:
        """Feed every row its last token; logits [rows, V] of the next."""
        ids = torch.tensor([[row.sampled[-1]] for row in running.rows])
        positions = torch.tensor([[len(row.prompt) + len(row.sampled) - 1] for row in running.rows])
        mask = running.bias[:, None, None, : running.cache.used + 1]
        return self._forward(running.cache, ids, positions, mask, extra)

    def _forward(
        self,
        cache: RowCache,
        ids: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor,
        extra: dict[str, list[str]],
    ) -> torch.Tensor:
        output = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
            **extra,
        )
        logits: torch.Tensor = output.logits[:, -1].float()
        return logits

    def _sample(self, running: Running, live: Sequence[int], logits: torch.Tensor) -> list[Row]:
        """Append one token to each live row; rows that finished leave their states for the next turn."""
        rows = [running.rows[index] for index in live]
        chosen = logits if len(live) == len(running.rows) else logits[list(live)]
        ids = draw(chosen, [row.sampling for row in rows], [row.generator for row in rows])
        for row, token, logprob in zip(rows, ids.tolist(), logprobs_of(chosen, ids).tolist(), strict=True):
            row.take(token, logprob, self._ends)
        done = [index for index in live if running.rows[index].finish_reason is not None]
        for index in done:
            row = running.rows[index]
            self._prefixes.add(Prefix(self._residents.identity(row.resident), row.tokens[:-1], running.states(index)))
        return [running.rows[index] for index in done]


def _adapters(running: Running, live: Sequence[int]) -> list[str | None]:
    """Adapter of every row; finished rows follow the crowd, since nobody reads them and their adapter may be gone."""
    adapters: list[str | None] = [None] * len(running.rows)
    for index in live:
        adapters[index] = running.rows[index].resident.adapter
    wanted = {adapters[index] for index in live}
    return [next(iter(wanted))] * len(adapters) if len(wanted) == 1 else adapters


def _causal(bias: torch.Tensor, before: int, width: int) -> torch.Tensor:
    """Bias [rows, 1, width, before + width] for new tokens in the last `width` columns."""
    future = torch.ones(width, before + width, dtype=torch.bool).triu(before + 1)
    return bias[:, None, None].expand(-1, 1, width, -1).masked_fill(future, HIDDEN)


def _common(prompts: Sequence[tuple[int, ...]]) -> int:
    low, high = min(prompts), max(prompts)
    return agreement(low, high)
