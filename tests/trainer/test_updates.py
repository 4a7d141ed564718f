import pytest
import torch

from trainer.errors import NoGradient, NonFinite
from trainer.updates import Learner


def learner(*gradients):
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in gradients]
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient
    return Learner("student", weights, learning_rate=0.1, weight_decay=0.0, clip=1.0)


def test_clip_returns_the_norm_before_and_bounds_it_after():
    found = learner(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0]))
    assert found.clip() == pytest.approx(5)
    assert torch.stack([weight.grad.square().sum() for weight in found.parameters]).sum().item() == pytest.approx(
        1, rel=1e-4
    )


def test_missing_and_zero_gradients_abort():
    with pytest.raises(NoGradient, match="1 of 2"):
        learner(torch.ones(2), None).clip()
    with pytest.raises(NoGradient, match="zero"):
        learner(torch.zeros(2)).clip()
    assert learner(torch.zeros(2)).clip(zero=True) == 0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_non_finite_gradients_abort(bad):
    with pytest.raises(NonFinite):
        learner(torch.tensor([1.0, bad])).clip()
