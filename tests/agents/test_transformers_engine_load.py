"""What the engine refuses to load, and that a refusal leaves nothing behind."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from agents.adapter import CONFIG, WEIGHTS, AdapterRef
from agents.engine import LoadRefused
from agents.transformers_engine.backbone import load_backbone
from agents.transformers_engine.engine import TransformersEngine
from tests.agents.tiny_rig import publish, seal, write_base


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    return load_backbone(write_base(tmp_path_factory.mktemp("base")))


@pytest.fixture
async def engine(backbone):
    engine = TransformersEngine(backbone)
    yield engine
    assert set(await engine.versions()) == {"base"}
    await engine.close()
    assert set(backbone.model.peft_config) == {"placeholder"}


def edit_weights(folder, change):
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def edit_config(folder, **fields):
    told = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**told, **fields}))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"base_digest": "0" * 64}, "made for base"),
        ({"template_digest": "0" * 64}, "tokenizer and template"),
        ({"rank": 8}, "says otherwise.*: r"),
        ({"rank": 0}, "rank 0"),
        ({"alpha": 64.0}, "lora_alpha"),
        ({"target_modules": ("q_proj",)}, "target_modules"),
        ({"target_modules": ("q_proj", "lm_head")}, "lm_head"),
        ({"target_modules": ()}, "none"),
    ],
)
async def test_a_manifest_that_does_not_fit_is_refused(engine, backbone, tmp_path, changes, reason):
    with pytest.raises(LoadRefused, match=reason):
        await engine.load(publish(backbone, tmp_path / "student-1", 1, **changes))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"use_dora": True}, "use_dora"),
        ({"use_rslora": True}, "use_rslora"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"rank_pattern": {"q_proj": 64}}, "rank_pattern"),
        ({"bias": "all"}, "bias"),
        ({"something_new": {"a": 1}}, "something_new"),
        ({"peft_type": "IA3"}, "peft_type"),
        ({"target_modules": "all-linear"}, "no LoRA configuration"),
    ],
)
async def test_a_configuration_beyond_plain_lora_is_refused(engine, backbone, tmp_path, fields, reason):
    publish(backbone, tmp_path / "student-1", 1)
    edit_config(tmp_path / "student-1", **fields)
    with pytest.raises(LoadRefused, match=reason):
        await engine.load(seal(backbone, tmp_path / "student-1"))


def poison(tensors):
    next(iter(tensors.values()))[0, 0] = torch.nan


def lose(tensors):
    tensors.popitem()


def gain(tensors):
    tensors["base_model.model.model.norm.weight"] = torch.full((48,), 7.0)


def widen(tensors):
    name = next(iter(tensors))
    tensors[name] = torch.zeros(7, 7)


@pytest.mark.parametrize(
    ("change", "reason"), [(poison, "not finite"), (lose, "missing"), (gain, "unexpected"), (widen, "do not fit")]
)
async def test_weights_that_are_not_exactly_the_adapter_are_refused(engine, backbone, tmp_path, change, reason):
    publish(backbone, tmp_path / "student-1", 1)
    edit_weights(tmp_path / "student-1", change)
    with pytest.raises(LoadRefused, match=reason):
        await engine.load(seal(backbone, tmp_path / "student-1"))
    assert torch.equal(backbone.model.state_dict()["base_model.model.model.norm.weight"], torch.ones(48))


async def test_a_changed_byte_is_refused(engine, backbone, tmp_path):
    ref = publish(backbone, tmp_path / "student-1", 1)
    edit_weights(ref.path, poison)
    with pytest.raises(LoadRefused, match="does not match"):
        await engine.load(ref)


async def test_a_file_too_many_or_too_few_is_refused(engine, backbone, tmp_path):
    ref = publish(backbone, tmp_path / "student-1", 1)
    (ref.path / "extra.py").write_text("")
    with pytest.raises(LoadRefused, match="expected exactly"):
        await engine.load(ref)
    with pytest.raises(LoadRefused, match="expected exactly"):
        await engine.load(AdapterRef("student-2", "0" * 64, tmp_path / "nowhere"))


async def test_broken_files_are_refused(engine, backbone, tmp_path):
    for index, (name, text) in enumerate([(CONFIG, "{"), (CONFIG, "[]"), (WEIGHTS, "nonsense")]):
        ref = publish(backbone, tmp_path / f"student-{index}", 1)
        (ref.path / name).write_text(text)
        with pytest.raises(LoadRefused):
            await engine.load(seal(backbone, ref.path))
