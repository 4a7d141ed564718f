"""Each method's own formula, by hand."""

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from trainer.method_config import OpsdConfig, SrOpsdConfig, TextTeacherConfig
from trainer.methods import divergence
from trainer.methods.anchored_opsd import strayed
from trainer.methods.opsd import tempered_jsd
from trainer.methods.sdft import row_mean
from trainer.methods.skill_sd import Bandit, weighted_k3
from trainer.methods.sr_opsd import projected
from trainer.methods.text_method import evidence_for, sibling, trajectory_weights
from trainer.methods.usd import divergence_and_difficulty, worth_learning
from trainer.roles import STUDENT

P = torch.tensor([[0.5, 0.25, 0.25]]).log()
Q = torch.tensor([[0.25, 0.25, 0.5]]).log()


def test_sdft_skips_the_first_tokens_and_counts_trajectories_the_same(samples):
    every = samples(3)
    lengths = [sum(len(turn.sampled_ids) for turn in sample.episode.turns) for sample in every]
    weight = trajectory_weights(every, skip=3)
    for part, length in zip(weight.split(lengths), lengths, strict=True):
        assert_close(part, torch.tensor([0.0] * 3 + [1 / 3 / (length - 3)] * (length - 3)))


def test_sdfts_ratio_is_a_mean_over_the_trajectory():
    assert_close(row_mean(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1])), torch.tensor([2.0, 2.0, 5.0]))


def test_sdfts_loss_is_the_forward_kl_over_the_whole_vocabulary(new_method, group):
    method, (sample, *_) = new_method("sdft", skip=0, ratio_cap=1e9), group()
    with method.roles.apart(), torch.no_grad():
        kept, openings = method.covered([sample])
        (pair,) = method.twin_pairs(kept, openings, trajectory_weights(kept))
        logits = [
            method.roles.head(method.passes.plain(batch, adapter)).log_softmax(1)
            for batch, adapter in ((pair.student, STUDENT), (pair.teacher, "teacher"))
        ]
        kl = (logits[1].exp() * (logits[1] - logits[0])).sum(1)
        action = logits[0].gather(1, pair.student.action_S[:, None])[:, 0]
        ratio = (action - pair.student.recorded_S).exp().mean()
    assert method.step([sample])["loss"] == pytest.approx((kl.mean() * ratio).item(), rel=1e-4)


def test_opsds_temperature_flattens_both_sides():
    found = tempered_jsd(P, Q, OpsdConfig(temperature=2.0))
    flat = [torch.softmax(each / 2, 1) for each in (P, Q)]
    assert_close(found, (flat[1] * (flat[1] / flat[0]).log()).sum(1))


def test_skill_sds_gradient_is_the_reverse_kls():
    # l = ln(.5/.25), ρ = 1: d/d log π of ρ k3(l) = k3 + (1 - e^-l) = l
    logp = torch.tensor([0.5]).log().requires_grad_(True)
    weighted_k3(logp, torch.tensor([0.25]).log(), logp.detach()).sum().backward()
    assert_close(logp.grad, torch.tensor([math.log(2)]))


def test_ucb_tries_every_skill_then_the_best_bound():
    bandit = Bandit()
    for reward, arm in ((0.0, "a"), (0.2, "b")):
        bandit.pay(reward)
        assert bandit.choose(["a", "b"], 2**0.5) == arm
    # "a" was paid the 0.2 of its task's next visit; "b" gets 0.9 now
    bandit.pay(0.9)
    assert (bandit.total, bandit.plays) == ({"a": 0.2, "b": 0.9}, {"a": 1, "b": 1})
    assert bandit.choose(["a", "b"], 2**0.5) == "b"
    bandit.pay(0.0)
    # a: .2 + √2 √(ln 3) = 1.682, b: .45 + √2 √(ln 3 / 2) = 1.498
    assert bandit.choose(["a", "b"], 2**0.5) == "a"
    assert Bandit(**bandit.wire()).wire() == bandit.wire()


def test_sr_opsd_projects_onto_the_geometric_target():
    config = SrOpsdConfig(reference_weight=0.5, order=0.5)
    target = divergence.geometric(Q, P, 0.5)
    expected = -2 * (0.5 * (target + P)).logsumexp(1)
    assert_close(projected(P, Q, P, config), expected)
    assert projected(P, Q, P, config.model_copy(update={"token_clip": 0.001})).item() == pytest.approx(0.001)


def test_usds_tokens_are_worth_more_than_they_cost():
    found = divergence_and_difficulty(P, Q)
    assert_close(found, torch.tensor([[0.25 * math.log(2), math.log(4)]]))
    kl, difficulty = torch.tensor([0.5, 0.1]), torch.tensor([1.0, 1.0])
    assert worth_learning(kl, difficulty, 0.3).tolist() == [1.0, 0.0]
    assert worth_learning(kl, difficulty, 0.0).tolist() == [1.0, 1.0]


def test_usds_price_rises_above_the_budget_and_the_level_follows_the_slope(new_method):
    method = new_method("usd", budget=0.1, price_rate=0.5)
    assert method.level == 4
    method.after({"difficulty": 0.3, "gain": 1.0, "neighbour_gain": 2.0})
    assert (method.price, method.level) == (pytest.approx(0.1), 3)
    method.after({"difficulty": 0.0, "gain": 1.0, "neighbour_gain": 2.0})
    assert (method.price, method.level) == (pytest.approx(0.05), 4)


