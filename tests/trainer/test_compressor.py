"""The compressor's two starts."""

import pytest
import torch

from trainer.compressor import Compressor


def told_apart(compressor: Compressor) -> float:
    """Share of the latents' energy that depends on which item was read."""
    states_BTD = torch.randn(6, 5, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        latent_BX = compressor(states_BTD, torch.ones(6, 5, dtype=torch.bool)).flatten(1)
    return ((latent_BX - latent_BX.mean(0)).square().mean() / latent_BX.square().mean()).item()


@pytest.mark.parametrize("seed", range(4))
def test_an_identity_start_lets_the_items_through_where_a_random_one_mostly_repeats_itself(seed: int) -> None:
    torch.manual_seed(seed)
    compressor = Compressor(width=32, heads=4, queries=4, depth=8, feed_forward=4)
    assert told_apart(compressor) < 0.4
    compressor.start_at_identity()
    assert told_apart(compressor) > 0.6
