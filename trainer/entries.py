"""Few entries out of a whole vocabulary's row: their log-probabilities and which are the largest, in few passes over the row.

Shape suffixes: S rows, W vocabulary, M entries asked for, B blocks, E entries of a block.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 256


class LogProbs(torch.autograd.Function):
    """`LogProbs.apply(logits_SW, index_SM)`: z_index - logsumexp(z); exponentials are kept for the gradient."""

    @staticmethod
    def forward(ctx: Any, logits_SW: Tensor, index_SM: Tensor) -> Tensor:
        """[S, M]."""
        peak_S1 = logits_SW.amax(1, keepdim=True)
        exp_SW = (logits_SW - peak_S1).exp_()
        total_S1 = exp_SW.sum(1, keepdim=True)
        ctx.save_for_backward(exp_SW, total_S1, index_SM)
        found: Tensor = logits_SW.gather(1, index_SM) - (peak_S1 + total_S1.log())
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_SM: Tensor) -> tuple[Tensor, None]:
        """Gradient of the logits: what arrives at the entries, less softmax times its sum."""
        exp_SW, total_S1, index_SM = ctx.saved_tensors
        grad_SW: Tensor = exp_SW * (-grad_SM.sum(1, keepdim=True) / total_S1)
        return grad_SW.scatter_add_(1, index_SM, grad_SM), None


def largest(values_SW: Tensor, size: int) -> Tensor:
    """Indices of the `size` largest entries of each row in descending order, [S, M]; sorts those of the best blocks only.

    The largest entries lie in the blocks with the largest maxima, or in what is left over behind the last block.
    """
    width = values_SW.shape[1]
    size, blocks = min(size, width), width // BLOCK
    if blocks <= 2 * size:
        return values_SW.topk(size, dim=1).indices
    whole = blocks * BLOCK
    values_SBE = values_SW[:, :whole].view(-1, blocks, BLOCK)
    best_SM = values_SBE.amax(2).topk(size, dim=1).indices
    inside_SME = best_SM[:, :, None] * BLOCK + torch.arange(BLOCK, device=values_SW.device)
    behind_SE = torch.arange(whole, width, device=values_SW.device).expand(len(values_SW), -1)
    index = torch.cat([inside_SME.flatten(1), behind_SE], dim=1)
    return index.gather(1, values_SW.gather(1, index).topk(size, dim=1).indices)
