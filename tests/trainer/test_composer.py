import pytest
import torch
from torch.testing import assert_close

from trainer.composer import Composer, FrozenLatents
from trainer.compressor import Compressor
from trainer.roles import ANCHOR, ENCODER, Roles

TEXTS = ["refund order 17", "cancel it", "a rather longer text about order 99 and nothing else", "x"]


def composer(backbone, config, name=ENCODER, roles=None):
    roles = roles or Roles(backbone.model)
    roles.add(name, config.rank, config.alpha, 0, trained=name == ENCODER)
    torch.manual_seed(5)
    return Composer(roles, backbone.tokenizer, name, config)


def test_every_text_gives_k_latents_whatever_it_is_batched_with(new_backbone, small):
    one = composer(new_backbone(), small.composer)
    tight = composer(new_backbone(), small.composer.model_copy(update={"encoder_tokens": 20}))
    together = one.compose(TEXTS)
    assert together.shape == (4, 3, 64)
    assert_close(together, torch.cat([one.compose([text]) for text in TEXTS]), atol=1e-5, rtol=1e-4)
    assert_close(together, tight.compose(TEXTS), atol=1e-5, rtol=1e-4)


def test_with_embeddings_the_last_token_of_a_text_is_read_as_itself(new_backbone, small):
    both = small.composer.model_copy(update={"reads": "states+embeddings"})
    with_them, without = composer(new_backbone(), both), composer(new_backbone(), small.composer)
    for each in (with_them, without):
        # an encoder that says the same of every token: only embeddings can still tell the texts apart
        each._packed = each._padded = lambda *_: (torch.ones(2, 2, 64), torch.ones(2, 2).bool())
    ids = [[5, 6], [5, 7]]
    same, told_apart = without._encode(ids), with_them._encode(ids)
    assert_close(same[0], same[1])
    assert not torch.allclose(told_apart[0], told_apart[1])


def test_latents_start_at_the_size_of_embeddings_or_at_one(new_backbone, small):
    backbone = new_backbone()
    size = backbone.model.get_input_embeddings().weight.square().mean().sqrt()
    learned = composer(backbone, small.composer).compose(TEXTS)
    assert learned.square().mean().sqrt().item() == pytest.approx(size.item(), rel=1e-3)
    unit = composer(new_backbone(), small.composer.model_copy(update={"scale": "unit"}))
    assert unit.compose(TEXTS).square().mean().sqrt().item() == pytest.approx(1, rel=1e-3)
    assert not unit.compressor.log_scale.requires_grad


def test_weights_move_between_composers(new_backbone, small):
    roles = Roles(new_backbone().model)
    backbone = new_backbone()
    roles = Roles(backbone.model)
    one, other = (composer(backbone, small.composer, name, roles) for name in (ENCODER, ANCHOR))
    with torch.no_grad():
        for weight in one.parameters():
            weight.add_(0.1)
    assert not torch.equal(one.compose(TEXTS), other.compose(TEXTS))
    frozen = FrozenLatents(other)
    frozen.replace(one.weights())
    assert torch.equal(one.compose(TEXTS), frozen.compose(TEXTS))


def test_frozen_latents_are_computed_once(new_backbone, small):
    frozen = FrozenLatents(composer(new_backbone(), small.composer))
    first = frozen.compose(TEXTS[:2])
    with torch.no_grad():
        frozen.composer.compressor.queries_KD.add_(1)
    assert torch.equal(frozen.compose(TEXTS[:2]), first)
    assert not first.requires_grad


def test_compressor_ignores_masked_states_and_shares_one_block():
    torch.manual_seed(0)
    compressor = Compressor(width=8, heads=2, queries=3, depth=4, feed_forward=2)
    states, mask = torch.randn(1, 5, 8), torch.tensor([[True, True, True, False, False]])
    changed = states.clone()
    changed[:, 3:] = 7.0
    assert torch.equal(compressor(states, mask), compressor(changed, mask))
    deeper = Compressor(width=8, heads=2, queries=3, depth=9, feed_forward=2)
    assert sum(w.numel() for w in compressor.parameters()) == sum(w.numel() for w in deeper.parameters())


def test_queries_start_small():
    torch.manual_seed(0)
    compressor = Compressor(width=64, heads=2, queries=100, depth=1, feed_forward=1)
    assert compressor.queries_KD.std().item() == pytest.approx(1 / 8, rel=0.05)
