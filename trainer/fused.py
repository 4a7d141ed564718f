"""Pieces of a frozen transformer layer with hand-written gradients: fewer passes over activations than autograd records.

The same numbers as transformers' modules and PEFT's forward up to rounding. Norm weights get no gradient.
Shape suffixes: N tokens, I input width, O output width, R rank, H normed heads, E head width, M rows, C cells, F any width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag

Blocks = tuple[tuple[int, int, int], ...]
"""Rows, queries and keys of each block of attention; cells are queries, keys, values, block after block."""


class Merged(torch.autograd.Function):
    """`Merged.apply(x, w, a, b, s)` is x (W + s B A)ᵀ; gradients for x, A and B. One wide product instead of three."""

    @staticmethod
    def forward(ctx: Any, x_NI: Tensor, w_OI: Tensor, a_RI: Tensor, b_OR: Tensor, scaling: float) -> Tensor:
        """[N, O]."""
        whole_OI = torch.addmm(w_OI, b_OR, a_RI, alpha=scaling)
        ctx.save_for_backward(x_NI, whole_OI, a_RI, b_OR)
        ctx.scaling = scaling
        return x_NI @ whole_OI.T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NO: Tensor) -> tuple[Tensor | None, None, Tensor | None, Tensor | None, None]:
        """Gradients of x, A and B."""
        x_NI, whole_OI, a_RI, b_OR = ctx.saved_tensors
        x_asked, _, a_asked, b_asked, _ = ctx.needs_input_grad
        grad_x = grad_NO @ whole_OI if x_asked else None
        grad_a = (grad_NO @ b_OR).mul_(ctx.scaling).T @ x_NI if a_asked else None
        grad_b = ((x_NI @ a_RI.T).T @ grad_NO).mul_(ctx.scaling).T if b_asked else None
        return grad_x, None, grad_a, grad_b, None


class RmsNorm(torch.autograd.Function):
    """`RmsNorm.apply(x, w, eps)`; gradient for x."""

    @staticmethod
    def forward(ctx: Any, x_NF: Tensor, w_F: Tensor, eps: float) -> Tensor:
        """[N, F]."""
        scale_N1 = _scale(x_NF, eps)
        ctx.save_for_backward(x_NF, w_F, scale_N1)
        return (x_NF * scale_N1).mul_(w_F)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NF: Tensor) -> tuple[Tensor, None, None]:
        """Gradient of x."""
        x_NF, w_F, scale_N1 = ctx.saved_tensors
        return _norm_backward(grad_NF * w_F, x_NF, scale_N1), None, None


class Rotated(torch.autograd.Function):
    """`Rotated.apply(y, w, cos, sin, eps)`: the first H heads normed and turned to their positions, the rest as they are."""

    @staticmethod
    def forward(ctx: Any, y_NXE: Tensor, w_HE: Tensor, cos_N1E: Tensor, sin_N1E: Tensor, eps: float) -> Tensor:
        """[N, X, E] with X - H heads of values."""
        heads, half = len(w_HE), w_HE.shape[1] // 2
        x_NHE = y_NXE[:, :heads]
        scale_NH1 = _scale(x_NHE, eps)
        normed = (x_NHE * scale_NH1).mul_(w_HE)
        out = torch.empty_like(y_NXE)
        out[:, heads:] = y_NXE[:, heads:]
        turned = out[:, :heads]
        torch.mul(normed, cos_N1E, out=turned)
        turned[..., :half].addcmul_(normed[..., half:], sin_N1E[..., :half], value=-1)
        turned[..., half:].addcmul_(normed[..., :half], sin_N1E[..., half:])
        ctx.save_for_backward(y_NXE, w_HE, cos_N1E, sin_N1E, scale_NH1)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NXE: Tensor) -> tuple[Tensor, None, None, None, None]:
        """Gradient of y."""
        y_NXE, w_HE, cos_N1E, sin_N1E, scale_NH1 = ctx.saved_tensors
        heads, half = len(w_HE), w_HE.shape[1] // 2
        turned = grad_NXE[:, :heads]
        grad = turned * cos_N1E
        grad[..., :half].addcmul_(turned[..., half:], sin_N1E[..., half:])
        grad[..., half:].addcmul_(turned[..., :half], sin_N1E[..., :half], value=-1)
        out = torch.empty_like(grad_NXE)
        out[:, heads:] = grad_NXE[:, heads:]
        out[:, :heads] = _norm_backward(grad.mul_(w_HE), y_NXE[:, :heads], scale_NH1)
        return out, None, None, None, None


class Gated(torch.autograd.Function):
    """`Gated.apply(y)`: silu of y's first half times its second half."""

    @staticmethod
    def forward(ctx: Any, y_NF: Tensor) -> Tensor:
        """[N, F/2]."""
        gate, up = y_NF.chunk(2, dim=1)
        open_ = torch.nn.functional.silu(gate)
        ctx.save_for_backward(y_NF, open_)
        return open_ * up

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Gradient of y."""
        y_NF, open_ = ctx.saved_tensors
        gate, up = y_NF.chunk(2, dim=1)
        out = torch.empty_like(y_NF)
        out_gate, out_up = out.chunk(2, dim=1)
        torch.mul(grad, open_, out=out_up)
        torch.ops.aten.silu_backward.grad_input(grad * up, gate, grad_input=out_gate)
        return out


class Gather(torch.autograd.Function):
    """`Gather.apply(x, index, cells, offsets)`: rows of x by index; `cells` and `offsets` list where each row went."""

    @staticmethod
    def forward(ctx: Any, x_MF: Tensor, index_C: Tensor, cells: Tensor, offsets_M: Tensor) -> Tensor:
        """[C, F]."""
        ctx.save_for_backward(cells, offsets_M)
        return x_MF.index_select(0, index_C)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_CF: Tensor) -> tuple[Tensor, None, None, None]:
        """Gradient of x: each row's copies added up."""
        cells, offsets_M = ctx.saved_tensors
        return embedding_bag(cells, grad_CF.contiguous(), offsets_M, mode="sum"), None, None, None


