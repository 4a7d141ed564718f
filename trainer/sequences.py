"""From a recorded episode to training sequences: recorded ids only, nothing is tokenised again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bank.episode import Episode, Turn


@dataclass(frozen=True, slots=True)
class Sequence:
    """One run of tokens with the positions that the student sampled."""

    ids: tuple[int, ...]
    actions: tuple[int, ...]
    """Positions of sampled tokens, ascending (ω = 1)."""
    logprobs: tuple[float, ...]
    """What the version that sampled them gave them, in nats, as recorded."""


def sequences_of(episode: Episode) -> tuple[Sequence, ...]:
    """Turns merged as far as possible.

    A turn continues the sequence when its prompt starts with everything before it (prompt and sampled ids of the
    previous turn); otherwise, e.g. when a template drops earlier thoughts, it starts a new one. Every sampled token
    is in exactly one sequence.
    """
    return tuple(Sequence(ids, tuple(actions), tuple(logprobs)) for ids, actions, logprobs in _merged(episode.turns))


def _merged(turns: tuple[Turn, ...]) -> Iterator[tuple[tuple[int, ...], list[int], list[float]]]:
    ids: tuple[int, ...] = ()
    actions: list[int] = []
    logprobs: list[float] = []
    for turn in turns:
        if turn.prompt_ids[: len(ids)] != ids:
            if actions:
                yield ids, actions, logprobs
            actions, logprobs = [], []
        ids = turn.prompt_ids + turn.sampled_ids
        actions = [*actions, *range(len(turn.prompt_ids), len(ids))]
        logprobs = [*logprobs, *turn.logprobs]
    if actions:
        yield ids, actions, logprobs
