"""Keys and values of many rows in one buffer that is written in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import Cache, PretrainedConfig

SPARE = 64
"""Columns allocated ahead, so that decoding copies the buffer once in so many steps."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What one cached token is made of."""

    layers: int
    heads: int
    width: int

    @classmethod
    def of(cls, config: PretrainedConfig) -> Shape:
        """Shape for a decoder with the same attention in every layer."""
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        return cls(config.num_hidden_layers, heads, width)


class RowCache(Cache):  # type: ignore[misc]
    """transformers cache over `buffer` [layers, 2, rows, heads, columns, width]; columns from `used` on are free.

    Memory starts uninitialised: who skips columns writes zeros there, since a hidden NaN still spoils a row.
    """

    def __init__(self, shape: Shape, rows: int, columns: int) -> None:
        super().__init__(layers=[])
        size = (shape.layers, 2, rows, shape.heads, columns + SPARE, shape.width)
        self.buffer = torch.empty(size)
        self.used = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append this layer's new columns; returns all keys and values of the layer. The last layer ends the append."""
        end = self.used + key_states.shape[-2]
        keys, values = self.buffer[layer_idx]
        keys[:, :, self.used : end] = key_states
        values[:, :, self.used : end] = value_states
        if layer_idx == len(self.buffer) - 1:
            self.used = end
        return keys[:, :, :end], values[:, :, :end]

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002
        """Columns in use."""
        return self.used

    @property
    def room(self) -> int:
        """Columns that can be appended without a copy."""
        return int(self.buffer.shape[-2]) - self.used
