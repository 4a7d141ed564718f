"""Every equation worked out by hand on a vocabulary of three and two tokens.

token   p^T              p^S              sampled   r of its trajectory
0       .50 .25 .25      .25 .50 .25      1         1
1       .80 .10 .10      .60 .20 .20      0         0.25
"""

import math

import pytest
import torch
from torch.testing import assert_close

from trainer import objective as lopd

TEACHER_SW = torch.tensor([[0.5, 0.25, 0.25], [0.8, 0.1, 0.1]]).log()
STUDENT_SW = torch.tensor([[0.25, 0.5, 0.25], [0.6, 0.2, 0.2]]).log()
ACTION_S1 = torch.tensor([[1], [0]])
HALF_S = torch.tensor([0.5, 0.5])
LEAST = 1e-6


def test_log_probs_use_the_full_softmax_of_unnormalised_logits():
    # adding 3 to all logits of a row changes nothing: log .25 and log .80
    found = lopd.log_probs(TEACHER_SW + 3, ACTION_S1)
    assert_close(found, torch.tensor([[math.log(0.25)], [math.log(0.8)]]))


def test_support_is_the_teachers_top_m_and_carries_no_gradient():
    logits = torch.tensor([[1.0, 3.0, 2.0]], requires_grad=True)
    found = lopd.support(logits, 2)
    assert found.tolist() == [[1, 2]]
    assert not found.requires_grad


def test_tail_holds_the_rest_of_the_mass():
    # support of one: tails 1 - .5 and 1 - .8
    found = lopd.with_tail(TEACHER_SW[:, :1], LEAST).exp()
    assert_close(found, torch.tensor([[0.5, 0.5], [0.8, 0.2]]))


def test_reverse_kl_with_one_entry_and_tail():
    # entry 0 stands alone: the tails are one half and one fifth
    # token 0: .25 ln .5 + .75 ln 1.5 = -.173287 + .304099 = .130812
    # token 1: .60 ln .75 + .40 ln 2 = -.172609 + .277259 = .104650
    student_SN, teacher_SN = (lopd.with_tail(x[:, :1], LEAST) for x in (STUDENT_SW, TEACHER_SW))
    kl_S = lopd.reverse_kl(student_SN, teacher_SN)
    assert_close(kl_S, torch.tensor([0.130812, 0.104650]), atol=1e-6, rtol=0)
    # mean .117731; without the tail's terms it would be -.172948, not even a divergence
    assert_close(lopd.distillation(kl_S, HALF_S), torch.tensor(0.117731), atol=1e-6, rtol=0)


def test_support_of_the_whole_vocabulary_gives_the_full_kl():
    # token 0: .25 ln .5 + .5 ln 2 + .25 ln 1 = -.173287 + .346574 = .173287
    # token 1: .6 ln .75 + .4 ln 2 = -.172609 + .277259 = .104650
    index_SM = lopd.support(TEACHER_SW, 3)
    pair = [lopd.with_tail(lopd.log_probs(x, index_SM), LEAST) for x in (STUDENT_SW, TEACHER_SW)]
    assert_close(lopd.reverse_kl(*pair), torch.tensor([0.173287, 0.104650]), atol=1e-5, rtol=0)


def test_kl_and_its_gradient_vanish_when_student_equals_teacher():
    logits = TEACHER_SW.clone().requires_grad_()
    index_SM = lopd.support(TEACHER_SW, 2)
    teacher_SN = lopd.with_tail(lopd.log_probs(TEACHER_SW, index_SM), LEAST)
    kl_S = lopd.reverse_kl(lopd.with_tail(lopd.log_probs(logits, index_SM), LEAST), teacher_SN)
    kl_S.sum().backward()
    assert_close(kl_S, torch.zeros(2), atol=1e-6, rtol=0)
    assert_close(logits.grad, torch.zeros(2, 3), atol=1e-6, rtol=0)


def test_privilege_of_sampled_tokens_stops_the_students_gradient():
    # ln .25 - ln .5 = -.693147 ; ln .8 - ln .6 = .287682
    teacher, student = TEACHER_SW.clone().requires_grad_(), STUDENT_SW.clone().requires_grad_()
    delta_S = lopd.privilege(
        lopd.log_probs(teacher, ACTION_S1)[:, 0], lopd.log_probs(student, ACTION_S1)[:, 0], clip=None
    )
    delta_S.sum().backward()
    assert_close(delta_S, torch.tensor([-0.693147, 0.287682]), atol=1e-6, rtol=0)
    assert student.grad is None
    assert teacher.grad.abs().sum() > 0


def test_clipped_privilege_is_bounded_and_pushes_no_further():
    teacher = torch.tensor([-0.1, -9.0, -1.0], requires_grad=True)
    delta_S = lopd.privilege(teacher, torch.tensor([-4.0, -1.0, -1.5]), clip=2.0)
    delta_S.sum().backward()
    assert delta_S.tolist() == [2.0, -2.0, 0.5]
    assert teacher.grad.tolist() == [0.0, 0.0, 1.0]


