"""Losses of single positions from hidden states through the head, without logits of more than one chunk and without recomputing.

A position's loss depends on its own logits only, so its gradient [D] is taken while its chunk's logits are there; the
backward pass scales it. Head products: one forward and, for what is trained, one backward; nothing is computed twice.
Products take whole chunks, written into one buffer; what lies between goes over few rows at a time, which stay in the cache.
Shape suffixes: S positions of a chunk or of all, D width, W vocabulary, X values of a position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CACHED_CELLS = 2**18
"""Logits of one view that a CPU works on at a time: 1 MiB. An accelerator takes the whole chunk."""

Function = Callable[..., Tensor]
"""Logits [s, W] of every view, then what else a position has: gives [s, X]. No row may depend on another."""


class Rowwise(torch.autograd.Function):
    """`Rowwise.apply(function, head_WD, chunk, views, *tensors)`: [S, X]; gradients of the first column.

    The first `views` tensors are hidden states [S, D]; gradients reach those that ask for one. `head_WD` gets none.
    """

    @staticmethod
    def forward(ctx: Any, function: Function, head_WD: Tensor, chunk: int, views: int, *tensors: Tensor) -> Tensor:
        """Values, and on the side the slopes of the first of them."""
        asked = [ctx.needs_input_grad[4 + index] for index in range(views)]
        shape = (min(chunk, len(tensors[0])), len(head_WD))
        buffers = [head_WD.new_empty(shape) for _ in range(views)]
        values: list[Tensor] = []
        slopes: list[list[Tensor]] = []
        for part in zip(*(torch.split(tensor, chunk) for tensor in tensors), strict=True):
            pairs = zip(part, buffers, strict=False)
            logits = [torch.mm(hidden, head_WD.t(), out=buffer[: len(hidden)]) for hidden, buffer in pairs]
            values += _by_rows(function, logits, part[views:], asked)
            slopes.append([each @ head_WD for each, ask in zip(logits, asked, strict=True) if ask])
        ctx.asked = asked
        ctx.save_for_backward(*(torch.cat(parts) for parts in zip(*slopes, strict=True)))
        return torch.cat(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_SX: Tensor) -> tuple[Tensor | None, ...]:
        """Each position's slope times what arrives for its first value; the other columns have none."""
        slopes = iter(ctx.saved_tensors)
        grad_S1 = grad_SX[:, :1]
        found = [_scaled(grad_S1, next(slopes)) if ask else None for ask in ctx.asked]
        return (None, None, None, None, *found, *[None] * (len(ctx.needs_input_grad) - 4 - len(found)))


def _by_rows(
    function: Function, logits: Sequence[Tensor], others: Sequence[Tensor], asked: Sequence[bool]
) -> list[Tensor]:
    """Values of few rows after the other; asked logits are overwritten by their gradients."""
    first = logits[0]
    rows = max(1, CACHED_CELLS // first.shape[1]) if first.device.type == "cpu" else len(first)
    values = []
    for part in zip(*(torch.split(tensor, rows) for tensor in (*logits, *others)), strict=True):
        leaves = [each.detach().requires_grad_(ask) for each, ask in zip(part, asked, strict=False)]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        with torch.set_grad_enabled(bool(wanted)):
            value_SX = function(*leaves, *part[len(leaves) :])
            found = torch.autograd.grad(value_SX[:, 0].sum(), wanted) if wanted else ()
        values.append(value_SX.detach())
        for leaf, gradient in zip(wanted, found, strict=True):
            leaf.detach().copy_(gradient)
    return values


def _scaled(grad_S1: Tensor, slope_SD: Tensor) -> Tensor:
    return grad_S1.to(slope_SD.dtype) * slope_SD
