"""The index protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bank.embedding.embedder import Vectors
from bank.experience import Experience


class ExperienceIndex(Protocol):
    """Holds one unit vector for each experience, by the experience's id."""

    def upsert(self, experiences: Sequence[Experience], vectors: Vectors) -> None:
        """Store or replace; durable on return. Raises `BadVectors` and then stores nothing."""
        ...

    def remove(self, ids: Sequence[str]) -> None:
        """Forget these; durable on return. Ids it does not hold are ignored."""
        ...

    def fetch(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors by id; ids it does not hold are absent."""
        ...

    def count(self) -> int:
        """Number of experiences it holds."""
        ...

    def ids(self) -> frozenset[str]:
        """All that it holds."""
        ...

    def close(self) -> None:
        """Release files, locks and connections."""
        ...
