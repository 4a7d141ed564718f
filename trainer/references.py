"""Library: the bank as one round sees it - a frozen snapshot, asked with embedded tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from agents.environment import Task
from bank.embedding.embedder import Embedder
from bank.episode import Episode, Split
from bank.experience import Experience
from bank.ledger.ledger import Ledger
from bank.snapshot import Snapshot


class Library:
    """Retrieves the same J experiences for a task whenever it is asked in this round."""

    def __init__(
        self,
        snapshot: Snapshot,
        embedder: Embedder,
        count: int,
        episodes: Iterable[Episode] = (),
        *,
        self_retrieval: bool = False,
    ) -> None:
        """`episodes` are those behind the experiences, as far as a method wants to see their tokens.

        `self_retrieval` lets a task find its own trajectories; only `trainer.compare` may ask for it, as an ablation.
        """
        self._self_retrieval = self_retrieval
        self.snapshot = snapshot
        self._episodes = {episode.id: episode for episode in episodes}
        self._embedder = embedder
        self._count = count
        self._queries: dict[str, NDArray[np.float32]] = {}

    def prepare(self, tasks: Iterable[Task]) -> None:
        """Embed the tasks' texts in one batch."""
        texts = sorted({task.text for task in tasks} - self._queries.keys()) if self._count else []
        if texts:
            self._queries.update(zip(texts, self._embedder.embed_queries(texts), strict=True))

    def own(self, task_id: str, episode_id: str) -> tuple[Experience | None, Episode | None]:
        """The newest success of the task itself, other than this episode, and its recorded run where that is known."""
        found = [each for each in self.snapshot.of_task(task_id) if each.episode_id != episode_id]
        return (found[-1], self._episodes.get(found[-1].episode_id)) if found else (None, None)

    def references(self, task_id: str, text: str) -> tuple[Experience, ...]:
        """The J nearest experiences of other tasks, fewer when the snapshot has no more."""
        if not self._count:
            return ()
        if text not in self._queries:
            self._queries[text] = self._embedder.embed_queries([text])[0]
        found = self.snapshot.retrieve(
            self._queries[text], self._count, exclude_task=None if self._self_retrieval else task_id
        )
        return tuple(item.experience for item in found)


def sufficient(ledger: Ledger, snapshot: Snapshot, least: int, references: int) -> bool:
    """Whether the bank holds `least` experiences, and J of other tasks for any task."""
    with ledger.read() as books:
        experiences = books.experiences.get_many(snapshot.ids)
    own = Counter(experience.task_id for experience in experiences)
    return len(snapshot) >= max(least, references + max(own.values(), default=0))


def lived(ledger: Ledger, snapshot: Snapshot, suite: str) -> list[Episode]:
    """The successful episodes behind the snapshot, for the cold start.

    Left out: other suites' episodes, whose tools this one can't name, and those without recorded tokens.
    """
    with ledger.read() as books:
        experiences = books.experiences.get_many(snapshot.ids)
        episodes = [books.episodes.get(experience.episode_id) for experience in experiences]
    return [episode for episode in episodes if episode is not None and _teaches(episode, suite)]


def _teaches(episode: Episode, suite: str) -> bool:
    known = episode.suite == suite or episode.split is Split.LIVE
    return known and any(turn.sampled_ids for turn in episode.turns)
