import math

import pytest
import torch
from torch.testing import assert_close

from trainer.methods import divergence

P = torch.tensor([[0.5, 0.25, 0.25]])
Q = torch.tensor([[0.25, 0.25, 0.5]])
LOG2 = math.log(2)


def gradient_of(function, logits):
    logits = logits.clone().requires_grad_(True)
    function(logits.log_softmax(1)).sum().backward()
    return logits.grad


def test_the_ends_of_the_jensen_shannon_family_are_the_two_kls():
    # KL(Q‖P) = .25 ln .5 + .5 ln 2 ; KL(P‖Q) = .5 ln 2 + .25 ln .5, here both .25 ln 2
    assert_close(divergence.jsd(P.log(), Q.log(), 0.0), torch.tensor([0.25 * LOG2]))
    assert_close(divergence.jsd(P.log(), Q.log(), 1.0), torch.tensor([0.25 * LOG2]))
    skewed = torch.tensor([[0.5, 0.375, 0.125]])
    forward = (skewed * (skewed / P).log()).sum()
    backward = (P * (P / skewed).log()).sum()
    assert_close(divergence.jsd(P.log(), skewed.log(), 0.0)[0], forward)
    assert_close(divergence.jsd(P.log(), skewed.log(), 1.0)[0], backward)
    assert forward != backward


def test_jensen_shannon_mixes_with_beta_towards_the_teacher():
    # β = 1/4: M = .75 P + .25 Q = [.4375, .25, .3125]
    m = torch.tensor([[0.4375, 0.25, 0.3125]])
    expected = 0.25 * (Q * (Q / m).log()).sum() + 0.75 * (P * (P / m).log()).sum()
    assert_close(divergence.jsd(P.log(), Q.log(), 0.25)[0], expected)


def test_pointwise_clip_bounds_every_summand_and_may_turn_the_sum_negative():
    parts = divergence.summands(P.log(), Q.log(), 0.0)
    assert_close(parts, torch.tensor([[-0.25 * LOG2, 0.0, 0.5 * LOG2]]))
    assert_close(divergence.jsd(P.log(), Q.log(), 0.0, clip=0.05), torch.tensor([0.05 - 0.25 * LOG2]))


def test_forward_kl_pulls_each_logit_by_the_difference_of_probabilities():
    logits = torch.tensor([[0.3, -0.2, 0.1]])
    found = gradient_of(lambda logp: divergence.forward_kl(logp, Q.log()), logits)
    assert_close(found, logits.softmax(1) - Q)


def test_renyi_has_its_value_and_tends_to_the_forward_kl():
    # ρ = 1/2: -2 ln Σ sqrt(q p)
    expected = -2 * math.log(2 * math.sqrt(0.125) + 0.25)
    assert_close(divergence.renyi(P.log(), Q.log(), 0.5), torch.tensor([expected]))
    assert_close(divergence.renyi(P.log(), Q.log(), 1.0), divergence.forward_kl(P.log(), Q.log()))
    near = divergence.renyi(P.log().double(), Q.log().double(), 0.9999).float()
    assert_close(near, divergence.forward_kl(P.log(), Q.log()), rtol=1e-3, atol=1e-5)


def test_renyis_gradient_is_an_escort_distribution():
    # dD/dz = p - q^ρ p^(1-ρ) / Σ
    logits = torch.tensor([[0.3, -0.2, 0.1]])
    p = logits.softmax(1)
    escort = Q**0.7 * p**0.3
    found = gradient_of(lambda logp: divergence.renyi(logp, Q.log(), 0.7), logits)
    assert_close(found, p - escort / escort.sum())


def test_the_geometric_target_is_normalised():
    # P^½ Q^½ ∝ [√.125, .25, √.125]
    part = torch.tensor([[0.125**0.5, 0.25, 0.125**0.5]])
    assert_close(divergence.geometric(P.log(), Q.log(), 0.5).exp(), part / part.sum())
    assert_close(divergence.geometric(P.log(), Q.log(), 1.0), P.log())


def test_entropy_of_a_half_and_two_quarters():
    assert_close(divergence.entropy(P.log()), torch.tensor([1.5 * LOG2]))


def test_k3_is_zero_at_equality_and_never_negative():
    ratio = torch.tensor([0.0, LOG2, -LOG2])
    assert_close(divergence.k3(ratio), torch.tensor([0.0, 0.5 - 1 + LOG2, 2 - 1 - LOG2]))


def test_ratios_are_bounded_and_the_capped_one_has_no_gradient():
    logp = torch.tensor([-1.0, -1.0, 0.0], requires_grad=True)
    recorded = torch.tensor([-1.0, -1.0 - math.log(3), -1e9])
    assert_close(divergence.capped_ratio(logp, recorded, 2.0), torch.tensor([1.0, 2.0, 2.0]))
    assert not divergence.capped_ratio(logp, recorded, 2.0).requires_grad
    free = divergence.ratio(logp, recorded)
    assert_close(free[:2], torch.tensor([1.0, 3.0]))
    assert free[2].isfinite()


@pytest.mark.parametrize("least", [1e-6, None])
def test_a_support_becomes_a_distribution_with_tail_or_renormalised(least):
    found = divergence.supported(torch.tensor([[0.5, 0.3]]).log(), least)
    expected = [[0.5, 0.3, 0.2]] if least else [[0.625, 0.375]]
    assert_close(found.exp(), torch.tensor(expected))
