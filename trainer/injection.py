"""Where and how the latent context enters the teacher's input (§3.2, app. A.4-A.5).

At the start of the first user message: framing, J·K latent positions, framing, then the task.
Shape suffixes: T tokens, D width, F and G framing tokens, L latent positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from agents.tools.spec import ToolSpec
from agents.transformers_engine.prompt import render_text
from bank.episode import Episode
from bank.message import Message, Role
from trainer.errors import BadSpan, NoInsertionPoint
from trainer.framing import FRAMING_AFTER, FRAMING_BEFORE

SENTINEL = "\u2063here\u2063"
"""Stands for the first user message while its place is looked up; invisible separators keep it unique."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Token ids around the latent span and the span's length."""

    before: tuple[int, ...]
    latents: int
    """L = J·K."""
    after: tuple[int, ...]

    @property
    def length(self) -> int:
        """Positions that the teacher's input has more than the student's."""
        return len(self.before) + self.latents + len(self.after)


def frame(tokenizer: PreTrainedTokenizerBase, latents: int) -> Frame:
    """The framing of `trainer.framing` as this tokenizer writes it."""
    before, after = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (FRAMING_BEFORE, FRAMING_AFTER))
    return Frame(tuple(before), latents, tuple(after))


class InsertionPoints:
    """Finds the start of the first user message in recorded prompts."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._ids: dict[str, tuple[int, ...]] = {}

    def find(self, episode: Episode, tools: Sequence[ToolSpec]) -> int:
        """Number of recorded prompt tokens before the first user message's text, the same for every turn.

        Raises `NoInsertionPoint` when a recorded prompt doesn't begin with exactly those tokens.
        """
        prefix = self._prefix(episode.opening, tools)
        if any(turn.prompt_ids[: len(prefix)] != prefix for turn in episode.turns):
            raise NoInsertionPoint(
                f"{episode.id}: the recorded prompt doesn't begin as its opening and {len(tools)} tools are rendered"
            )
        return len(prefix)

    def before(self, opening: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """The same for a prompt that is rendered now. Raises `NoInsertionPoint` without a user message."""
        return len(self._prefix(opening, tools))

    def _prefix(self, opening: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        text = render_text(self._tokenizer, _marked(opening), tools).split(SENTINEL)[0]
        if text not in self._ids:
            self._ids[text] = tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])
        return self._ids[text]


def _marked(opening: Sequence[Message]) -> list[Message]:
    first = next((index for index, message in enumerate(opening) if message.role is Role.USER), None)
    if first is None:
        raise NoInsertionPoint("the opening has no user message")
    return [*opening[:first], Message(Role.USER, SENTINEL)]


def inject(embeds_TD: Tensor, point: int, before_FD: Tensor, latent_LD: Tensor, after_GD: Tensor) -> Tensor:
    """One row with its context spliced in at `point`, [T+F+L+G, D]; slices are concatenated, so autograd sees the latents."""
    latent_LD = latent_LD.to(embeds_TD.dtype)
    return torch.cat([embeds_TD[:point], before_FD, latent_LD, after_GD, embeds_TD[point:]])


def check_span(context_BLD: Tensor, latents: int) -> None:
    """Raises `BadSpan` unless every row has exactly `latents` positions."""
    if context_BLD.shape[1] != latents:
        raise BadSpan(f"the latent span has {context_BLD.shape[1]} positions instead of {latents}")
