"""Logged trajectories: what the incumbent served, as it was recorded. Nothing of it is executed again.

Only episodes of exactly the version that the round starts from: the recorded log-probabilities are then those of the
student before its first step, and π_θ(τ)/π_recorded(τ) says how far it has moved since.
Rewards are the environment's, or a trusted rater's last word.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from bank.episode import Episode, Split, StopReason
from bank.ledger.ledger import Books, Ledger
from trainer.seeds import derive_seed

NEWEST = 10_000
"""Episodes looked at, newest first."""


def served_by(ledger: Ledger, version: str, digest: str, suite: str) -> list[Episode]:
    """Usable episodes of this version, oldest first: judged, with sampled tokens, on this suite's train tasks or live."""
    with ledger.read() as books:
        found = books.episodes.of_version(version, digest, NEWEST)
        judged = [_judged(books, episode) for episode in found if _usable(episode, suite)]
    return [episode for episode in reversed(judged) if episode.reward is not None]


def again(ledger: Ledger, ids: Sequence[str]) -> list[Episode]:
    """The same episodes for a resumed round; one that a user withdrew since is missing. Order as given."""
    with ledger.read() as books:
        found = [books.episodes.get(each) for each in ids]
        judged = [_judged(books, episode) for episode in found if episode is not None]
    return [episode for episode in judged if episode.reward is not None]


def draw(episodes: Sequence[Episode], count: int, step: int, seed: int) -> list[Episode]:
    """The logged trajectories of a step: consecutive slices of seeded orders in which a task's episodes stand together."""
    if not episodes:
        return []
    places = [divmod(place, len(episodes)) for place in range(step * count, (step + 1) * count)]
    orders = {lap: _order(episodes, derive_seed(seed, "logged", lap)) for lap in {lap for lap, _ in places}}
    return list({orders[lap][offset].id: orders[lap][offset] for lap, offset in places}.values())


def _order(episodes: Sequence[Episode], seed: int) -> list[Episode]:
    together = sorted(episodes, key=lambda episode: episode.task_id)
    groups = [list(group) for _, group in groupby(together, key=lambda episode: episode.task_id)]
    random.Random(seed).shuffle(groups)
    return [episode for group in groups for episode in group]


def _usable(episode: Episode, suite: str) -> bool:
    here = episode.split is Split.LIVE or (episode.split is Split.TRAIN and episode.suite == suite)
    ended = episode.stop_reason not in {StopReason.FAULT, StopReason.CANCELLED}
    return here and ended and any(turn.sampled_ids for turn in episode.turns)


def _judged(books: Books, episode: Episode) -> Episode:
    if episode.reward is not None:
        return episode
    told = [each for each in books.feedback.of_episode(episode.id) if each.trusted and each.retracted_at is None]
    return replace(episode, reward=told[-1].value) if told else episode
