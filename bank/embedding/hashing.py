"""HashingEmbedder: words and word pairs hashed into a vector. Deterministic, no model, no dependency.

The smallest choice and the one tests use. It sees shared words, not shared meaning.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from bank.embedding.embedder import Vectors
from bank.embedding.unit import normalised

WORD = re.compile(r"\w+")


class HashingEmbedder:
    """Signed feature hashing (Weinberger et al. 2009) of lower-case words and pairs (`bank.embedding.embedder`)."""

    name = "hashing"
    revision = "1"
    reads_trace = True

    def __init__(self, dimension: int = 256) -> None:
        self._dimension = dimension

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        return self._dimension

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of documents."""
        rows = np.zeros((len(texts), self._dimension), dtype=np.float64)
        for row, text in zip(rows, texts, strict=True):
            for feature in _features(text):
                slot, sign = self._place(feature)
                row[slot] += sign
            if not row.any():
                row[0] = 1.0  # no words at all, or all of them cancelled out
        return normalised(rows) if texts else rows.astype(np.float32)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The same as documents: there is no model that an instruction could tell anything."""
        return self.embed_documents(texts)

    def _place(self, feature: str) -> tuple[int, float]:
        number = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "little")
        return (number >> 1) % self._dimension, 1.0 if number & 1 else -1.0


def _features(text: str) -> Iterator[str]:
    words = WORD.findall(text.lower())
    yield from words
    yield from (f"{left} {right}" for left, right in pairwise(words))
