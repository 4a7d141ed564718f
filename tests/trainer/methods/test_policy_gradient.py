import pytest
import torch
from torch.testing import assert_close

from trainer.method_config import GrpoConfig
from trainer.methods import policy_gradient

GROUPS = ["a", "b", "a", "c", "b"]
REWARDS = torch.tensor([1.0, 0.5, 0.0, 1.0, 0.5])


def test_advantages_compare_rollouts_of_one_task():
    plain = policy_gradient.group_advantages(REWARDS, GROUPS, scale=False)
    assert_close(plain, torch.tensor([0.5, 0.0, -0.5, 0.0, 0.0]))
    scaled = policy_gradient.group_advantages(REWARDS, GROUPS, scale=True)
    assert_close(scaled, torch.tensor([0.5, 0.0, -0.5, 0.0, 0.0]) / 0.5**0.5, rtol=1e-5, atol=1e-5)


def test_dynamic_sampling_keeps_groups_that_differ():
    assert policy_gradient.mixed(REWARDS, GROUPS) == [True, False, True, False, False]


@pytest.mark.parametrize(
    ("ratio", "advantage", "dual", "value", "slope"),
    [
        (1.1, 2.0, None, 2.2, 2.0),
        (1.5, 2.0, None, 2.4, 0.0),  # above 1 + 0.2: no more to gain
        (0.5, 2.0, None, 1.0, 2.0),  # the pessimistic branch still pulls back
        (0.5, -1.0, None, -0.8, 0.0),
        (5.0, -1.0, None, -5.0, -1.0),
        (5.0, -1.0, 3.0, -3.0, 0.0),
    ],
)
def test_the_surrogate_and_its_gradient(ratio, advantage, dual, value, slope):
    rho = torch.tensor([ratio], requires_grad=True)
    found = policy_gradient.surrogate(rho, torch.tensor([advantage]), 0.2, 0.2, dual)
    assert_close(found, torch.tensor([value]))
    found.sum().backward()
    assert_close(rho.grad, torch.tensor([slope]))


def test_aggregations_weigh_long_rollouts_differently():
    trajectory = torch.tensor([0, 1, 1, 1])
    kinds = ("grpo", "dapo", "dr_grpo")
    found = [policy_gradient.aggregation(trajectory, kind, 2, 10) for kind in kinds]
    assert_close(found[0], torch.tensor([1 / 2, 1 / 6, 1 / 6, 1 / 6]))
    assert_close(found[1], torch.full((4,), 1 / 4))
    assert_close(found[2], torch.full((4,), 1 / 20))


def test_overlong_rollouts_are_punished_softly():
    found = policy_gradient.overlong_punishment(torch.tensor([5.0, 8.0, 10.0, 30.0]), limit=10, buffer=4)
    assert_close(found, torch.tensor([0.0, -0.5, -1.0, -1.0]))


def test_defaults_are_the_sources():
    config = GrpoConfig()
    assert (config.clip_low, config.clip_high, config.kl, config.updates) == (0.2, 0.2, 0.0, 1)
    assert (config.aggregation, config.scale, config.student.learning_rate) == ("grpo", True, 1e-5)
