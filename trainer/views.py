"""Student's and teacher's view of the same recorded tokens (eq. 8): hidden states and log-probs where tokens were sampled.

Shape suffixes: B rows, T tokens, C shared prefix tokens, L latent positions, S supervised tokens, D width, M support.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache

from trainer import objective
from trainer.batch import Batch, rows_within_reach
from trainer.injection import Frame, check_span, inject
from trainer.packing import after_prefix, pack
from trainer.roles import STUDENT, Roles
from trainer.rowwise import Rowwise
from trainer.trunk import Trunk


class Passes:
    """Runs the shared backbone over the tokens of a micro-batch, and the head over what is supervised of it."""

    def __init__(self, roles: Roles, head_chunk: int) -> None:
        self._roles = roles
        self._chunk = head_chunk

    def plain(self, batch: Batch, adapter: str | None) -> Tensor:
        """Hidden states [S, D] with the rows' own tokens in the input; gradients reach the adapter if it is trained."""
        if self._roles.packed:
            return self._plain(self._roles.packed, batch, adapter)
        with self._roles.acting(adapter):
            hidden_BTD = self._run(batch.prefix_1C, self._roles.embed(batch.ids_BT))
        return hidden_BTD[batch.row_S, batch.column_S]

    def _plain(self, trunk: Trunk, batch: Batch, adapter: str | None) -> Tensor:
        tokens = after_prefix(batch.prefix_1C[0].tolist(), rows_within_reach(batch), batch.ids_BT.device)
        kept_S = tokens.grids[-1].token_BT[batch.row_S, batch.column_S]
        packing = pack(tokens.grids, tokens.position_N, trunk.heads)
        return trunk(self._roles.embed(tokens.ids_N), packing, adapter, kept_S)

    def _run(self, prefix_1C: Tensor, embeds_BTD: Tensor) -> Tensor:
        # padding on the right of a causal model: no real position sees it, so no attention mask is needed
        if self._roles.checkpointing and prefix_1C.shape[1]:
            # a cache can't be recomputed: the prefix runs in every row, and its positions are dropped again
            prefix_BCD = self._roles.embed(prefix_1C).expand(len(embeds_BTD), -1, -1)
            whole = torch.cat([prefix_BCD, embeds_BTD], dim=1)
            return _hidden(self._roles.trunk(inputs_embeds=whole, use_cache=False))[:, prefix_1C.shape[1] :]
        if not prefix_1C.shape[1]:
            return _hidden(self._roles.trunk(inputs_embeds=embeds_BTD, use_cache=False))
        cache = DynamicCache(config=self._roles.config)
        self._roles.trunk(input_ids=prefix_1C, past_key_values=cache, use_cache=True)
        cache.batch_repeat_interleave(len(embeds_BTD))
        return _hidden(self._roles.trunk(inputs_embeds=embeds_BTD, past_key_values=cache, use_cache=True))

    def scores(self, hidden_SD: Tensor, index_SM: Tensor) -> Tensor:
        """Log-probabilities of the indexed tokens, [S, M] float32."""
        return self._chunked(lambda part, index: objective.log_probs(self._logits(part), index), hidden_SD, index_SM)

    @torch.no_grad()
    def support(self, hidden_SD: Tensor, size: int) -> Tensor:
        """Token ids of the `size` most probable entries, [S, M] (LOPD eq. 9: the teacher's)."""
        return self._chunked(lambda part, _: objective.support(self._logits(part), size), hidden_SD, hidden_SD)

    def _logits(self, hidden_SD: Tensor) -> Tensor:
        logits: Tensor = self._roles.head(hidden_SD)
        return logits.float()

    def sampled(self, hidden_SD: Tensor, action_S: Tensor) -> Tensor:
        """Log-probabilities of the sampled tokens, [S] float32."""
        return self.rowwise(_of_action, hidden_SD, others=(action_S,))[:, 0]

    def compared(self, function: Callable[..., Tensor], *hidden: Tensor, others: tuple[Tensor, ...] = ()) -> Tensor:
        """`function` of the whole vocabulary's log-probabilities [S, W] of each view, and of `others`, to [S] or [S, X].

        Gradients are those of the first value of each position. Only values and hidden states survive a chunk.
        """

        def rows(*parts: Tensor) -> Tensor:
            views = [part.log_softmax(1) for part in parts[: len(hidden)]]
            found = function(*views, *parts[len(hidden) :])
            return found[:, None] if found.ndim == 1 else found

        found_SX = self.rowwise(rows, *hidden, others=others)
        return found_SX[:, 0] if found_SX.shape[1] == 1 else found_SX

    def rowwise(self, function: Callable[..., Tensor], *hidden: Tensor, others: tuple[Tensor, ...] = ()) -> Tensor:
        """The same of float32 logits, always to [S, X]."""

        def rows(*parts: Tensor) -> Tensor:
            return function(*(part.float() for part in parts[: len(hidden)]), *parts[len(hidden) :])

        found_SX: Tensor = Rowwise.apply(  # type: ignore[no-untyped-call]
            rows, self._roles.head.weight, self._chunk, len(hidden), *hidden, *others
        )
        return found_SX

    def _chunked(self, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        # logits of one chunk at a time, computed again in the backward pass: never supervised tokens x vocabulary at once
        if len(inputs[0]) <= self._chunk:
            return function(*inputs)
        parts = zip(*(torch.split(tensor, self._chunk) for tensor in inputs), strict=True)
        return torch.cat([checkpoint(function, *part, use_reentrant=False) for part in parts])


class Views(Passes):
    """A micro-batch as the student sees it, and as LOPD's teacher does: with latent context in the input."""

    def __init__(self, roles: Roles, frame: Frame, head_chunk: int) -> None:
        super().__init__(roles, head_chunk)
        self._frame = frame

    def student(self, batch: Batch) -> Tensor:
        """Hidden states [S, D] with s alone in the input; gradients reach θ."""
        return self.plain(batch, STUDENT)

    def teacher(self, batch: Batch, context_BLD: Tensor) -> Tensor:
        """Hidden states [S, D] of the frozen backbone with s and c_φ in the input; gradients reach the context only.

        `context_BLD` is indexed by trajectory. Raises `BadSpan`.
        """
        check_span(context_BLD, self._frame.latents)
        if self._roles.packed:
            return self._teacher(self._roles.packed, batch, context_BLD)
        with self._roles.acting(None):
            hidden_BTD = self._run(batch.prefix_1C, self._with_context(batch, context_BLD))
        return hidden_BTD[batch.row_S, batch.column_S + self._frame.length]

    def _teacher(self, trunk: Trunk, batch: Batch, context_BLD: Tensor) -> Tensor:
        around = self._frame
        # what stands before the latents is one row's worth of work when nothing else comes between it and the prefix
        lead = 0 if any(batch.points) else len(around.before)
        middle = [*around.before[lead:], *[0] * around.latents, *around.after]
        rows = zip(rows_within_reach(batch), batch.points, strict=True)
        prefix = [*batch.prefix_1C[0].tolist(), *around.before[:lead]]
        device = batch.ids_BT.device
        tokens = after_prefix(prefix, [[*row[:point], *middle, *row[point:]] for row, point in rows], device)
        first_B = torch.tensor(batch.points, device=device) + len(around.before) - lead
        token_BT = tokens.grids[-1].token_BT
        column_BL = first_B[:, None] + torch.arange(around.latents, device=device)
        place = token_BT.gather(1, column_BL).flatten()
        latent_ND = context_BLD[batch.trajectory_B].flatten(0, 1).to(self._roles.embed.weight.dtype)
        x_ND = self._roles.embed(tokens.ids_N).index_copy(0, place, latent_ND)
        kept_S = token_BT[batch.row_S, batch.column_S + around.length - lead]
        return trunk(x_ND, pack(tokens.grids, tokens.position_N, trunk.heads), None, kept_S)

    def _with_context(self, batch: Batch, context_BLD: Tensor) -> Tensor:
        embeds_BTD = self._roles.embed(batch.ids_BT)
        before_FD, after_GD = (
            self._roles.embed(torch.tensor(ids, dtype=torch.long, device=embeds_BTD.device))
            for ids in (self._frame.before, self._frame.after)
        )
        rows = zip(embeds_BTD, batch.points, context_BLD[batch.trajectory_B], strict=True)
        return torch.stack([inject(row_TD, point, before_FD, latent_LD, after_GD) for row_TD, point, latent_LD in rows])


def _hidden(output: Any) -> Tensor:
    hidden_BTD: Tensor = output.last_hidden_state
    return hidden_BTD


def _of_action(logits_SW: Tensor, action_S: Tensor) -> Tensor:
    return objective.log_probs(logits_SW, action_S[:, None])
