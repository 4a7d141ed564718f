from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from bank.episode import StopReason
from trainer.cold_start import nll_of
from trainer.config import ColdStartConfig
from trainer.errors import BadSpan, NonFinite, NotAnchored, TooManyOverLong
from trainer.methods.lopd import Lopd
from trainer.roles import STUDENT

COLD = ColdStartConfig(steps=6, batch=4, learning_rate=1e-2)
SHOWN = {
    *("loss", "kl", "margin", "beta", "anchor", "reward", "privilege", "teacher_logprob", "student_logprob"),
    *("grad_norm_student", "grad_norm_composer", "tokens", "trajectories", "sequences", "dropped", "over_long"),
    *("uncertain", "kl_uncertain", "margin_uncertain", "teacher_tail"),
}


@pytest.fixture
def new_lopd(new_backbone, small):
    """A learner whose φ0 is frozen, with some settings changed."""

    def build(**changes):
        lopd = Lopd(new_backbone(), small.model_copy(update=changes), seed=3)
        lopd.freeze()
        return lopd

    return build


def student_of(lopd):
    return {name: weight.detach().clone() for name, weight in lopd.equipment.roles.parameters(STUDENT).items()}


def phi_of(lopd):
    return [weight.detach().clone() for weight in lopd.equipment.composer.parameters()]


