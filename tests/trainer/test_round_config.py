from __future__ import annotations

import pytest
from pydantic import ValidationError

from trainer.round_config import PAPER_ROUND, TINY_ROUND, ConfigRefused, defaults_for, read_config


def test_tiny_defaults():
    config = defaults_for("tiny")
    assert (config.steps, config.tasks_per_step, config.lopd.composer.references) == (24, 32, 3)
    assert config.gate.tasks is None
    assert config.sampling.temperature == 1.0


def test_paper_defaults_for_other_models():
    assert defaults_for("some/model") is PAPER_ROUND
    assert (PAPER_ROUND.steps, PAPER_ROUND.lopd.composer.queries) == (100, 32)


def test_later_overrides_win_and_leave_their_neighbours():
    config = read_config(TINY_ROUND, {"steps": 5, "lopd": {"support": 7}}, {"lopd": {"threshold": 0.1}, "steps": 6})
    assert (config.steps, config.lopd.support, config.lopd.threshold) == (6, 7, 0.1)
    assert config.lopd.composer == TINY_ROUND.lopd.composer


def test_dataclass_fields_are_overridden_one_by_one():
    config = read_config(TINY_ROUND, {"limits": {"steps": 3}, "sampling": {"temperature": 0.5}})
    assert (config.limits.steps, config.limits.tokens) == (3, TINY_ROUND.limits.tokens)
    assert (config.sampling.temperature, config.sampling.max_tokens) == (0.5, TINY_ROUND.sampling.max_tokens)


@pytest.mark.parametrize(
    ("override", "place"),
    [
        ({"stepz": 3}, "stepz"),
        ({"lopd": {"gamma": 1}}, "lopd.gamma"),
        ({"gate": {"confidence": 1.5}}, "gate.confidence"),
        ({"sampling": {"heat": 2}}, "sampling.heat"),
        ({"limits": {"steps": "many"}}, "limits.steps"),
        ({"steps": -1}, "steps"),
        ({"lopd": 3}, "lopd"),
    ],
)
def test_a_wrong_override_is_named(override, place):
    with pytest.raises(ConfigRefused, match=place):
        read_config(TINY_ROUND, override)


def test_configuration_is_frozen():
    with pytest.raises(ValidationError):
        TINY_ROUND.steps = 3
