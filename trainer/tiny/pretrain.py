"""Pre-training of `tiny`: next-token prediction on the corpus, reproducible from a seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from trainer.tiny.corpus import TOOLS_WIRE, Mix, conversations
from trainer.tiny.tokenizer import END, PAD, save_tokenizer

ASSISTANT = "\n<|im_start|>assistant\n"
POOL = 8
"""Batches drawn together and sorted by length, so that little is padding."""


EASY = Mix(referenced=0.9, same_kind=1.0, same_status=1.0)
"""Every reference shows how the very same kind and status was solved: copying is discovered within 200 steps."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """One warm-up and cosine decay, with a fresh optimizer."""

    stages: tuple[tuple[int, Mix], ...]
    """(steps, mix) in order: a curriculum."""
    learning_rate: float
    warmup: int = 100

    @property
    def steps(self) -> int:
        """Optimizer steps of the cycle."""
        return sum(steps for steps, _ in self.stages)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that the weights depend on."""

    seed: int = 0
    cycles: tuple[Cycle, ...] = (Cycle(((250, EASY), (750, Mix())), 3e-3), Cycle(((1000, Mix()),), 2e-3))
    """With references of both statuses in context, the right first call gets 0.55 after the first cycle and 0.70 after
    the second (mean over 96 unseen houses); chance is 0.25."""
    batch: int = 24
    weight_decay: float = 0.01
    context_weight: float = 0.2
    """Loss weight of tokens that the assistant did not say."""

    @property
    def steps(self) -> int:
        """Optimizer steps in all."""
        return sum(cycle.steps for cycle in self.cycles)


def architecture(vocabulary: int) -> Qwen3Config:
    """Qwen3 at 4 layers x 128; heads of 32 so that vLLM's CPU backend serves it too."""
    return Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        rope_theta=10_000.0,
        tie_word_embeddings=True,
        initializer_range=0.05,
    )


def pretrain(folder: Path, recipe: Recipe, on_step: Callable[[int, float], None]) -> Qwen3ForCausalLM:
    """Train the base from scratch and save it beside its tokenizer."""
    torch.manual_seed(recipe.seed)
    tokenizer = save_tokenizer(folder)
    config = architecture(len(tokenizer))
    config.eos_token_id = config.bos_token_id = tokenizer.convert_tokens_to_ids(END)
    config.pad_token_id = tokenizer.convert_tokens_to_ids(PAD)
    model = Qwen3ForCausalLM(config)
    done = 0
    for number, cycle in enumerate(recipe.cycles):
        _train(model, tokenizer, recipe, number, lambda step, loss, done=done: on_step(done + step, loss))  # type: ignore[misc]
        done += cycle.steps
    model.save_pretrained(str(folder))
    return model


def _train(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Recipe,
    number: int,
    on_step: Callable[[int, float], None],
) -> None:
    cycle = recipe.cycles[number]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=cycle.learning_rate, betas=(0.9, 0.98), weight_decay=recipe.weight_decay
    )
    for step, (ids_BT, weight_BT) in enumerate(_batches(tokenizer, recipe, number)):
        for group in optimizer.param_groups:
            group["lr"] = cycle.learning_rate * _schedule(step, cycle)
        loss = _loss(model, ids_BT, weight_BT)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        on_step(step, loss.item())


def _loss(model: Qwen3ForCausalLM, ids_BT: torch.Tensor, weight_BT: torch.Tensor) -> torch.Tensor:
    # right padding and a causal mask: no attention mask is needed, padded targets weigh nothing
    logits_BTV = model(input_ids=ids_BT[:, :-1], use_cache=False).logits
    losses_BT = torch.nn.functional.cross_entropy(logits_BTV.transpose(1, 2), ids_BT[:, 1:], reduction="none")
    return (losses_BT * weight_BT[:, 1:]).sum() / weight_BT[:, 1:].sum()


def _schedule(step: int, cycle: Cycle) -> float:
    if step < cycle.warmup:
        return (step + 1) / cycle.warmup
    progress = (step - cycle.warmup) / max(1, cycle.steps - cycle.warmup)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress))


def _batches(
    tokenizer: PreTrainedTokenizerFast, recipe: Recipe, number: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    # every cycle reads a part of the corpus of its own
    seed = recipe.seed + number
    order = torch.Generator().manual_seed(seed)
    texts = _texts(tokenizer, recipe.cycles[number], recipe.batch, seed)
    while drawn := list(itertools.islice(texts, POOL * recipe.batch)):
        rows = sorted(tokenizer(drawn, add_special_tokens=False)["input_ids"], key=len)
        for index in torch.randperm(math.ceil(len(rows) / recipe.batch), generator=order).tolist():
            yield _pad(rows[index * recipe.batch : (index + 1) * recipe.batch], tokenizer, recipe.context_weight)


def _texts(tokenizer: PreTrainedTokenizerFast, cycle: Cycle, batch: int, seed: int) -> Iterator[str]:
    for steps, mix in cycle.stages:
        for messages in itertools.islice(conversations(seed, mix), steps * batch):
            yield tokenizer.apply_chat_template(messages, tools=TOOLS_WIRE, tokenize=False)


def _pad(
    rows: list[list[int]], tokenizer: PreTrainedTokenizerFast, context_weight: float
) -> tuple[torch.Tensor, torch.Tensor]:
    pad, end, start = (tokenizer.convert_tokens_to_ids(token) for token in (PAD, END, ASSISTANT))
    ids = torch.full((len(rows), max(map(len, rows))), pad)
    weight = torch.zeros(ids.shape)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row)
        weight[index, : len(row)] = torch.tensor([1.0 if said else context_weight for said in _said(row, start, end)])
    return ids, weight


def _said(row: list[int], start: int, end: int) -> list[bool]:
    """Marks what the assistant said, its end-of-turn tokens included."""
    said, marks = False, []
    for token in row:
        marks.append(said)
        said = token == start or (said and token != end)
    return marks
