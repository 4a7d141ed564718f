import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from trainer.fused import Attention, Gated, Gather, Merged, RmsNorm, Rotated, TwoPartAttention


def random(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def test_gradients_are_those_of_the_values():
    torch.manual_seed(0)
    fixed = [random(*shape).detach() for shape in [(5, 4), (4,), (2, 6), (3, 1, 6), (3, 1, 6)]]
    assert gradcheck(Merged.apply, (random(3, 4), fixed[0], random(2, 4), random(5, 2), 1.5))
    assert gradcheck(RmsNorm.apply, (random(3, 4), fixed[1], 1e-6))
    assert gradcheck(Rotated.apply, (random(3, 4, 6), *fixed[2:], 1e-6))
    assert gradcheck(Gated.apply, (random(3, 8),))


def test_attention_gradients_are_those_of_the_values():
    torch.manual_seed(0)
    blocks, masks = ((2, 3, 4), (1, 2, 2)), (torch.zeros(3, 4).double(), torch.zeros(2, 2).double())
    assert gradcheck(Attention.apply, (random(28, 4), blocks, masks, 0.5))
    sets = [random(2, 1, length, 4) for length in (3, 5, 5, 2, 2)]
    assert gradcheck(TwoPartAttention.apply, (*sets, torch.zeros(2, 1, 1, 7).double()))


def test_attention_over_two_sets_is_attention_over_all_of_them():
    torch.manual_seed(0)
    query, k1, v1, k2, v2 = (random(2, 1, length, 4) for length in (3, 5, 5, 2, 2))
    mask = torch.zeros(2, 1, 1, 7).double()
    mask[..., 4] = -torch.inf
    keys, values = torch.cat([k1, k2], 2), torch.cat([v1, v2], 2)
    expected = torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
    assert_close(TwoPartAttention.apply(query, k1, v1, k2, v2, mask), expected)


def test_a_row_taken_twice_gets_both_gradients():
    x = torch.randn(3, 4, requires_grad=True)
    # row 0 went to cells 0 and 2, row 1 nowhere, row 2 to cell 1
    out = Gather.apply(x, torch.tensor([0, 2, 0]), torch.tensor([0, 2, 1]), torch.tensor([0, 2, 2]))
    out.backward(torch.tensor([[1.0], [10.0], [100.0]]).expand(3, 4))
    assert x.grad[:, 0].tolist() == [101.0, 0.0, 10.0]
