"""The embedder protocol: texts to unit vectors, documents and queries apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""Shape [texts, dimension], every row of length 1."""


class Embedder(Protocol):
    """Turns texts into vectors whose inner product says how alike they are."""

    name: str
    """Model name."""
    revision: str
    """What else decides the vectors; name and revision together name the collection in the index."""
    reads_trace: bool
    """Whether a document is task and trace (`Experience.document`) or the task alone."""

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of experiences, each as the text that `reads_trace` asks for."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of tasks that look for experiences, the model's query instruction included."""
        ...