def same(one, other):
    pairs = zip(one.values(), other.values(), strict=True) if isinstance(one, dict) else zip(one, other, strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def gradients(lopd, every, **roles):
    with lopd.equipment.roles.apart():
        lopd._gradients(every, **roles)
    weights = [*lopd.equipment.roles.parameters(STUDENT).values(), *lopd.equipment.composer.parameters()]
    return [None if weight.grad is None else weight.grad.clone() for weight in weights]


def test_cold_start_makes_successes_likelier(new_backbone, small, samples):
    lopd, every, losses = Lopd(new_backbone(), small, seed=3), samples(6), []
    before = nll_of(lopd.equipment, every)
    lopd.cold_start(every, COLD.model_copy(update={"steps": 25}), lambda _, loss: losses.append(loss))
    assert len(losses) == 25
    assert nll_of(lopd.equipment, every) < before - 0.2


def test_steps_bring_the_student_to_its_teacher(new_lopd, samples):
    lopd, every = new_lopd(train_composer=False), samples(6)
    found = [lopd.step(every)["kl"] for _ in range(8)]
    assert found[-1] < found[0] / 2


def test_a_step_reports_everything_and_keeps_base_weights_bit_identical(new_backbone, small, samples):
    backbone = new_backbone()
    base = {name: weight.detach().clone() for name, weight in backbone.model.named_parameters()}
    lopd = Lopd(backbone, small, seed=3)
    lopd.cold_start(samples(4), COLD, lambda *_: None)
    student, phi = student_of(lopd), phi_of(lopd)
    found = lopd.step(samples(4))
    assert found.keys() == SHOWN
    weights = dict(backbone.model.named_parameters())
    assert all(torch.equal(weights[name], weight) for name, weight in base.items())
    assert all(weights[name].grad is None for name in base)
    assert not same(student, student_of(lopd))
    assert not same(phi, phi_of(lopd))
    anchored = {name: weight for name, weight in weights.items() if ".anchor." in name}
    assert same(lopd.composer_state()["anchor"]["encoder"], anchored)


def test_loss_adds_up_to_equation_13(new_lopd, samples):
    lopd = new_lopd(beta=2.0)
    with torch.no_grad():
        lopd.equipment.composer.compressor.queries_KD.mul_(1.5)
    found = lopd.step(samples(4))
    assert found["anchor"] > 0
    expected = found["kl"] + 2.0 * (0.05 - found["margin"]) + 0.2 * found["anchor"]
    assert found["loss"] == pytest.approx(expected)
    assert found["beta"] == pytest.approx(max(0, 2.0 + 0.5 * (0.05 - found["margin"])))


def test_the_margin_makes_the_teacher_prefer_rewarded_tokens(new_lopd, samples):
    every = samples(6)
    held, loose = (
        new_lopd(constrained=on, beta=5.0, composer_learning_rate=1e-2, anchor_weight=0.0) for on in (True, False)
    )
    start = held.step(every)["margin"]
    for lopd in (held, loose):
        for _ in range(10):
            lopd.step(every)
    assert held.step(every)["margin"] > max(start, loose.step(every)["margin"]) + 0.02
    assert loose.beta == 0


class HeadProducts(TorchDispatchMode):
    """Rows of every matrix product with the vocabulary."""

    def __init__(self, vocabulary):
        super().__init__()
        self.rows, self._vocabulary = [], vocabulary

    def __torch_dispatch__(self, operation, types, arguments=(), named=None):
        if operation.overloadpacket is torch.ops.aten.mm and self._vocabulary in (
            *arguments[0].shape,
            *arguments[1].shape,
        ):
            self.rows.append(len(arguments[0]))
        return operation(*arguments, **(named or {}))


def test_the_head_sees_sampled_positions_only(new_lopd, samples):
    lopd, every = new_lopd(head_chunk=16), samples(4)
    with HeadProducts(lopd.equipment.roles.head.weight.shape[0]) as products:
        tokens = lopd.step(every)["tokens"]
    assert tokens == sum(len(turn.sampled_ids) for sample in every for turn in sample.episode.turns)
    assert max(products.rows) <= 16
    # student and teacher, each once forward and once back
    assert sum(products.rows) == 4 * tokens


def test_micro_batches_add_up_to_the_same_gradient(new_lopd, samples):
    every = samples(5)
    for normalisation in ("token", "trajectory"):
        whole, parts = (
            gradients(new_lopd(micro_tokens=budget, normalisation=normalisation), every, student=True, composer=True)
            for budget in (100_000, 1)
        )
        for one, other in zip(whole, parts, strict=True):
            assert_close(one, other, atol=1e-6, rtol=1e-3)


def test_per_trajectory_means_differ_from_token_means(new_lopd, samples):
    found = [new_lopd(normalisation=name).step(samples(4))["kl"] for name in ("token", "trajectory")]
    assert found[0] != pytest.approx(found[1], rel=1e-4)


def test_the_released_order_on_old_log_probs_is_the_joint_gradient(new_lopd, samples):
    every = samples(4)
    joint = gradients(new_lopd(), every, student=True, composer=True)
    lopd = new_lopd()
    student = gradients(lopd, every, student=True, composer=False)
    composer = gradients(lopd, every, student=False, composer=True)
    count = len(student_of(lopd))
    for one, other in zip(joint, [*student[:count], *composer[count:]], strict=True):
        assert_close(one, other)
    assert all(gradient is None for gradient in (*student[count:], *composer[:count]))


def test_sequential_judges_the_composer_against_the_moved_student(new_lopd, samples):
    joint, sequential = (new_lopd(update=name) for name in ("joint", "sequential"))
    for lopd in (joint, sequential):
        lopd.step(samples(4))
    assert same(student_of(joint), student_of(sequential))
    assert not same(phi_of(joint), phi_of(sequential))


def test_a_frozen_composer_stays_while_the_student_learns(new_lopd, samples):
    for update in ("joint", "sequential"):
        lopd = new_lopd(train_composer=False, update=update)
        student, phi = student_of(lopd), phi_of(lopd)
        assert lopd.step(samples(4))["grad_norm_composer"] == 0
        assert same(phi, phi_of(lopd))
        assert not same(student, student_of(lopd))


def test_stopped_distillation_leaves_the_composer_to_margin_and_anchor(new_lopd, samples):
    idle = new_lopd(distil_into_composer=False, constrained=False).step(samples(4))
    driven = new_lopd(distil_into_composer=False).step(samples(4))
    assert idle["grad_norm_composer"] == 0
    assert driven["grad_norm_composer"] > 0


def test_replay_also_learns_from_the_banks_successes(new_lopd, samples):
    with_it, without = new_lopd(replay=True), new_lopd()
    found = [lopd.step(samples(4), samples(6)[4:]) for lopd in (with_it, without)]
    assert found[0].keys() - found[1].keys() == {"replay_nll"}
    assert same(student_of(with_it), student_of(without))
    assert not same(phi_of(with_it), phi_of(without))


def test_clip_and_centring_change_the_margin(new_lopd, samples):
    plain, clipped, centred = (
        new_lopd(**changes).step(samples(4))["margin"]
        for changes in ({}, {"privilege_clip": 0.001}, {"advantage": "centred"})
    )
    assert abs(clipped) <= 0.001
    assert abs(plain) > 0.001
    assert centred != plain


@pytest.mark.parametrize("update", ["joint", "sequential"])
def test_restored_state_repeats_the_next_step_without_the_anchors_cache(new_lopd, samples, update):
    one, every = new_lopd(update=update), samples(8)
    one.step(every[:4])
    state = one.state()
    expected = one.step(every[2:])
    other = new_lopd(update=update)
    other.restore(state)
    assert "anchor_cache" not in state
    assert other.step(every[2:]) == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert same(student_of(one), student_of(other))
    # φ0's latents are composed again in other micro-batches than before
    for expected_weight, weight in zip(phi_of(one), phi_of(other), strict=True):
        assert_close(weight, expected_weight, rtol=1e-4, atol=1e-5)
    assert one.beta == other.beta


def test_state_is_a_copy(new_lopd, samples):
    lopd = new_lopd()
    lopd.step(samples(4))
    state = lopd.state()
    kept = {name: weight.clone() for name, weight in state["student"].items()}
    moments = state["student_optimizer"]["state"][0]["exp_avg"].clone()
    lopd.step(samples(4))
    assert same(kept, state["student"])
    assert torch.equal(moments, state["student_optimizer"]["state"][0]["exp_avg"])


@pytest.mark.parametrize("update", ["joint", "sequential"])
@pytest.mark.parametrize("where", ["student", "composer"])
def test_non_finite_stops_before_any_weight_moves(new_lopd, samples, update, where):
    lopd = new_lopd(update=update)
    lopd.step(samples(4))
    weights = {"student": student_of(lopd), "composer": phi_of(lopd)}
    weight = lopd.equipment.composer.parameters()[0]
    hook = weight.register_hook(lambda gradient: gradient * float("nan"))
    if where == "student":
        hook.remove()
        next(iter(lopd.equipment.roles.parameters(STUDENT).values())).register_hook(
            lambda gradient: gradient * float("inf")
        )
    with pytest.raises(NonFinite):
        lopd.step(samples(4))
    assert same(weights["student"], student_of(lopd))
    assert same(weights["composer"], phi_of(lopd))


def test_failed_rollouts_are_counted_and_a_batch_of_them_changes_nothing(new_lopd, samples):
    lopd, every = new_lopd(), samples(3)
    failed = [replace(s, episode=replace(s.episode, stop_reason=StopReason.FAULT, reward=None)) for s in every]
    assert lopd.step([*every, failed[0]])["dropped"] == 1
    before = student_of(lopd)
    found = lopd.step(failed)
    assert (found["dropped"], found["tokens"]) == (3, 0)
    assert same(before, student_of(lopd))


def test_over_long_rollouts_stop_the_step(new_lopd, samples):
    with pytest.raises(TooManyOverLong):
        new_lopd(longest=60).step(samples(3))


def test_fewer_references_than_j_are_refused(new_lopd, samples):
    with pytest.raises(BadSpan, match="1 references instead of 2"):
        new_lopd().step(samples(2, references=1))


def test_a_step_needs_a_cold_start(new_backbone, small, samples):
    with pytest.raises(NotAnchored):
        Lopd(new_backbone(), small, seed=3).step(samples(2))


def test_student_starts_from_a_published_adapter(new_lopd, samples, tmp_path):
    trained, fresh = new_lopd(), new_lopd()
    trained.step(samples(4))
    plain = {name.replace(".student.", "."): weight for name, weight in student_of(trained).items()}
    save_file(plain, tmp_path / "adapter_model.safetensors")
    fresh.load_student(tmp_path)
    assert same(student_of(trained), student_of(fresh))
    save_file({name: weight[:1] for name, weight in plain.items()}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ValueError, match="rank"):
        fresh.load_student(tmp_path)


def test_composer_is_carried_to_another_round(new_lopd, samples):
    one, other = new_lopd(), new_lopd()
    one.step(samples(4))
    other.load_composer(one.composer_state())
    assert same(phi_of(one), phi_of(other))
    texts = samples(1)[0].texts
    assert torch.equal(other.equipment.frozen.compose(texts), new_lopd().equipment.frozen.compose(texts))
