"""Qwen3's layers over packed tokens, with one adapter or none: what transformers computes, up to rounding, for less.

Only for single-precision weights and short contexts; `usable` says whether a model is one of these, others run as transformers has them.
Shape suffixes: N packed tokens, S kept tokens, D width, E head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.functional import linear

from trainer.fused import Attention, Gated, Gather, Merged, RmsNorm, Rotated
from trainer.packing import Heads, Index, Packing

LONGEST = 4096
"""Positions of the longest model taken: attention's scores are kept for the gradient, and they grow with the square."""


def usable(trunk: nn.Module, config: Any) -> bool:
    """Whether `Trunk` computes what this model does."""
    plain = config.model_type == "qwen3" and config.hidden_act == "silu" and not config.attention_bias
    full = all(kind == "full_attention" for kind in config.layer_types)
    short = config.max_position_embeddings <= LONGEST
    whole = not any(isinstance(weight, DTensor) for weight in trunk.parameters())
    return plain and full and short and whole and all(weight.dtype == torch.float32 for weight in trunk.parameters())


class Trunk:
    """Everything between embeddings and language-model head."""

    def __init__(self, trunk: Any, config: Any) -> None:
        self._trunk = trunk
        self._width: int = config.head_dim
        self.heads = Heads(config.num_attention_heads, config.num_key_value_heads)

    def __call__(self, x_ND: Tensor, packing: Packing, adapter: str | None, kept_S: Tensor | None = None) -> Tensor:
        """Last hidden states, after the final norm, of the kept tokens (all of them unless given)."""
        cos, sin = self._trunk.rotary_emb(x_ND, packing.position_N[None])
        turn = cos[0, :, None], sin[0, :, None]
        back = packing.back(None)
        for layer in self._trunk.layers[:-1]:
            x_ND = self._layer(layer, x_ND, packing, turn, back, adapter, None)
        back = back if kept_S is None else packing.back(kept_S)
        x_SD = self._layer(self._trunk.layers[-1], x_ND, packing, turn, back, adapter, kept_S)
        return _norm(self._trunk.norm, x_SD)

    def _layer(
        self, layer: Any, x_ND: Tensor, packing: Packing, turn: Any, back: Index, adapter: Any, kept: Any
    ) -> Tensor:
        attention, mlp = layer.self_attn, layer.mlp
        y = _project(
            (attention.q_proj, attention.k_proj, attention.v_proj), _norm(layer.input_layernorm, x_ND), adapter
        )
        found_NF = self._attend(self._turned(attention, y, turn), packing, back, attention.scaling)
        x_ND = x_ND if kept is None else x_ND[kept]
        x_ND = x_ND + _project((attention.o_proj,), found_NF, adapter)
        wide = _project((mlp.gate_proj, mlp.up_proj), _norm(layer.post_attention_layernorm, x_ND), adapter)
        gated: Tensor = Gated.apply(wide)  # type: ignore[no-untyped-call]
        return x_ND + _project((mlp.down_proj,), gated, adapter)

    def _turned(self, attention: Any, y_NF: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        query, key = attention.q_norm, attention.k_norm
        w_HE = torch.cat([query.weight.expand(self.heads.query, -1), key.weight.expand(self.heads.key, -1)])
        y_NXE = y_NF.view(len(y_NF), self.heads.all, self._width)
        turned: Tensor = Rotated.apply(y_NXE, w_HE, *turn, query.variance_epsilon)  # type: ignore[no-untyped-call]
        return turned.view(-1, self._width)

    def _attend(self, rows_ME: Tensor, packing: Packing, back: Index, scale: float) -> Tensor:
        index = packing.gather
        cells_CE: Tensor = Gather.apply(rows_ME, index.take, index.cells, index.offsets)  # type: ignore[no-untyped-call]
        every: Tensor = Attention.apply(cells_CE, packing.blocks, packing.masks, scale)  # type: ignore[no-untyped-call]
        heads: Tensor = Gather.apply(every, back.take, back.cells, back.offsets)  # type: ignore[no-untyped-call]
        return heads.view(-1, self.heads.query * self._width)


def _norm(norm: Any, x_ND: Tensor) -> Tensor:
    normed: Tensor = RmsNorm.apply(x_ND, norm.weight, norm.variance_epsilon)  # type: ignore[no-untyped-call]
    return normed


def _project(layers: Sequence[Any], x_NI: Tensor, adapter: str | None) -> Tensor:
    """Outputs of several LoRA layers with the same input, side by side."""
    weights = [layer.get_base_layer().weight for layer in layers]
    w_OI = torch.cat(weights) if len(weights) > 1 else weights[0]
    if adapter is None:
        return linear(x_NI, w_OI)
    a_RI = torch.cat([layer.lora_A[adapter].weight for layer in layers])
    b_OR: Tensor = torch.block_diag(*(layer.lora_B[adapter].weight for layer in layers))  # type: ignore[no-untyped-call]
    out: Tensor = Merged.apply(x_NI, w_OI, a_RI, b_OR, layers[0].scaling[adapter])  # type: ignore[no-untyped-call]
    return out
