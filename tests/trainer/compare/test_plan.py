import pytest

from trainer.compare.plan import ABLATIONS, SIZES, Arm, arms_of, run_of, suite_of
from trainer.method_config import METHODS
from trainer.round_config import TINY_ROUND


def run(arm, *, suite="order_desk", seed=3, phase="final", factor=1.0):
    return run_of(arm, suite, seed, SIZES["small"], phase, TINY_ROUND, factor)


def test_all_means_every_method_in_order():
    assert [arm.label for arm in arms_of("all", "")] == list(METHODS)
    assert [arm.method for arm in arms_of("grpo, lopd", "m=0,self-retrieval")] == ["grpo", "lopd", "lopd", "lopd"]
    assert len(arms_of("", "all")) == len(ABLATIONS)


def test_an_unknown_name_is_answered_with_those_there_are():
    with pytest.raises(ValueError, match=r"unknown: ppo; there are: lopd, grpo"):
        arms_of("ppo", "")


def test_every_arm_has_the_same_number_of_rollouts_and_its_own_settings():
    for arm in arms_of("all", "all"):
        config = run(arm).config
        assert config.steps * config.tasks_per_step * config.rollouts_per_task == 8 * 32
        for name, value in arm.overrides.items():
            found = getattr(config.learning, name)
            assert (found.model_dump().items() >= value.items()) if isinstance(value, dict) else found == value


def test_reconstructions_say_so():
    assert {arm.label for arm in arms_of("all", "") if arm.note} == {"usd", "anchored_opsd"}


def test_learning_rates_are_multiples_of_the_methods_default():
    made = run(Arm("grpo", "grpo"), phase="tune", factor=0.5)
    assert made.rate == made.config.grpo.student.learning_rate == 0.5 * TINY_ROUND.grpo.student.learning_rate
    assert made.config.steps == SIZES["small"].tuning_steps


def test_the_key_changes_with_what_the_result_depends_on():
    base = Arm("grpo", "grpo")
    keys = {
        run(base).key,
        run(base, seed=4).key,
        run(base, suite="order_desk:1").key,
        run(base, factor=2.0).key,
        run(base, phase="tune").key,
        run(Arm("lopd self-retrieval", "lopd", self_retrieval=True)).key,
        run(Arm("lopd self-retrieval", "lopd")).key,
    }
    assert len(keys) == 7
    assert run(base).key in keys


def test_a_suite_with_a_seed_keeps_it():
    assert (suite_of("order_desk", 3), suite_of("order_desk:9", 3)) == ("order_desk:3", "order_desk:9")
