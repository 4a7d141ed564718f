"""Attention over grouped key/value heads without copying them.

transformers' SDPA path repeats keys and values for every query head when a mask is given; on a CPU that copy costs four times the
attention itself. Query heads of one group see the same keys, so they can stand as further query positions instead.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

GROUPED = "grouped_sdpa"


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """What `sdpa` computes. Query [B, H, S, D], key and value [B, H/G, L, D], mask [B, 1, S, L]; gives [B, S, H, D]."""
    batch, heads, length, width = query.shape
    groups = heads // key.shape[1]
    if attention_mask is None or groups == 1 or attention_mask.shape[1] != 1:
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return output, None
    folded = query.reshape(batch, heads // groups, groups * length, width)
    mask = attention_mask.repeat(1, 1, groups, 1) if length > 1 else attention_mask.expand(-1, -1, groups, -1)
    found = scaled_dot_product_attention(
        folded, key, value, attn_mask=mask, dropout_p=options.get("dropout", 0.0), scale=options.get("scaling")
    )
    return found.reshape(batch, heads, length, width).transpose(1, 2).contiguous(), None


def register_grouped() -> None:
    """Make `grouped_sdpa` a known attention implementation; repeating it is harmless."""
    AttentionInterface.register(GROUPED, grouped_attention)
    AttentionMaskInterface.register(GROUPED, sdpa_mask)
