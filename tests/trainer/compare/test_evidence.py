import math

import pytest

from trainer.compare.evidence import ahead, curve_of, interval, rollouts_to, summary, targets


def result(label, rewards, *, seed=0, error=None):
    curve = [{"rollouts": 32 * i, "reward": r, "success": r / 2, "steps": 3.0} for i, r in enumerate(rewards)]
    steps = [{"rollouts": 32 * (i + 1), "kl": r} for i, r in enumerate(rewards[1:])]
    return {
        "label": label, "method": label, "note": "", "seed": seed, "learning_rate": 1e-3, "seconds": 2.0, "error": error,
        "bank": {"rollouts": 100, "experiences": 9}, "curve": curve, "steps": steps,
    }  # fmt: skip


def test_interval_is_students():
    # mean 2, standard error 1/sqrt(3) of 1, 2, 3; t(.975, 2) = 4.302653
    mean, low, high = interval([1.0, 2.0, 3.0])
    assert mean == 2
    assert high - mean == pytest.approx(4.302653 / math.sqrt(3), rel=1e-5)
    assert low + high == pytest.approx(4)
    assert math.isnan(interval([1.0])[1])


def test_a_curve_ends_where_a_seed_stopped():
    points = curve_of([result("a", [0.0, 0.2, 0.4]), result("a", [0.2, 0.4], seed=1)], "reward")
    assert [(point["rollouts"], point["mean"]) for point in points] == [
        (0, pytest.approx(0.1)),
        (32, pytest.approx(0.3)),
    ]


def test_the_target_is_reached_between_two_looks():
    curve = [{"rollouts": 0.0, "mean": 0.1}, {"rollouts": 32.0, "mean": 0.3}]
    assert rollouts_to(curve, 0.2) == pytest.approx(16)
    assert rollouts_to(curve, 0.1) == 0
    assert rollouts_to(curve, 0.4) is None


def test_targets_count_the_bank_only_for_those_that_read_it():
    arms = [
        summary([result("grpo", [0.0, 0.2, 0.4])]) | {"uses_bank": False},
        summary([result("lopd", [0.0, 0.4, 0.5])]) | {"uses_bank": True},
        summary([result("sdft", [0.0, 0.1, 0.1])]) | {"uses_bank": True},
    ]
    found = targets(arms)
    assert found.keys() == {"grpo"}
    assert found["grpo"]["final_reward"] == pytest.approx(0.4)
    reached = found["grpo"]["arms"]
    counts = {name: [each["rollouts"], each["with_bank"], each["share"]] for name, each in reached.items()}
    assert counts == {"lopd": [32, 132, 0.5], "grpo": [64, 64, 1.0], "sdft": [None, None, None]}
    assert reached["lopd"]["ahead"]["mean"] == pytest.approx(0.1)


def test_how_far_an_arm_is_ahead_is_paired_by_seed():
    ours, theirs = (
        summary([result(label, [0.0, final], seed=seed) for seed, final in enumerate(finals)])
        for label, finals in (("lopd", [0.5, 0.9]), ("grpo", [0.4, 0.8]))
    )
    found = ahead(ours, theirs)
    assert [found["mean"], found["low"], found["high"]] == pytest.approx([0.1, 0.1, 0.1])
    assert ahead(ours, summary([result("grpo", [0.0, 0.4])])) is None


def test_a_summary_keeps_errors_and_what_the_steps_reported():
    found = summary([result("a", [0.0, 0.2]), result("a", [0.0, 0.4], seed=1, error="NonFinite: kl")])
    assert found["seeds"] == [0, 1]
    assert found["final"]["reward"]["mean"] == pytest.approx(0.3)
    assert found["learning"]["kl"] == pytest.approx([0.3])
    assert found["errors"] == ["NonFinite: kl"]
