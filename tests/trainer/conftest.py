"""A random tiny backbone and recorded order-desk episodes for it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen3ForCausalLM

from agents.transformers_engine.backbone import Backbone, wrap
from agents.worlds.order_desk.house import House
from agents.worlds.order_desk.kinds import KINDS
from trainer.config import ComposerConfig, LopdConfig, StudentConfig
from trainer.sample import Sample
from trainer.tiny.corpus import solve
from trainer.tiny.pretrain import architecture
from trainer.tiny.solved_sample import sample_of

TINY = Path(__file__).parents[2] / "agents" / "models" / "tiny"
SMALL = LopdConfig(
    composer=ComposerConfig(references=2, queries=3, depth=2, rank=2),
    student=StudentConfig(rank=4, alpha=8.0, learning_rate=1e-2),
    composer_learning_rate=1e-3,
    beta=1.0,
)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(TINY, local_files_only=True)


@pytest.fixture
def small() -> LopdConfig:
    return SMALL


def random_backbone(tokenizer: PreTrainedTokenizerBase) -> Backbone:
    """The same random two-layer base every time."""
    torch.manual_seed(0)
    config = architecture(len(tokenizer))
    config.num_hidden_layers = 2
    config.layer_types = config.layer_types[:2]
    config.hidden_size, config.intermediate_size = 64, 96
    return Backbone(wrap(Qwen3ForCausalLM(config)), tokenizer, "random", "random", TINY)


def solved_samples(tokenizer: PreTrainedTokenizerBase, count: int, references: int) -> list[Sample]:
    """Solved tasks as recorded episodes; every second one has reward 0.25."""
    rng = random.Random(1)
    return [_sample(rng, tokenizer, index, references) for index in range(count)]


@pytest.fixture
def new_backbone(tokenizer: PreTrainedTokenizerBase) -> Callable[[], Backbone]:
    return lambda: random_backbone(tokenizer)


@pytest.fixture
def samples(tokenizer: PreTrainedTokenizerBase) -> Callable[..., list[Sample]]:
    return lambda count, references=2: solved_samples(tokenizer, count, references)


def _sample(rng: random.Random, tokenizer: PreTrainedTokenizerBase, index: int, references: int) -> Sample:
    kind = KINDS[index % len(KINDS)]
    solved = [solve(rng, House.of(0), kind, rng.choice(kind.statuses)) for _ in range(references + 1)]
    return sample_of(tokenizer, index, solved[0], solved[1:], reward=1.0 if index % 2 == 0 else 0.25)
