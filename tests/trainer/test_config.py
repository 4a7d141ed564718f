import pytest
from pydantic import ValidationError

from trainer.config import ColdStartConfig, LopdConfig
from trainer.presets import PAPER, TINY, TINY_COLD_START


def test_defaults_are_the_papers():
    found = LopdConfig()
    assert (found.composer.references, found.composer.queries, found.support) == (3, 32, 20)
    assert (found.threshold, found.anchor_weight, found.dual_rate, found.beta) == (0.05, 0.2, 0.5, 0.0)
    assert (found.composer_learning_rate, found.update, found.normalisation) == (1e-5, "joint", "token")
    assert found == PAPER


@pytest.mark.parametrize("preset", [PAPER, TINY, TINY_COLD_START, ColdStartConfig()])
def test_presets_survive_json(preset):
    assert type(preset).model_validate_json(preset.model_dump_json()) == preset


@pytest.mark.parametrize("wrong", [{"suport": 20}, {"support": 0}, {"beta": float("nan")}, {"privilege_clip": 0}])
def test_illegal_settings_are_refused(wrong):
    with pytest.raises(ValidationError):
        LopdConfig(**wrong)