class Attention(torch.autograd.Function):
    """`Attention.apply(cells, blocks, masks, scale)`: softmax attention in each block of cells."""

    @staticmethod
    def forward(ctx: Any, cells_CE: Tensor, blocks: Blocks, masks: tuple[Tensor, ...], scale: float) -> Tensor:
        """Outputs of all blocks one after the other, [cells, E]."""
        found, kept = [], []
        for (query, key, value), mask in zip(_parts(cells_CE, blocks), masks, strict=True):
            score = torch.baddbmm(mask, query, key.transpose(1, 2), alpha=scale).softmax(-1)
            found.append(torch.bmm(score, value).flatten(0, 1))
            kept.append(score)
        ctx.save_for_backward(cells_CE, *kept)
        ctx.blocks, ctx.scale = blocks, scale
        return torch.cat(found) if len(found) > 1 else found[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """Gradient of the cells."""
        cells_CE, *kept = ctx.saved_tensors
        out_CE = torch.empty_like(cells_CE)
        grads = torch.split(grad, [rows * queries for rows, queries, _ in ctx.blocks])
        parts = zip(_parts(cells_CE, ctx.blocks), _parts(out_CE, ctx.blocks), kept, grads, strict=True)
        for (query, key, value), (to_query, to_key, to_value), score, part in parts:
            upstream = part.view(query.shape)
            torch.bmm(score.transpose(1, 2), upstream, out=to_value)
            pull = torch.bmm(upstream, value.transpose(1, 2))
            pull = _softmax_backward(pull, score).mul_(ctx.scale)
            torch.bmm(pull, key, out=to_query)
            torch.bmm(pull.transpose(1, 2), query, out=to_key)
        return out_CE, None, None, None


def _parts(cells_CE: Tensor, blocks: Blocks) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    sizes = [size for rows, queries, keys in blocks for size in (rows * queries, rows * keys, rows * keys)]
    parts = iter(torch.split(cells_CE, sizes))
    for rows, _, _ in blocks:
        query, key, value = (next(parts).view(rows, -1, cells_CE.shape[1]) for _ in range(3))
        yield query, key, value


class TwoPartAttention(torch.autograd.Function):
    """`TwoPartAttention.apply(q, k1, v1, k2, v2, mask)`: attention over two sets of keys, which are not copied together."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, k1: Tensor, v1: Tensor, k2: Tensor, v2: Tensor, mask: Tensor) -> Tensor:
        """All [B, H, *, E], `mask` added to scores over both sets; gives [B, H, K, E]."""
        scores = [query @ key.transpose(2, 3) for key in (k1, k2)]
        score = torch.cat(scores, dim=3).mul_(query.shape[3] ** -0.5).add_(mask).softmax(3)
        ctx.save_for_backward(query, k1, v1, k2, v2, score)
        first, second = torch.split(score, [k1.shape[2], k2.shape[2]], dim=3)
        found: Tensor = (first @ v1).add_(second @ v2)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, None]:
        """Gradients of queries, keys and values."""
        query, k1, v1, k2, v2, score = ctx.saved_tensors
        sizes = [k1.shape[2], k2.shape[2]]
        pull = torch.cat([grad @ value.transpose(2, 3) for value in (v1, v2)], dim=3)
        pull = _softmax_backward(pull, score).mul_(query.shape[3] ** -0.5)
        pull1, pull2 = torch.split(pull, sizes, dim=3)
        to_v1, to_v2 = (part.transpose(2, 3) @ grad for part in torch.split(score, sizes, dim=3))
        to_query = (pull1 @ k1).add_(pull2 @ k2)
        return to_query, pull1.transpose(2, 3) @ query, to_v1, pull2.transpose(2, 3) @ query, to_v2, None


def _softmax_backward(grad: Tensor, score: Tensor) -> Tensor:
    # one pass; the same formula from public operations takes three
    found: Tensor = torch.ops.aten._softmax_backward_data(grad, score, -1, score.dtype)  # noqa: SLF001
    return found


def _scale(x: Tensor, eps: float) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()


def _norm_backward(grad: Tensor, x: Tensor, scale: Tensor) -> Tensor:
    """Gradient of x in x · scale; `grad` is overwritten."""
    pull = (grad * x).sum(-1, keepdim=True).mul_(scale.pow(3)).div_(-x.shape[-1])
    whole: Tensor = grad.mul_(scale).addcmul_(x, pull)
    return whole
