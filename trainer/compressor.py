"""χ: K learned queries read a sequence of hidden states and become K latent positions (eq. 6, app. A.1).

Shape suffixes: B items, T state positions, K queries, D width, H heads, E head width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention


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

    def learn_scale(self, start: float) -> None:
        """Train the size of the latents, from `start`."""
        self.log_scale.data.fill_(math.log(start))
        self.log_scale.requires_grad_(True)

    def forward(self, states_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """Latents [B, K, D]. `mask_BT` is true on real positions."""
        memory = self.block.memory(self.project_in(states_BTD))
        mask_B11N = nn.functional.pad(mask_BT, (0, len(self.queries_KD)), value=True)[:, None, None]
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
        key, value = (torch.cat(pair, dim=2) for pair in zip(memory, own, strict=True))
        found = scaled_dot_product_attention(self._split(self.query(normed_BKD)), key, value, attn_mask=mask_B11N)
        latent_BKD = latent_BKD + self.output(found.transpose(1, 2).flatten(2))
        added_BKD: Tensor = self.down(gelu(self.up(self.norm_hidden(latent_BKD))))
        return latent_BKD + added_BKD

    def _keys_values(self, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        key_BTD, value_BTD = self.key_value(states_BTD).chunk(2, dim=-1)
        return self._split(key_BTD), self._split(value_BTD)

    def _split(self, states_BTD: Tensor) -> Tensor:
        batch, length, _ = states_BTD.shape
        return states_BTD.view(batch, length, self.heads, -1).transpose(1, 2)
