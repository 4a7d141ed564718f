"""The LOPD objective: one pure function per equation of arXiv:2608.13040, and nothing else.

Symbols of the paper and the names used here:

    p^T, p^S      teacher and student next-token distributions   logp_teacher, logp_student
    V, M          teacher's top-M entries, support size          index, size
    ⊥             tail bucket: all mass outside V                last column after `with_tail`
    ω             1 on sampled tokens                            only those tokens are rows here
    δ             privilege                                      privilege
    A             verdict 2r - 1                                 advantage
    Δ, m, β       margin, its threshold, dual variable           margin, threshold, beta
    c_φ, c_φ0     latent context, its cold-start value           context, context_0
    λ, η_β        anchor weight, dual step                       weight, rate

Shape suffixes: S supervised tokens, W vocabulary, M support, N = M + 1, B trajectories,
L latent positions (J·K), D width. `weight_S` is ω over its normaliser: it sums to 1 over a batch,
so every expectation of the paper is a weighted sum and micro-batches simply add up.
All log-probabilities are natural and float32. Gradients flow wherever a docstring doesn't say otherwise.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from trainer.entries import LogProbs, largest

Reduction = Literal["mean", "sum"]
Normalisation = Literal["token", "trajectory"]


def log_probs(logits_SW: Tensor, index_SM: Tensor) -> Tensor:
    """Eq. 8: log p of the indexed tokens under the full softmax, [S, M]."""
    found_SM: Tensor = LogProbs.apply(logits_SW, index_SM)  # type: ignore[no-untyped-call]
    return found_SM


def support(logits_teacher_SW: Tensor, size: int) -> Tensor:
    """Eq. 9: V, the token ids of the teacher's `size` most probable entries, [S, M]; no gradient."""
    return largest(logits_teacher_SW.detach(), size)


def with_tail(logp_SM: Tensor, least: float) -> Tensor:
    """Eq. 9: append log p(⊥) = log(1 - Σ p), [S, N].

    `least` > 0 bounds -log Σ p from below: where the support holds all mass the tail keeps about
    `least` of probability and no gradient, instead of log 0 and a gradient of infinity.
    """
    logsum_S1 = logp_SM.float().logsumexp(1, keepdim=True).clamp(max=-least)
    return torch.cat([logp_SM.float(), torch.log(-torch.expm1(logsum_S1))], dim=1)


def reverse_kl(logp_student_SN: Tensor, logp_teacher_SN: Tensor) -> Tensor:
    """Eq. 10, inner term: KL(p̃^S ‖ p̃^T) of each token in nats, [S]."""
    return (logp_student_SN.exp() * (logp_student_SN - logp_teacher_SN)).sum(1)


def distillation(kl_S: Tensor, weight_S: Tensor) -> Tensor:
    """Eq. 10: E[Σ ω KL / Σ ω], scalar."""
    return (weight_S * kl_S).sum()


def privilege(logp_teacher_S: Tensor, logp_student_S: Tensor, clip: float | None) -> Tensor:
    """Eq. 11: δ = log p^T(a) - sg log p^S(a) of the sampled tokens, [S]; the student gets no gradient.

    `clip` bounds what one token can contribute, in nats (None is the paper's).
    """
    delta_S = logp_teacher_S - logp_student_S.detach()
    return delta_S if clip is None else delta_S.clamp(-clip, clip)


def verdict(reward_B: Tensor) -> Tensor:
    """§3.3: A = 2r - 1 in [-1, 1], [B]."""
    return 2 * reward_B - 1


def centred(advantage_S: Tensor, weight_S: Tensor) -> Tensor:
    """A minus its weighted batch mean, [S]: shifting every δ by a constant then leaves Δ unchanged (our option)."""
    return advantage_S - (weight_S * advantage_S).sum()


def margin(privilege_S: Tensor, advantage_S: Tensor, weight_S: Tensor) -> Tensor:
    """Eq. 12: Δ = E[Σ ω A δ / Σ ω], scalar."""
    return (weight_S * advantage_S * privilege_S).sum()


def anchor(context_BLD: Tensor, context_0_BLD: Tensor, reduction: Reduction) -> Tensor:
    """Eq. 13, last term without λ: ‖c_φ - sg c_φ0‖², averaged over the batch, scalar.

    "sum" is the paper's squared norm; "mean" divides it by L·D, as the released code does.
    """
    square_B = (context_BLD - context_0_BLD.detach()).square().flatten(1)
    return (square_B.sum(1) if reduction == "sum" else square_B.mean(1)).mean()


def lagrangian(distillation: Tensor, margin: Tensor, beta: float, threshold: float) -> Tensor:
    """Eq. 13 without the anchor: L + β (m - Δ), minimised over θ and φ, scalar.

    L and Δ are means with the same weights (10, 12), so it may as well be asked token by token and averaged afterwards.
    """
    return distillation + beta * (threshold - margin)


def dual_update(beta: float, margin: float, threshold: float, rate: float) -> float:
    """Eq. 13: β ← [β + η_β (m - Δ)]_+."""
    return max(0.0, beta + rate * (threshold - margin))


def nll(logp_S: Tensor, weight_S: Tensor) -> Tensor:
    """Eq. 14: negative log-likelihood of successful trajectories given their latent context, scalar."""
    return -(weight_S * logp_S).sum()


def weights(trajectory_S: Tensor, normalisation: Normalisation) -> Tensor:
    """ω over its normaliser (eqs. 10, 12, 14), float32 [S], sums to 1.

    "token": every token of the batch counts the same. "trajectory": every trajectory counts the same
    (the mean over trajectories of token means). `trajectory_S` names each token's trajectory.
    """
    if normalisation == "token":
        return torch.full(trajectory_S.shape, 1 / trajectory_S.numel(), device=trajectory_S.device)
    _, member_S, count_B = torch.unique(trajectory_S, return_inverse=True, return_counts=True)
    length_S: Tensor = count_B[member_S].float()
    return torch.reciprocal(length_S * count_B.numel())
