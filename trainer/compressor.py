"""χ: K learned queries read a sequence of hidden states and become K latent positions (eq. 6, app. A.1).

Shape suffixes: B items, T state positions, K queries, D width, H heads, E head width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from trainer.fused import TwoPartAttention

FEED_FORWARD_START = 0.1
"""Size of the feed-forward's random output weights beside an identity."""


class Compressor(nn.Module):
    """QFormer-style: one shared block, applied `depth` times, between an input and an output projection."""

    def __init__(self, width: int, heads: int, queries: int, depth: int, feed_forward: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of {heads} heads")
        self.depth = depth
        self.queries_KD = nn.Parameter(torch.randn(queries, width) / math.sqrt(width))
        self.project_in = nn.Linear(width, width)
        self.block = SharedBlock(width, heads, feed_forward)
        self.project_out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.log_scale = nn.Parameter(torch.zeros(()), requires_grad=False)
        """Size of a latent coordinate, as a logarithm; fixed at 1 unless `learn_scale` was called."""

    @torch.no_grad()
    def start_at_identity(self) -> None:
        """Make every projection on the way from a state to a latent hand it through; attention stays random."""
        width = self.project_in.in_features
        for linear in (self.project_in, self.project_out, self.block.output):
            nn.init.eye_(linear.weight)
            nn.init.zeros_(linear.bias)
        nn.init.eye_(self.block.key_value.weight[width:])
        nn.init.zeros_(self.block.key_value.bias)
        self.block.down.weight.mul_(FEED_FORWARD_START)
        nn.init.zeros_(self.block.down.bias)

    def learn_scale(self, start: float) -> None:
        """Train the size of the latents, from `start`."""
        self.log_scale.data.fill_(math.log(start))
        self.log_scale.requires_grad_(True)

    def forward(self, states_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """Latents [B, K, D]. `mask_BT` is true on real positions."""
        memory = self.block.memory(self.project_in(states_BTD))
        real_B11N = nn.functional.pad(mask_BT, (0, len(self.queries_KD)), value=True)[:, None, None]
        mask_B11N = torch.zeros(real_B11N.shape, device=mask_BT.device).masked_fill_(~real_B11N, -torch.inf)
        latent_BKD = self.queries_KD.expand(len(states_BTD), -1, -1)
        for _ in range(self.depth):
            latent_BKD = self.block(latent_BKD, memory, mask_B11N)
        normed_BKD: Tensor = self.norm(self.project_out(latent_BKD))
        return normed_BKD * self.log_scale.exp()


class SharedBlock(nn.Module):
    """Cross-attention with keys and values [states; queries], then a GELU feed-forward; pre-norm, residual."""

    def __init__(self, width: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_states = nn.LayerNorm(width)
        self.norm_queries = nn.LayerNorm(width)
        self.norm_hidden = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)
        self.up = nn.Linear(width, feed_forward * width)
        self.down = nn.Linear(feed_forward * width, width)

    def memory(self, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the states, [B, H, T, E]: the same in every application, since states never change."""
        return self._keys_values(self.norm_states(states_BTD))

    def forward(self, latent_BKD: Tensor, memory: tuple[Tensor, Tensor], mask_B11N: Tensor) -> Tensor:
        """One application."""
        normed_BKD = self.norm_queries(latent_BKD)
        own = self._keys_values(normed_BKD)
        query = self._split(self.query(normed_BKD))
        found: Tensor = TwoPartAttention.apply(query, *memory, *own, mask_B11N)  # type: ignore[no-untyped-call]
        latent_BKD = latent_BKD + self.output(found.transpose(1, 2).flatten(2))
        added_BKD: Tensor = self.down(gelu(self.up(self.norm_hidden(latent_BKD))))
        return latent_BKD + added_BKD

    def _keys_values(self, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        key_BTD, value_BTD = self.key_value(states_BTD).chunk(2, dim=-1)
        return self._split(key_BTD).contiguous(), self._split(value_BTD).contiguous()

    def _split(self, states_BTD: Tensor) -> Tensor:
        batch, length, _ = states_BTD.shape
        return states_BTD.view(batch, length, self.heads, -1).transpose(1, 2)
