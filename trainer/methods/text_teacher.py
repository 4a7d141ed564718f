"""The same recorded tokens after other words: rows as a text teacher reads them.

The opening is rendered with and without the evidence. What differs in the first prompt's tokens is exchanged; every
token that the student saw or sampled afterwards stays the recorded one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from transformers import PreTrainedTokenizerBase

from agents.transformers_engine.prompt import render
from trainer.batch import Row
from trainer.errors import NoInsertionPoint
from trainer.methods.context import Opening
from trainer.sample import Sample


@dataclass(frozen=True, slots=True)
class Exchange:
    """The first tokens of a recorded prompt and what stands in their place."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    def row(self, row: Row) -> Row:
        """The row as the teacher reads it. Raises `NoInsertionPoint` when it begins otherwise."""
        if row.ids[: len(self.before)] != self.before:
            raise NoInsertionPoint("a recorded prompt doesn't begin as its opening is rendered")
        shift = len(self.after) - len(self.before)
        actions = tuple(action + shift for action in row.actions)
        return replace(row, ids=self.after + row.ids[len(self.before) :], actions=actions, point=plain_point(actions))


def plain_point(actions: Sequence[int]) -> int:
    """Where tokens that rows share must end at the latest when nothing is inserted: before the first prediction."""
    return actions[0] - 1


class TextTeacher:
    """Renders openings and remembers what it rendered."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._known: dict[tuple[object, ...], tuple[int, ...]] = {}

    def exchange(self, sample: Sample, opening: Opening) -> Exchange:
        """From the sample's own opening to this one."""
        own, other = (self.rendered(each, sample) for each in (sample.episode.opening, opening))
        same = _common(reversed(own), reversed(other))
        return Exchange(own[: len(own) - same], other[: len(other) - same])

    def twins(self, rows: Sequence[Row], samples: Sequence[Sample], openings: Sequence[Opening]) -> list[Row]:
        """Every row as the teacher reads it, with `openings[i]` for the sample i. Raises `NoInsertionPoint`."""
        exchanges = [self.exchange(sample, opening) for sample, opening in zip(samples, openings, strict=True)]
        return [exchanges[row.trajectory].row(row) for row in rows]

    def rendered(self, opening: Opening, sample: Sample) -> tuple[int, ...]:
        """Prompt ids of the opening with the sample's tools."""
        key = (opening, tuple((tool.name, tool.description) for tool in sample.tools))
        if key not in self._known:
            self._known[key] = render(self._tokenizer, opening, sample.tools)
        return self._known[key]


def _common(one: Iterable[int], other: Iterable[int]) -> int:
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in same)
