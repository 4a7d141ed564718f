"""Divergences between next-token distributions and the ratios that weight them: pure, shared by every method.

Rows are log-probabilities [S, N] in nats: over the whole vocabulary, or over a support with its tail
(`trainer.objective.with_tail`). Results are [S] unless a docstring says otherwise. Gradients flow unless it says so.
Shape suffixes: S supervised tokens, N entries.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer import objective

LOG_RATIO_BOUND = 20.0
"""Log-ratios are clamped here before `exp` (SDPO's code): finite whatever was recorded."""


def summands(logp_student_SN: Tensor, logp_teacher_SN: Tensor, beta: float) -> Tensor:
    """Each entry's part of the generalised Jensen-Shannon divergence, [S, N]; it may be negative, the sum may not.

    M = (1-β) p_S + β p_T ; β KL(p_T‖M) + (1-β) KL(p_S‖M). The ends are KL(p_T‖p_S) at 0 and KL(p_S‖p_T) at 1
    (the convention of TRL, OPSD and SDPO).
    """
    if beta == 0:
        return logp_teacher_SN.exp() * (logp_teacher_SN - logp_student_SN)
    if beta == 1:
        return logp_student_SN.exp() * (logp_student_SN - logp_teacher_SN)
    share = torch.tensor(beta, device=logp_student_SN.device)
    middle_SN = torch.logaddexp(logp_student_SN + torch.log1p(-share), logp_teacher_SN + share.log())
    from_teacher_SN = logp_teacher_SN.exp() * (logp_teacher_SN - middle_SN)
    return beta * from_teacher_SN + (1 - beta) * logp_student_SN.exp() * (logp_student_SN - middle_SN)


def jsd(logp_student_SN: Tensor, logp_teacher_SN: Tensor, beta: float, clip: float | None = None) -> Tensor:
    """Generalised Jensen-Shannon divergence; `clip` bounds every entry's summand from above first (OPSD's pointwise clip)."""
    part_SN = summands(logp_student_SN, logp_teacher_SN, beta)
    return (part_SN if clip is None else part_SN.clamp(max=clip)).sum(1)


def forward_kl(logp_student_SN: Tensor, logp_teacher_SN: Tensor) -> Tensor:
    """KL(p_T ‖ p_S)."""
    return jsd(logp_student_SN, logp_teacher_SN, 0.0)


def renyi(logp_student_SN: Tensor, logq_SN: Tensor, order: float) -> Tensor:
    """D_ρ(q ‖ p_S) = log Σ q^ρ p_S^(1-ρ) / (ρ-1); forward KL at ρ = 1 (SR-OPSD)."""
    if order == 1:
        return forward_kl(logp_student_SN, logq_SN)
    return (order * logq_SN + (1 - order) * logp_student_SN).logsumexp(1) / (order - 1)


def geometric(logp_one_SN: Tensor, logp_other_SN: Tensor, share: float) -> Tensor:
    """Log q with q ∝ p_one^share · p_other^(1-share), [S, N]."""
    return (share * logp_one_SN + (1 - share) * logp_other_SN).log_softmax(1)


def entropy(logp_SN: Tensor) -> Tensor:
    """-Σ p log p."""
    return -(logp_SN.exp() * logp_SN).sum(1)


def k3(log_ratio_S: Tensor) -> Tensor:
    """e^(-l) - 1 + l of l = log π - log π_ref: a non-negative one-sample estimate of KL(π ‖ π_ref)."""
    return torch.exp(-log_ratio_S) - 1 + log_ratio_S


def ratio(logp_S: Tensor, recorded_S: Tensor) -> Tensor:
    """π / π_recorded of the sampled tokens; gradients reach π."""
    return (logp_S - recorded_S).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).exp()


def capped_ratio(logp_S: Tensor, recorded_S: Tensor, cap: float) -> Tensor:
    """The same, never above `cap`, without gradient: a truncated importance weight."""
    return ratio(logp_S.detach(), recorded_S).clamp(max=cap)


def supported(logp_SM: Tensor, least: float | None) -> Tensor:
    """A support's log-probabilities as a distribution: with a tail bucket, or renormalised when `least` is None."""
    return logp_SM.log_softmax(1) if least is None else objective.with_tail(logp_SM, least)
