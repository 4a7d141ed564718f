"""The composer that ships with `tiny`: how it is made, found and used."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.model_folder import model_folder
from agents.transformers_engine.backbone import load_backbone
from trainer.cold_start import nll_of
from trainer.composers.shipped import FOLDER, composer_key, ship_composer, shipped_composer
from trainer.methods.lopd import Lopd
from trainer.presets import TINY
from trainer.tiny.warm_composer import WarmUp, examples, warm_composer


def weights() -> dict[str, dict[str, torch.Tensor]]:
    return {"encoder": {"a.b": torch.arange(3.0)}, "compressor": {"c": torch.ones(2, 2)}}


def test_a_shipped_composer_is_found_by_its_key_alone(tmp_path: Path) -> None:
    ship_composer(tmp_path / "one.safetensors", "base shape", weights())
    found = shipped_composer("base shape", tmp_path)
    assert found is not None
    assert torch.equal(found["encoder"]["a.b"], torch.arange(3.0))
    assert torch.equal(found["compressor"]["c"], torch.ones(2, 2))
    assert shipped_composer("base other-shape", tmp_path) is None


def test_tiny_ships_with_a_composer_for_its_preset_and_for_no_other_shape() -> None:
    backbone = load_backbone(model_folder("tiny"))
    assert shipped_composer(composer_key(backbone, TINY.composer), FOLDER) is not None
    assert shipped_composer(composer_key(backbone, TINY.composer.model_copy(update={"queries": 4}))) is None


def test_warming_up_repeats_bit_for_bit(tmp_path: Path) -> None:
    shutil.copytree(model_folder("tiny"), tmp_path / "base")
    recipe = WarmUp(steps=2, batch=3)
    first, again = (warm_composer(tmp_path / "base", recipe, lambda _step, _loss: None) for _ in range(2))
    assert all(torch.equal(first[part][name], again[part][name]) for part in first for name in first[part])


@pytest.mark.slow
def test_the_shipped_composer_carries_what_is_in_the_references_of_unseen_houses() -> None:
    backbone = load_backbone(model_folder("tiny"))
    lopd = Lopd(backbone, TINY, 0)
    shipped = shipped_composer(composer_key(backbone, TINY.composer))
    assert shipped is not None
    lopd.equipment.composer.load(shipped)
    drawn = examples(backbone.tokenizer, WarmUp(seed=99))
    own = [next(drawn) for _ in range(48)]
    others = [replace(sample, references=own[index - 1].references) for index, sample in enumerate(own)]
    with lopd.equipment.roles.apart():
        assert nll_of(lopd.equipment, own) < 0.6 * nll_of(lopd.equipment, others)
