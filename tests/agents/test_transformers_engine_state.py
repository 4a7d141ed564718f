"""What generation must leave alone: base weights, gradient flags, active adapters."""

import asyncio
import hashlib

import pytest
import torch
from peft.tuners.lora import LoraLayer

from agents.engine import GenerateRequest, Sampling
from agents.transformers_engine.backbone import load_backbone
from agents.transformers_engine.engine import TransformersEngine
from bank.message import Message, Role
from tests.agents.tiny_rig import add_student, publish, write_base

OPENING = (Message(Role.SYSTEM, "You run the order desk."), Message(Role.USER, "please refund order 17"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_base(tmp_path_factory.mktemp("base"))


@pytest.fixture
def backbone(folder):
    return load_backbone(folder)


def digest(model, keep):
    whole = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if keep(name):
            whole.update(name.encode() + tensor.numpy().tobytes())
    return whole.hexdigest()


def flags(model):
    return {name: weight.requires_grad for name, weight in model.named_parameters() if ".served_" not in name}


async def use(engine, versions):
    requests = [GenerateRequest(name, OPENING, (), Sampling(max_tokens=6, seed=1)) for name in versions]
    await asyncio.gather(*map(engine.generate, requests))
    for request in requests:
        await engine.generate(request)


def test_a_wrapped_base_computes_bit_for_bit_what_the_base_does(backbone):
    assert not any(flags(backbone.model).values())
    assert not backbone.model.training
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        wrapped = backbone.model(ids).logits
        with backbone.model.disable_adapter():
            bare = backbone.model(ids).logits
    assert torch.equal(wrapped, bare)


async def test_base_weights_stay_bit_identical(backbone, tmp_path):
    def of_base(name):
        return "lora_" not in name

    add_student(backbone, "student", 1)
    before = digest(backbone.model, of_base)
    engine = TransformersEngine(backbone)
    engine.adopt("mine", "student", "d" * 64)
    ref = publish(backbone, tmp_path / "student-1", 2)
    await engine.load(ref)
    await use(engine, ["base", "mine", ref.name])
    await engine.unload(ref.name)
    await engine.close()
    assert digest(backbone.model, of_base) == before


async def test_flags_and_active_adapters_survive_generation_loading_and_unloading(backbone, tmp_path):
    add_student(backbone, "student", 1)
    add_student(backbone, "encoder", 2)
    backbone.model.set_adapter("student")
    for name, weight in backbone.model.named_parameters():
        if ".encoder." in name and "layers.0" in name:
            weight.requires_grad_(requires_grad=True)
    before = flags(backbone.model)
    engine = TransformersEngine(backbone)
    engine.adopt("mine", "student", "d" * 64)
    ref = publish(backbone, tmp_path / "student-1", 2)
    await engine.load(ref)
    await use(engine, ["mine", "base", ref.name])
    assert flags(backbone.model) == before
    assert not any(w.requires_grad for name, w in backbone.model.named_parameters() if ".served_" in name)
    await engine.unload(ref.name)
    await engine.generate(GenerateRequest("base", OPENING, (), Sampling(max_tokens=1)))
    await engine.close()
    assert flags(backbone.model) == before
    assert backbone.model.active_adapters == ["student"]
    assert backbone.model.base_model.active_adapters == ["student"]
    assert set(backbone.model.peft_config) == {"placeholder", "student", "encoder"}


async def test_training_goes_on_after_generation(backbone):
    add_student(backbone, "student", 1)
    backbone.model.set_adapter("student")
    engine = TransformersEngine(backbone)
    engine.adopt("mine", "student", "d" * 64)
    await use(engine, ["mine", "base"])
    ids = torch.tensor([[5, 6, 7, 8]])
    backbone.model(input_ids=ids, labels=ids).loss.backward()
    await engine.close()
    for name, weight in backbone.model.named_parameters():
        assert (weight.grad is not None) == (".student." in name)


async def test_after_retiring_the_model_is_the_trainer_s_although_a_request_was_cancelled(backbone):
    add_student(backbone, "student", 1)
    add_student(backbone, "encoder", 2)
    backbone.model.set_adapter("encoder")
    layers = [layer for layer in backbone.model.modules() if isinstance(layer, LoraLayer)]
    engine = TransformersEngine(backbone)
    for _ in range(5):
        engine.adopt("mine", "student", "d" * 64)
        request = GenerateRequest("mine", OPENING, (), Sampling(max_tokens=400, seed=1))
        task = asyncio.create_task(engine.generate(request))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.retire("mine")
        assert all(layer.active_adapters == ["encoder"] for layer in layers)
    await engine.close()


async def test_training_mode_comes_back(backbone):
    add_student(backbone, "student", 1)
    engine = TransformersEngine(backbone)
    engine.adopt("mine", "student", "d" * 64)
    backbone.model.train()
    await use(engine, ["mine", "base"])
    await engine.close()
    assert backbone.model.training


async def test_an_unloaded_adapter_leaves_memory_when_its_last_request_is_done(backbone, tmp_path):
    engine = TransformersEngine(backbone)
    ref = publish(backbone, tmp_path / "student-1", 2)
    await engine.load(ref)
    task = asyncio.create_task(engine.generate(GenerateRequest(ref.name, OPENING, (), Sampling(max_tokens=50, seed=1))))
    await asyncio.sleep(0)
    await engine.unload(ref.name)
    assert (await task).version == ref.name
    await engine.generate(GenerateRequest("base", OPENING, (), Sampling(max_tokens=1)))
    await engine.close()
    assert set(backbone.model.peft_config) == {"placeholder"}
