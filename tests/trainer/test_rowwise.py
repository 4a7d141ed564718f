import pytest
import torch
from torch.testing import assert_close

from trainer import rowwise
from trainer.rowwise import Rowwise

W = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))


def loss(one, other, action):
    p, q = (each.log_softmax(1) for each in (one, other))
    picked = p.gather(1, action[:, None])[:, 0]
    return torch.stack([(q.exp() * (q - p)).sum(1), picked], dim=1)


@pytest.mark.parametrize("chunk", [2, 100])
@pytest.mark.parametrize("asked", [(True, False), (False, True), (True, True)])
def test_values_and_gradients_are_autograds(chunk, asked):
    torch.manual_seed(0)
    views = [torch.randn(7, 3, requires_grad=ask) for ask in asked]
    wanted = [view for view in views if view.requires_grad]
    action, weight = torch.arange(7) % 5, torch.rand(7)
    plain = loss(*(view @ W.T for view in views), action)
    expected = torch.autograd.grad((weight * plain[:, 0]).sum(), wanted)
    found = Rowwise.apply(loss, W, chunk, 2, *views, action)
    assert_close(found, plain)
    assert_close(torch.autograd.grad((weight * found[:, 0]).sum(), wanted), expected)


def test_rows_that_share_a_cache_do_not_change_anything():
    torch.manual_seed(0)
    wide, hidden = torch.randn(rowwise.CACHED_CELLS // 2, 3), torch.randn(5, 3, requires_grad=True)
    found = Rowwise.apply(lambda logits: logits.logsumexp(1, keepdim=True), wide, 4, 1, hidden)
    expected = (hidden @ wide.T).logsumexp(1, keepdim=True)
    assert_close(found, expected)
    slopes = [torch.autograd.grad(each.sum(), hidden)[0] for each in (found, expected)]
    # 131,072 summands in another order
    assert_close(*slopes, rtol=1e-3, atol=1e-3)


def test_without_gradients_nothing_is_recorded():
    with torch.no_grad():
        found = Rowwise.apply(loss, W, 2, 2, torch.randn(4, 3), torch.randn(4, 3), torch.zeros(4, dtype=torch.long))
    assert not found.requires_grad
