"""What every method must do, whatever its loss."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from bank.episode import StopReason
from trainer.config import LopdConfig
from trainer.errors import NonFinite, TooManyOverLong
from trainer.method_config import METHODS, RECONSTRUCTIONS
from trainer.methods.registry import REGISTRY, open_method
from trainer.roles import STUDENT
from trainer.round_config import CONFIGS, PAPER_ROUND, TINY_ROUND, ConfigRefused, read_config

LEARNING = [name for name in METHODS if name not in ("lopd", "vanilla")]


def student_of(method):
    return {name: weight.detach().clone() for name, weight in method.roles.parameters(STUDENT).items()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_every_name_has_a_method_and_settings():
    assert set(REGISTRY) == set(METHODS) == {"lopd", *CONFIGS}
    assert set(METHODS) >= RECONSTRUCTIONS
    assert isinstance(PAPER_ROUND.lopd, LopdConfig)


@pytest.mark.parametrize("name", LEARNING)
def test_a_step_moves_the_student_and_nothing_of_the_base(new_method, group, name):
    method = new_method(name)
    before = student_of(method)
    base = {k: w.detach().clone() for k, w in method.roles._model.named_parameters() if ".lora_" not in k}
    found = method.step(group())
    assert found["grad_norm_student"] > 0
    assert found["tokens"] > 0
    assert not same(before, student_of(method))
    weights = dict(method.roles._model.named_parameters())
    assert all(torch.equal(weights[key], weight) for key, weight in base.items())


@pytest.mark.parametrize("name", LEARNING)
def test_restored_state_repeats_the_next_step(new_method, group, name):
    one, every = new_method(name), group()
    one.step(every)
    state, expected = one.state(), one.step(every)
    other = new_method(name, moved=False)
    other.restore(state)
    assert other.step(every) == expected
    assert same(student_of(one), student_of(other))


@pytest.mark.parametrize("name", LEARNING)
def test_micro_batches_add_up_to_the_whole(new_method, group, name):
    gradients = []
    for budget in (100_000, 1):
        method = new_method(name, micro_tokens=budget)
        with method.roles.apart():
            with torch.no_grad():
                plan = method.plan(group())
            method.gradient(plan)
        gradients.append([weight.grad.clone() for weight in method.roles.parameters(STUDENT).values()])
    for whole, parts in zip(*gradients, strict=True):
        assert_close(whole, parts, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", LEARNING)
def test_chunks_of_the_head_change_nothing(new_method, group, name):
    whole, chunked = (new_method(name, head_chunk=size) for size in (4096, 7))
    assert whole.step(group()) == pytest.approx(chunked.step(group()), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", ["sdft", "opsd", "sdpo", "usd", "sr_opsd"])
def test_steps_bring_the_student_to_its_teacher(new_method, group, name):
    method = new_method(name, moved=False, **({"price_rate": 0.0} if name == "usd" else {}))
    found = [method.step(group())["kl"] for _ in range(8)]
    assert found[-1] < found[0]


def test_vanilla_learns_nothing(new_method, group):
    method = new_method("vanilla")
    before = student_of(method)
    assert method.step(group())["trajectories"] == 4
    assert same(before, student_of(method))


@pytest.mark.parametrize("name", LEARNING)
def test_failed_rollouts_alone_change_nothing(new_method, group, name):
    method = new_method(name)
    before = student_of(method)
    failed = [replace(s, episode=replace(s.episode, stop_reason=StopReason.FAULT, reward=None)) for s in group()]
    found = method.step(failed)
    assert (found["dropped"], found["tokens"]) == (4, 0)
    assert same(before, student_of(method))


@pytest.mark.parametrize("name", LEARNING)
def test_non_finite_stops_before_any_weight_moves(new_method, group, name):
    method = new_method(name)
    before = student_of(method)
    next(iter(method.roles.parameters(STUDENT).values())).register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(NonFinite):
        method.step(group())
    assert same(before, student_of(method))


def test_over_long_rollouts_stop_the_step(new_method, group):
    with pytest.raises(TooManyOverLong):
        new_method("grpo", longest=60).step(group())


def test_copies_of_the_student_begin_at_the_incumbent(new_method, tmp_path):
    trained, fresh = new_method("sdft"), new_method("sdft", moved=False)
    plain = {name.replace(".student.", "."): weight for name, weight in student_of(trained).items()}
    save_file(plain, tmp_path / "adapter_model.safetensors")
    fresh.load_student(tmp_path)
    teacher = {key.replace(".teacher.", ".student."): w for key, w in fresh.roles.parameters("teacher").items()}
    assert same(student_of(trained), teacher)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_chosen_by_name_with_the_rollouts_it_needs(name):
    config = read_config(TINY_ROUND, {"method": name})
    assert config.learning == getattr(config, name)
    grouped = name in {"grpo", "sdpo", "skill_sd", "sr_opsd"}
    assert config.rollouts_per_task == (4 if grouped else 1)
    assert config.tasks_per_step * config.rollouts_per_task == 32
    assert config.learning.student == TINY_ROUND.lopd.student


def test_an_explicit_number_of_rollouts_wins():
    assert read_config(TINY_ROUND, {"method": "grpo", "rollouts_per_task": 2}).rollouts_per_task == 2


@pytest.mark.parametrize("override", [{"method": "ppo"}, {"method": 3}, {"grpo": {"clip": 1}}])
def test_an_unknown_method_or_setting_is_named(override):
    with pytest.raises(ConfigRefused, match=next(iter(override))):
        read_config(TINY_ROUND, override)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_asks_for_the_references_that_its_settings_say(new_backbone, name):
    config = read_config(TINY_ROUND, {"method": name})
    assert open_method(name, new_backbone(), config.learning, 0).references == config.references


def test_log_ratios_measure_the_distance_from_the_recorded_policy(new_method, group):
    method, every = new_method("grpo", moved=False), group()
    found = method.log_ratios(every)
    with torch.no_grad(), method.roles.apart():
        rows = method.rows([every[0]], torch.ones(_sampled(every[0])))
        (batch,) = method.batches(rows)
        expected = (method.sampled(method.passes.plain(batch, STUDENT), batch) - batch.recorded_S).sum()
    assert_close(found[0], expected)


def _sampled(sample):
    return sum(len(turn.sampled_ids) for turn in sample.episode.turns)
