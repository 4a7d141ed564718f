import pytest
import torch
from torch.testing import assert_close

from trainer.batch import batches_of, rows_of
from trainer.composer import Composer
from trainer.injection import InsertionPoints, frame
from trainer.roles import ENCODER, STUDENT, Roles
from trainer.trunk import LONGEST, usable
from trainer.views import Views

CPU = torch.device("cpu")


@pytest.fixture
def backbone(new_backbone):
    return new_backbone()


@pytest.fixture
def roles(backbone):
    found = Roles(backbone.model)
    for name in (STUDENT, ENCODER):
        found.add(name, 4, 8.0, 0, trained=True)
        with torch.no_grad():
            for weight in found.parameters(name).values():
                weight.add_(0.05 * torch.randn_like(weight))
    return found


@pytest.fixture
def batch(tokenizer, samples):
    (found,) = batches_of(rows_of(samples(4), InsertionPoints(tokenizer), "token", centre=False), 10_000, 0, CPU)
    return found


def both_ways(roles, compute, inputs):
    """Value and gradients from the packed layers, then from transformers' own."""
    found = []
    assert roles.packed is not None
    for trunk in (roles.packed, None):
        roles.packed = trunk
        value = compute()
        upstream = torch.linspace(-1, 1, value.numel()).view(value.shape)
        found.append((value, *torch.autograd.grad(value, inputs, upstream)))
    return zip(*found, strict=True)


def test_packed_student_is_transformers_student(roles, batch, tokenizer):
    views = Views(roles, frame(tokenizer, 4), 64)
    for one, other in both_ways(roles, lambda: views.student(batch), list(roles.parameters(STUDENT).values())):
        assert_close(one, other, atol=2e-3, rtol=1e-3)


def test_packed_teacher_is_transformers_teacher(roles, batch, tokenizer):
    views = Views(roles, frame(tokenizer, 4), 64)
    context = torch.randn(4, 4, 64, requires_grad=True)
    for one, other in both_ways(roles, lambda: views.teacher(batch, context), [context]):
        assert_close(one, other, atol=1e-3, rtol=1e-3)


def test_texts_that_begin_alike_are_encoded_as_if_each_stood_alone(roles, backbone, small):
    composer = Composer(roles, backbone.tokenizer, ENCODER, small.composer)
    texts = ["refund order 17 please", "refund order 17", "cancel it", "refund order 18 please"]
    for one, other in both_ways(roles, lambda: composer.compose(texts), composer.parameters()[:14]):
        assert_close(one, other, atol=1e-3, rtol=1e-3)


def test_long_or_half_precision_models_run_as_transformers_has_them(new_backbone):
    base = new_backbone().model.get_base_model()
    assert usable(base.base_model, base.config)
    base.config.max_position_embeddings = LONGEST + 1
    assert not usable(base.base_model, base.config)
    base.config.max_position_embeddings = LONGEST
    assert not usable(base.base_model.bfloat16(), base.config)
