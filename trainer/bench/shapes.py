"""Random models and recorded episodes of a wanted size: what a step costs doesn't depend on what was learned."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from agents.model_folder import SHIPPED
from agents.transformers_engine.attention import GROUPED, register_grouped
from agents.transformers_engine.backbone import Backbone, wrap
from agents.transformers_engine.prompt import render
from bank.episode import Episode, Split, StopReason, Turn
from bank.experience import Experience
from bank.message import Message, Role
from trainer.sample import Sample

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOKENIZER = SHIPPED / "tiny"
REAL_VOCABULARY = 151_936
"""Qwen3's."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One model's size."""

    hidden: int = 256
    intermediate: int = 768
    layers: int = 4
    heads: int = 8
    key_heads: int = 4
    width: int = 32
    vocabulary: int = REAL_VOCABULARY
    positions: int = 40_960
    """Real models' contexts are beyond `trainer.trunk.LONGEST`: their steps run through transformers' own layers."""


QWEN3_4B = Shape(2560, 9728, 36, 32, 8, 128)
QWEN3_8B = Shape(4096, 12_288, 36, 32, 8, 128)


@dataclass(frozen=True, slots=True)
class Load:
    """One step's work."""

    rows: int = 2
    prompt: int = 128
    turns: int = 4
    sampled: int = 16
    """Tokens of each turn that are supervised."""
    observed: int = 224
    """Tokens of each turn's observations."""
    references: int = 3
    reference: int = 96

    @property
    def length(self) -> int:
        """Tokens of one trajectory, about."""
        return self.prompt + self.turns * (self.sampled + self.observed)


SINGLE_TURN = Load(rows=8, turns=1, prompt=256, sampled=128, observed=0)
"""What TRL's trainers support."""


def config_of(shape: Shape) -> Qwen3Config:
    """Qwen3 of this shape."""
    return Qwen3Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        head_dim=shape.width,
        max_position_embeddings=shape.positions,
        tie_word_embeddings=True,
        initializer_range=0.05,
    )


def tokenizer() -> PreTrainedTokenizerBase:
    """The shipped model's: its ids are valid in every larger vocabulary."""
    return AutoTokenizer.from_pretrained(TOKENIZER, local_files_only=True)


def base_of(shape: Shape, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Qwen3ForCausalLM:
    """The same random weights every time."""
    register_grouped()
    torch.manual_seed(0)
    config = config_of(shape)
    config._attn_implementation = GROUPED  # noqa: SLF001 - transformers has no public way before construction
    with torch.device(device):
        return Qwen3ForCausalLM(config).to(dtype)


def backbone_of(base: Qwen3ForCausalLM) -> Backbone:
    """The base behind PEFT."""
    return Backbone(wrap(base), tokenizer(), "random", "random", TOKENIZER)


def samples_of(load: Load, vocabulary: int, seed: int = 0) -> list[Sample]:
    """Random trajectories with rewards of 1 and 0.25 in turn, two rollouts of each task."""
    rng = random.Random(seed)
    reads = tokenizer()
    return [_sample(rng, reads, load, min(vocabulary, len(reads)), index) for index in range(load.rows)]


def _sample(rng: random.Random, reads: PreTrainedTokenizerBase, load: Load, vocabulary: int, index: int) -> Sample:
    opening = (Message(Role.USER, _words(rng, load.prompt)),)
    ids = render(reads, opening)
    turns = []
    for _ in range(load.turns):
        sampled = tuple(rng.randrange(vocabulary) for _ in range(load.sampled))
        logprobs = (-float(torch.tensor(vocabulary).log()),) * load.sampled
        turns.append(Turn(ids, sampled, logprobs, Message(Role.ASSISTANT, "")))
        ids = (*ids, *sampled, *(rng.randrange(vocabulary) for _ in range(load.observed)))
    episode = Episode(
        id=f"ep_{index}",
        created_at=NOW,
        task_id=f"task_{index // 2}",
        suite="bench",
        split=Split.TRAIN,
        task=opening[0].content[:40],
        policy="base",
        digest="random",
        opening=opening,
        turns=tuple(turns),
        stop_reason=StopReason.FINISHED,
        reward=1.0 if index % 2 == 0 else 0.25,
    )
    references = tuple(_reference(rng, load, index, number) for number in range(load.references))
    own = replace(references[0], task_id=episode.task_id)
    return Sample(episode, references, (), own)


def _reference(rng: random.Random, load: Load, index: int, number: int) -> Experience:
    name = f"{index}-{number}"
    return Experience(
        f"exp_{name}", f"other_{name}", "bench", f"other_{name}", "task", _words(rng, load.reference), 1.0, NOW
    )


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(("order", "please", "refund", "status", "city", "cancel")) for _ in range(count))