def test_the_canonical_anchor_acts_where_the_rollout_strays(samples):
    one, other = (sample.episode for sample in samples(2))
    assert strayed(one, one).sum() == 0
    found = strayed(one, other)
    tokens = [[token for turn in episode.turns for token in turn.sampled_ids] for episode in (one, other)]
    expected = [float(i >= len(tokens[0]) or tokens[0][i] != token) for i, token in enumerate(tokens[1])]
    assert found.tolist() == expected
    assert 0 < found.sum() < len(found)


def test_anchored_opsd_adds_the_targets_nll(new_method, group):
    every = group()
    plain, anchored = (new_method(name).step(every) for name in ("opsd", "anchored_opsd"))
    assert anchored["targets"] == 4
    assert anchored["loss"] == pytest.approx(plain["loss"] + anchored["anchor"], rel=1e-5)
    without = new_method("anchored_opsd").step([replace(sample, canonical=None) for sample in every])
    assert without["loss"] == pytest.approx(plain["loss"])


def test_a_sibling_is_a_solved_other_rollout_of_the_same_task(group):
    every = group()  # rewards 1, .25, 1, .25 of tasks 0, 0, 1, 1
    assert sibling(every[0], every, 1.0) is None
    assert sibling(every[1], every, 1.0).startswith(every[0].episode.task)
    assert sibling(every[1], every[2:], 1.0) is None


def test_rollouts_without_a_target_carry_no_loss(new_method, group):
    found = new_method("sdpo", evidence="sibling").step(group())
    assert (found["covered"], found["uncovered"]) == (2, 2)
    alone = new_method("sdpo", evidence="sibling").step(group()[:1])
    assert (alone["covered"], alone["tokens"]) == (0, 0)
    assert "loss" not in alone


@pytest.mark.parametrize(
    ("evidence", "own", "expected"),
    [("own", True, 1), ("own", False, None), ("retrieved", True, 0), ("own_or_retrieved", True, 1), ("own_or_retrieved", False, 0)],
)  # fmt: skip
def test_evidence_is_what_the_settings_grant(group, evidence, own, expected):
    sample = group()[0] if own else replace(group()[0], own=None)
    found = evidence_for(sample, [sample], TextTeacherConfig(evidence=evidence))
    assert found == (None if expected is None else sample.references[expected].document)


def test_equal_rewards_move_nothing_under_grpo(new_method, group):
    method = new_method("grpo")
    before = {name: weight.detach().clone() for name, weight in method.roles.parameters(STUDENT).items()}
    every = [replace(sample, episode=replace(sample.episode, reward=0.5)) for sample in group()]
    assert method.step(every)["tokens"] == 0
    assert all(torch.equal(before[name], weight) for name, weight in method.roles.parameters(STUDENT).items())


def test_grpo_makes_the_better_rollout_likelier(new_method, group):
    method = new_method("grpo", updates=3)
    every = [replace(sample, episode=_recorded_now(method, sample)) for sample in group()]
    method.step(every)
    moved = method.log_ratios(every)
    assert moved[0] > moved[1]
    assert moved[2] > moved[3]


def test_grpos_reference_term_holds_the_student_back(new_method, group):
    free, held = (new_method("grpo", kl=kl) for kl in (0.0, 0.5))
    assert "kl" not in free.step(group())
    held.step(group())
    assert held.step(group())["kl"] > 0


def test_dapo_leaves_out_groups_without_a_difference(new_method, group):
    every = group()
    equal = [replace(sample, episode=replace(sample.episode, reward=1.0)) for sample in every[:2]]
    found = new_method("grpo", dynamic_sampling=True, aggregation="dapo").step([*equal, *every[2:]])
    assert found["left_out"] == 2


def test_rejection_sft_learns_from_what_was_solved_and_from_the_bank_if_asked(new_method, group):
    every = group()
    assert new_method("rejection_sft").step(every, every[:1])["used"] == 2
    assert new_method("rejection_sft", replay=True).step(every, every[:1])["used"] == 3


def test_importance_weights_reach_the_losses(new_method, group):
    every = group()
    heavy = [replace(sample, importance=2.0) for sample in every]
    for name in ("opsd", "rejection_sft"):
        assert new_method(name).step(heavy)["loss"] == pytest.approx(2 * new_method(name).step(every)["loss"], rel=1e-5)


def _recorded_now(method, sample):
    """The episode with the log-probabilities that the student gives its tokens at present."""
    with torch.no_grad(), method.roles.apart():
        count = sum(len(turn.sampled_ids) for turn in sample.episode.turns)
        (batch,) = method.batches(method.rows([sample], torch.ones(count)))
        logp = iter(method.sampled(method.passes.plain(batch, STUDENT), batch).tolist())
    turns = [replace(turn, logprobs=tuple(next(logp) for _ in turn.sampled_ids)) for turn in sample.episode.turns]
    return replace(sample.episode, turns=tuple(turns))
