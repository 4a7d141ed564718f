"""MemoryIndex: a dictionary; the choice of tests and of experiments that need no second run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bank.embedding.embedder import Vectors
from bank.embedding.unit import checked
from bank.experience import Experience


class MemoryIndex:
    """Forgets everything with the process (`bank.index.index.ExperienceIndex`)."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def upsert(self, experiences: Sequence[Experience], vectors: Vectors) -> None:
        """Store or replace."""
        rows = checked(vectors, len(experiences), self._dimension)
        for experience, row in zip(experiences, rows, strict=True):
            self._vectors[experience.id] = row.copy()

    def remove(self, ids: Sequence[str]) -> None:
        """Forget."""
        for one in ids:
            self._vectors.pop(one, None)

    def fetch(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors by id."""
        return {one: self._vectors[one].copy() for one in ids if one in self._vectors}

    def count(self) -> int:
        """Size."""
        return len(self._vectors)

    def ids(self) -> frozenset[str]:
        """All ids."""
        return frozenset(self._vectors)

    def close(self) -> None:
        """Nothing to release."""
