import torch
from torch.testing import assert_close

from trainer.low_rank import LowRank


def leaves():
    torch.manual_seed(0)
    shapes = [(2, 3, 4), (5, 4), (2, 4), (5, 2)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def test_value_and_gradients_are_those_of_the_plain_formula():
    x, w, a, b = leaves()
    ours = LowRank.apply(torch.nn.functional.linear(x, w), x, a, b, 1.5)
    plain = x @ w.T + 1.5 * (x @ a.T) @ b.T
    upstream = torch.randn_like(plain)
    got = torch.autograd.grad(ours, (x, w, a, b), upstream)
    assert_close(ours, plain)
    for mine, theirs in zip(got, torch.autograd.grad(plain, (x, w, a, b), upstream), strict=True):
        assert_close(mine, theirs)


def test_half_precision_activations_take_a_single_precision_adapter():
    x, w, a, b = (leaf.detach().float() for leaf in leaves())
    half = torch.nn.functional.linear(x.bfloat16(), w.bfloat16()).requires_grad_()
    a.requires_grad_()
    found = LowRank.apply(half.clone(), x.bfloat16(), a, b, 1.5)
    found.sum().backward()
    assert found.dtype == torch.bfloat16
    assert a.grad.dtype == torch.float32
    assert_close(found.float(), x @ w.T + 1.5 * (x @ a.T) @ b.T, atol=0.1, rtol=0.05)