def test_margin_weighs_privilege_with_the_verdict():
    # A = (1, -.5); Δ = (1 · -.693147 + -.5 · .287682) / 2 = (-.693147 - .143841) / 2 = -.418494
    advantage_S = lopd.verdict(torch.tensor([1.0, 0.25]))
    assert advantage_S.tolist() == [1.0, -0.5]
    found = lopd.margin(torch.tensor([-0.693147, 0.287682]), advantage_S, HALF_S)
    assert_close(found, torch.tensor(-0.418494), atol=1e-6, rtol=0)


def test_centred_advantage_ignores_a_constant_privilege():
    # A - mean = (.75, -.75): a constant δ gives Δ = 0
    advantage_S = lopd.centred(torch.tensor([1.0, -0.5]), HALF_S)
    assert advantage_S.tolist() == [0.75, -0.75]
    assert lopd.margin(torch.tensor([3.0, 3.0]), advantage_S, HALF_S).item() == 0


def test_lagrangian_adds_the_constraint_and_loses_it_with_beta_zero():
    # .117731 + 2 (.05 + .418494) = 1.054719
    distilled, margin = torch.tensor(0.117731), torch.tensor(-0.418494)
    assert_close(lopd.lagrangian(distilled, margin, 2.0, 0.05), torch.tensor(1.054719))
    assert lopd.lagrangian(distilled, margin, 0.0, 0.05) == distilled


def test_constraint_pulls_the_teacher_towards_rewarded_tokens():
    # d(-β Δ)/d log p^T(a) = -β A w = -2 · (1, -.5) / 2 = (-1, .5): descent raises token 0 and lowers token 1
    teacher_S = torch.tensor([-1.0, -1.0], requires_grad=True)
    delta_S = lopd.privilege(teacher_S, torch.tensor([-1.0, -1.0]), clip=None)
    margin = lopd.margin(delta_S, torch.tensor([1.0, -0.5]), HALF_S)
    lopd.lagrangian(torch.tensor(0.0), margin, 2.0, 0.05).backward()
    assert_close(teacher_S.grad, torch.tensor([-1.0, 0.5]))


@pytest.mark.parametrize(
    ("beta", "margin", "after"),
    [(1.0, -0.418494, 1.234247), (0.1, 0.45, 0.0), (0.0, 0.05, 0.0)],  # 1 + .5 · .468494 ; .1 - .2 < 0 ; satisfied
)
def test_dual_variable_follows_the_violation_and_never_turns_negative(beta, margin, after):
    assert lopd.dual_update(beta, margin, threshold=0.05, rate=0.5) == pytest.approx(after)


def test_anchor_is_the_squared_distance_to_the_cold_start():
    # differences (1, 2), (0, 0) and (3, 0), (0, 1): squares sum to 5 and 10, over 4 elements each
    context_BLD = torch.tensor([[[1.0, 2.0], [0, 0]], [[3.0, 0], [0, 1]]], requires_grad=True)
    start_BLD = torch.zeros(2, 2, 2, requires_grad=True)
    assert lopd.anchor(context_BLD, start_BLD, "sum").item() == 7.5
    found = lopd.anchor(context_BLD, start_BLD, "mean")
    found.backward()
    assert found.item() == 7.5 / 4
    assert start_BLD.grad is None


def test_nll_of_successes():
    # -(ln .25 + ln .8) / 2 = (1.386294 + .223144) / 2 = .804719
    found = lopd.nll(lopd.log_probs(TEACHER_SW, ACTION_S1)[:, 0], HALF_S)
    assert_close(found, torch.tensor(0.804719), atol=1e-6, rtol=0)


def test_weights_count_tokens_or_trajectories():
    # trajectory 0 has two tokens, trajectory 1 has one
    trajectory_S = torch.tensor([0, 1, 0])
    assert_close(lopd.weights(trajectory_S, "token"), torch.tensor([1 / 3, 1 / 3, 1 / 3]))
    assert_close(lopd.weights(trajectory_S, "trajectory"), torch.tensor([0.25, 0.5, 0.25]))


@pytest.mark.parametrize("support", [[0, 1], [0, 1, 2, 3]])
@pytest.mark.parametrize("student", [[200.0, 0, 0, 0], [0.0, 0, 0, 200.0], [0.0, 0, 0, 0]])
@pytest.mark.parametrize("teacher", [[200.0, 0, 0, 0], [0.0, 0, 0, 200.0], [60.0, 60, 0, 0]])
def test_saturated_distributions_keep_value_and_gradients_finite(student, teacher, support):
    logits_S, logits_T = (torch.tensor([x], requires_grad=True) for x in (student, teacher))
    index_SM = torch.tensor([support])
    pair = [lopd.with_tail(lopd.log_probs(x, index_SM), LEAST) for x in (logits_S, logits_T)]
    kl = lopd.reverse_kl(*pair).sum()
    kl.backward()
    assert torch.isfinite(kl)
    assert torch.isfinite(logits_S.grad).all()
    # d KL / d z^T_k is a difference of two probabilities, whatever the logits are
    assert logits_T.grad.abs().max() < 1.1
