import pytest
import torch
from torch.testing import assert_close

from trainer.rowwise import Rowwise

W = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))


def loss(one, other, action):
    p, q = ((each @ W.T).log_softmax(1) for each in (one, other))
    picked = p.gather(1, action[:, None])[:, 0]
    return torch.stack([(q.exp() * (q - p)).sum(1), picked], dim=1)


@pytest.mark.parametrize("chunk", [2, 100])
@pytest.mark.parametrize("both", [False, True])
def test_values_and_gradients_are_autograds(chunk, both):
    torch.manual_seed(0)
    one, other = torch.randn(7, 3, requires_grad=True), torch.randn(7, 3, requires_grad=both)
    action, weight = torch.arange(7) % 5, torch.rand(7)
    plain = loss(one, other, action)
    expected = torch.autograd.grad((weight * plain[:, 0]).sum(), [one, other][: 1 + both])
    found = Rowwise.apply(loss, chunk, 2, one, other, action)
    assert_close(found, plain)
    (weight * found[:, 0]).sum().backward()
    assert_close(one.grad, expected[0])
    assert other.grad is None if not both else torch.allclose(other.grad, expected[1], atol=1e-6)


def test_without_gradients_nothing_is_recorded():
    with torch.no_grad():
        found = Rowwise.apply(loss, 2, 2, torch.randn(4, 3), torch.randn(4, 3), torch.zeros(4, dtype=torch.long))
    assert not found.requires_grad
