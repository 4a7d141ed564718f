"""A random tiny backbone and recorded order-desk episodes for it."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen3ForCausalLM

from agents.transformers_engine.backbone import Backbone, wrap
from agents.transformers_engine.prompt import render
from agents.worlds.order_desk.house import House
from agents.worlds.order_desk.kinds import KINDS
from agents.worlds.order_desk.suite import SYSTEM, TOOLS
from bank.episode import Episode, Split, StopReason, Turn
from bank.experience import Experience
from bank.message import Message, Role, ToolCall
from trainer.config import ComposerConfig, LopdConfig, StudentConfig
from trainer.sample import Sample
from trainer.tiny.corpus import Solved, solve
from trainer.tiny.pretrain import architecture

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
    found = tuple(_experience(item, index, number) for number, item in enumerate(solved[1:]))
    return Sample(episode_of(solved[0], tokenizer, index, 1.0 if index % 2 == 0 else 0.25), found, TOOLS)


def episode_of(solved: Solved, tokenizer: PreTrainedTokenizerBase, index: int, reward: float) -> Episode:
    opening = (Message(Role.SYSTEM, SYSTEM), Message(Role.USER, solved.text))
    replies = [_call(number, *step) for number, step in enumerate(solved.steps)]
    messages, turns = list(opening), []
    for reply, observations in [*replies, (Message(Role.ASSISTANT, "done"), ())]:
        turns.append(_turn(tokenizer, messages, reply, observations))
        messages += [reply, *observations]
    return Episode(
        id=f"ep_{index}",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        task_id=f"order_desk-0/train/{index:04d}",
        suite="order_desk-0",
        split=Split.TRAIN,
        task=solved.text,
        policy="base",
        digest="random",
        opening=opening,
        turns=tuple(turns),
        stop_reason=StopReason.FINISHED,
        reward=reward,
    )


def _call(number: int, name: str, arguments: dict[str, str], result: str) -> tuple[Message, tuple[Message, ...]]:
    inner = ", ".join(f'"{key}": "{value}"' for key, value in arguments.items())
    call = ToolCall(f"call_{number}", name, f"{{{inner}}}")
    return Message(Role.ASSISTANT, "", (call,)), (Message(Role.TOOL, result, tool_call_id=call.id),)


def _turn(
    tokenizer: PreTrainedTokenizerBase, messages: list[Message], reply: Message, observations: tuple[Message, ...]
) -> Turn:
    prompt = render(tokenizer, messages, TOOLS)
    after = render(tokenizer, [*messages, reply], TOOLS)
    end = len(after) - after[::-1].index(tokenizer.eos_token_id)
    sampled = after[len(prompt) : end]
    return Turn(prompt, sampled, (0.0,) * len(sampled), reply, observations)


def _experience(solved: Solved, index: int, number: int) -> Experience:
    task, trace = solved.document().split("\n", 1)
    name = f"{index}-{number}"
    return Experience(
        f"exp_{name}", f"ep_{name}", "order_desk-0", f"other/{name}", task, trace, 1.0, datetime(2026, 1, 1, tzinfo=UTC)
    )
