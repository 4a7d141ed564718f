"""LoRA's term, added in place: y += s · (x Aᵀ) Bᵀ.

The same numbers as PEFT's own forward up to rounding, without its three extra passes over activations of full width,
which cost more than the low-rank products themselves.
Shape suffixes: O output width, I input width, R rank; leading dimensions are free.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class LowRank(torch.autograd.Function):
    """`LowRank.apply(y, x, a_RI, b_OR, s)` changes y and returns it; gradients for all but s."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, a_RI: Tensor, b_OR: Tensor, scaling: float) -> Tensor:
        """Add the term to y [..., O] in place; x is [..., I]."""
        x_NI = x.flatten(0, -2)
        u_NR = x_NI.to(a_RI.dtype) @ a_RI.T
        if y.dtype == b_OR.dtype:
            y.flatten(0, -2).addmm_(u_NR, b_OR.T, alpha=scaling)
        else:
            y.flatten(0, -2).add_((u_NR @ b_OR.T).mul_(scaling).to(y.dtype))
        ctx.mark_dirty(y)
        ctx.save_for_backward(x_NI, u_NR, a_RI, b_OR)
        ctx.scaling = scaling
        ctx.shape = x.shape
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, None]:
        """Gradients of y, x, A and B; y's passes through."""
        x_NI, u_NR, a_RI, b_OR = ctx.saved_tensors
        grad_NO = grad.flatten(0, -2).to(b_OR.dtype)
        grad_NR = (grad_NO @ b_OR).mul_(ctx.scaling)
        _, x_asked, a_asked, b_asked, _ = ctx.needs_input_grad
        grad_x = (grad_NR @ a_RI).to(x_NI.dtype).view(ctx.shape) if x_asked else None
        grad_a = grad_NR.T @ x_NI.to(a_RI.dtype) if a_asked else None
        grad_b = (grad_NO.T @ u_NR).mul_(ctx.scaling) if b_asked else None
        return grad, grad_x, grad_a, grad_b, None
