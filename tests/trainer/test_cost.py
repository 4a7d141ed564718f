"""Cheaper passes give the same gradients: checkpointing, bf16, chunks of the head."""

import pytest
import torch
from torch.testing import assert_close

from agents.transformers_engine.backbone import Backbone
from trainer.methods.lopd import Lopd
from trainer.methods.registry import open_method
from trainer.round_config import CONFIGS


def lopd_gradients(backbone: Backbone, small, every, **changes):
    lopd = Lopd(backbone, small.model_copy(update=changes), seed=3)
    lopd.freeze()
    with lopd.equipment.roles.apart():
        lopd._gradients(every, student=True, composer=True)
    weights = [*lopd.equipment.roles.parameters("student").values(), *lopd.equipment.composer.parameters()]
    return [weight.grad for weight in weights]


def text_gradients(backbone, every, **changes):
    settings = {"evidence": "retrieved", "student": {"rank": 4, "alpha": 8.0}, **changes}
    method = open_method("sdft", backbone, CONFIGS["sdft"].model_validate(settings), 3)
    with method.roles.apart():
        with torch.no_grad():
            plan = method.plan(every)
        method.gradient(plan)
    return [weight.grad for weight in method.roles.parameters("student").values()]


def test_checkpointing_gives_the_same_gradients_through_input_embeddings(new_backbone, small, samples):
    plain, again = (lopd_gradients(new_backbone(), small, samples(4), checkpointing=on) for on in (False, True))
    assert all(gradient is not None and gradient.isfinite().all() for gradient in again)
    assert sum(gradient.abs().sum() for gradient in again) > 0
    for expected, found in zip(plain, again, strict=True):
        assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_checkpointing_leaves_text_teachers_alone_too(new_backbone, samples):
    plain, again = (text_gradients(new_backbone(), samples(4), checkpointing=on) for on in (False, True))
    for expected, found in zip(plain, again, strict=True):
        assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_checkpointed_layers_are_as_they_were_afterwards(new_backbone, samples):
    backbone = new_backbone()
    text_gradients(backbone, samples(2), checkpointing=True)
    layers = backbone.model.get_base_model().base_model.layers
    assert not any(layer.training or layer.gradient_checkpointing for layer in layers)


def cosine(one, other):
    one, other = (torch.cat([gradient.flatten() for gradient in each]).double() for each in (one, other))
    return torch.nn.functional.cosine_similarity(one, other, dim=0).item()


@pytest.mark.parametrize("kind", ["lopd", "sdft"])
def test_bf16_compute_keeps_fp32_masters_and_the_direction(new_backbone, small, samples, kind):
    def gradients(dtype):
        backbone = new_backbone()
        backbone.model.to(dtype)
        every = samples(4)
        return lopd_gradients(backbone, small, every) if kind == "lopd" else text_gradients(backbone, every)

    exact, rough = gradients(torch.float32), gradients(torch.bfloat16)
    assert {gradient.dtype for gradient in rough} == {torch.float32}
    assert cosine(exact, rough) > 0.98


def test_a_small_step_moves_fp32_masters_over_a_bf16_base(new_backbone, small, samples):
    """In bf16 a weight near 1 does not move by 1e-5 at all."""
    backbone = new_backbone()
    backbone.model.to(torch.bfloat16)
    config = small.model_copy(update={"student": small.student.model_copy(update={"learning_rate": 1e-5})})
    lopd = Lopd(backbone, config, seed=3)
    lopd.freeze()
    before = [w.detach().clone() for w in lopd.equipment.roles.parameters("student").values()]
    lopd.step(samples(4))
    moved = torch.cat(
        [(w != b).flatten() for w, b in zip(lopd.equipment.roles.parameters("student").values(), before, strict=True)]
    )
    assert moved.float().mean() > 0.95
