"""Snapshot: the bank as one round sees it, frozen when the round starts.

LOPD retrieves from a flat index by exact inner product (app. A.3). A round asks for references of every task of every
step, so the vectors are read once and kept: the answers can't change in the middle of a round, and a round that was
killed gets the same ones after its restart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bank.experience import Experience
from bank.index.index import ExperienceIndex
from bank.ledger.errors import HeldOutRefused, LedgerError
from bank.ledger.ledger import Ledger


class IndexIncomplete(LedgerError):
    """The index lacks experiences that the snapshot needs; `bank.relay.rebuild` repairs it."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """One reference and how well it matches."""

    experience: Experience
    score: float
    """Inner product of unit vectors, in [-1, 1]."""


class Snapshot:
    """Experiences and their vectors, both fixed."""

    def __init__(self, experiences: Sequence[Experience], vectors: NDArray[np.float32]) -> None:
        self._experiences = tuple(experiences)
        self._vectors = vectors
        self._task_ids = np.array([experience.task_id for experience in experiences], dtype=object)
        self.ids = tuple(experience.id for experience in experiences)
        self.digest = _digest(self._experiences)

    def __len__(self) -> int:
        return len(self._experiences)

    def of_task(self, task_id: str) -> tuple[Experience, ...]:
        """The task's own experiences, in the order of the snapshot."""
        return tuple(experience for experience in self._experiences if experience.task_id == task_id)

    def retrieve(self, query: NDArray[np.float32], count: int, *, exclude_task: str | None) -> tuple[Retrieved, ...]:
        """The `count` best matches of a query vector [dimension], best first; fewer when there are no more.

        Never an experience of `exclude_task`: a task must not be taught by its own trajectory; None excludes nothing. Equal scores keep the
        order of the snapshot.
        """
        allowed = np.flatnonzero(self._task_ids != exclude_task)
        if allowed.size == 0:
            return ()
        scores = self._vectors[allowed] @ np.asarray(query, dtype=np.float32)
        best = np.argsort(-scores, kind="stable")[:count]
        return tuple(Retrieved(self._experiences[allowed[i]], float(scores[i])) for i in best)


def freeze(ledger: Ledger, index: ExperienceIndex, ids: Sequence[str] | None = None) -> Snapshot:
    """Everything that can be retrieved now, oldest first; on resume exactly the given ids in their order.

    Raises `HeldOutRefused` when an evaluation task got into the bank, `IndexIncomplete` when the index has lost a
    vector, which is also how a resumed round learns that one of its experiences was withdrawn in between.
    """
    with ledger.read() as books:
        experiences = books.experiences.indexed() if ids is None else books.experiences.get_many(ids)
        wanted = [experience.id for experience in experiences]
        refused = books.experiences.held_out(wanted)
    if refused:
        raise HeldOutRefused(f"held-out tasks are in the bank: {', '.join(refused)}")
    found = index.fetch(wanted)
    missing = [one for one in wanted if one not in found]
    if missing:
        raise IndexIncomplete(f"the index lacks {len(missing)} of {len(wanted)} experiences, first {missing[0]}")
    vectors = np.stack([found[one] for one in wanted]) if wanted else np.zeros((0, 0), dtype=np.float32)
    return Snapshot(experiences, vectors)


def _digest(experiences: Sequence[Experience]) -> str:
    """sha256 of what is retrieved. Vectors are left out: they follow from the texts and the embedder's revision."""
    hashed = hashlib.sha256()
    for experience in experiences:
        line = [experience.id, experience.task_id, experience.task, experience.trace, experience.reward]
        hashed.update(json.dumps(line).encode() + b"\n")
    return hashed.hexdigest()
