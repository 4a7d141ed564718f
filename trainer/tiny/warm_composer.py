"""Warming up a composer for `tiny`: cold start (eq. 14) on houses that are never served.

Every example has a house of its own, so nothing can be memorised: what goes down is how well latents carry what was read.
A first round's cold start continues from here on its own bank (`trainer.composers`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from agents.transformers_engine.backbone import load_backbone
from agents.worlds.order_desk.kinds import KINDS
from trainer.cold_start import nll_step
from trainer.config import LopdConfig
from trainer.methods.lopd import Lopd
from trainer.presets import TINY
from trainer.sample import Sample
from trainer.tiny.corpus import Mix, reference_of, solve, unserved_house
from trainer.tiny.solved_sample import sample_of
from trainer.updates import Learner

RETRIEVED = Mix(same_kind=0.8)
"""As the retriever brings references from a bank that a weak base filled (`bank.embedding`)."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Everything that the composer depends on, beside the base and the shape in `config`."""

    config: LopdConfig = TINY
    mix: Mix = RETRIEVED
    seed: int = 0
    steps: int = 1000
    batch: int = 24
    learning_rate: float = 2e-3
    warmup: int = 50
    weight_decay: float = 0.01
    clip: float = 3.0


def warm_composer(folder: Path, recipe: WarmUp, on_step: Callable[[int, float], None]) -> dict[str, Any]:
    """φ for the base in `folder`; `on_step(step, nll)` after each update. Returns `Composer.weights()`."""
    backbone = load_backbone(folder)
    lopd = Lopd(backbone, recipe.config, recipe.seed)
    composer = lopd.equipment.composer
    learner = Learner("composer", composer.parameters(), recipe.learning_rate, recipe.weight_decay, recipe.clip)
    drawn = examples(backbone.tokenizer, recipe)
    with lopd.equipment.roles.apart():
        for step in range(recipe.steps):
            for group in learner.optimizer.param_groups:
                group["lr"] = recipe.learning_rate * _schedule(step, recipe)
            on_step(step, nll_step(lopd.equipment, [next(drawn) for _ in range(recipe.batch)], learner))
    return composer.weights()


def examples(tokenizer: PreTrainedTokenizerBase, recipe: WarmUp) -> Iterator[Sample]:
    """Endless solved tasks, each with J references of the same house."""
    rng = random.Random(f"tiny-composer-{recipe.seed}")
    index = 0
    while True:
        house = unserved_house(rng)
        kind = rng.choice(KINDS)
        cell = kind, rng.choice(kind.statuses)
        references = [reference_of(rng, house, cell, recipe.mix) for _ in range(recipe.config.composer.references)]
        yield sample_of(tokenizer, index, solve(rng, house, *cell), references)
        index += 1


def _schedule(step: int, recipe: WarmUp) -> float:
    return min(1.0, (step + 1) / recipe.warmup) * 0.5 * (1.02 + 0.98 * math.cos(math.pi * step / recipe.steps))
