"""Losses of single positions from hidden states through the head, without logits of more than one chunk and without recomputing.

A position's loss depends on its own hidden states only, so its gradient [D] can be taken while its chunk's logits are there;
the backward pass scales it. Head products: one forward and, for what is trained, one backward; nothing is computed twice.
Shape suffixes: S positions, D width, X values of a position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Rowwise(torch.autograd.Function):
    """`Rowwise.apply(function, chunk, hidden, *tensors)`: [S, X]; gradients of the first column, for the first `hidden` tensors."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Tensor], chunk: int, hidden: int, *tensors: Tensor) -> Tensor:
        """`function` of a chunk of every tensor gives [s, X]; no row may depend on another."""
        asked = [index < hidden and ctx.needs_input_grad[3 + index] for index in range(len(tensors))]
        values: list[Tensor] = []
        gradients: list[list[Tensor]] = []
        for part in zip(*(torch.split(tensor, chunk) for tensor in tensors), strict=True):
            leaves = [each.detach().requires_grad_(ask) for each, ask in zip(part, asked, strict=True)]
            wanted = [leaf for leaf, ask in zip(leaves, asked, strict=True) if ask]
            with torch.set_grad_enabled(bool(wanted)):
                value_SX = function(*leaves)
                if wanted:
                    gradients.append(list(torch.autograd.grad(value_SX[:, 0].sum(), wanted)))
            values.append(value_SX.detach())
        ctx.asked = asked
        ctx.save_for_backward(*(torch.cat(parts) for parts in zip(*gradients, strict=True)))
        return torch.cat(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_SX: Tensor) -> tuple[Tensor | None, ...]:
        """Each position's gradient times what arrives for its first value; the other columns have none."""
        slopes = iter(ctx.saved_tensors)
        found = [grad_SX[:, :1].to(slope.dtype) * slope if ask else None for ask, slope in _paired(ctx.asked, slopes)]
        return (None, None, None, *found)


def _paired(asked: list[bool], slopes: Any) -> list[tuple[bool, Any]]:
    return [(ask, next(slopes) if ask else None) for ask in asked]
