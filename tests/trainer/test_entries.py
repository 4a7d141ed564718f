import pytest
import torch
from torch.testing import assert_close

from trainer.entries import BLOCK, LogProbs, largest


def test_log_probabilities_and_their_gradient_are_autograds():
    torch.manual_seed(0)
    logits, weight = 5 * torch.randn(3, 40, requires_grad=True), torch.randn(3, 4)
    index = torch.tensor([[0, 1, 2, 3], [5, 5, 6, 7], [39, 0, 39, 1]])
    plain = logits.log_softmax(1).gather(1, index)
    found = LogProbs.apply(logits, index)
    assert_close(found, plain)
    slopes = [torch.autograd.grad((weight * each).sum(), logits)[0] for each in (found, plain)]
    assert_close(*slopes)


def test_far_logits_stay_finite():
    logits = torch.tensor([[1e4, 0.0, -1e4]], requires_grad=True)
    found = LogProbs.apply(logits, torch.tensor([[0, 1]]))
    found.sum().backward()
    assert found.tolist() == [[0.0, -1e4]]
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("width", [3, 100, 8 * BLOCK, 40 * BLOCK, 40 * BLOCK + 17])
def test_the_largest_are_those_of_a_full_sort(width):
    values = torch.randn(4, width, generator=torch.Generator().manual_seed(width))
    values[0, -1] = 9.0
    assert_close(largest(values, 5), values.topk(min(5, width), dim=1).indices)


def test_one_block_may_hold_them_all():
    values = torch.zeros(1, 40 * BLOCK)
    values[0, 3 * BLOCK + 7 : 3 * BLOCK + 12] = torch.tensor([1.0, 5.0, 3.0, 2.0, 4.0])
    assert (largest(values, 5) - 3 * BLOCK).tolist() == [[8, 11, 9, 10, 7]]
    # and rows may be strided
    assert (largest(values.expand(3, -1)[::2], 5) - 3 * BLOCK).tolist() == 2 * [[8, 11, 9, 10, 7]]
