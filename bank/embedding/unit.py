"""Unit vectors: made here, checked wherever vectors cross a boundary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bank.embedding.embedder import Vectors

TOLERANCE = 1e-3
"""float32 rounding of a normalised vector stays two orders of magnitude below; a vector not normalised does not."""


class BadVectors(ValueError):
    """Vectors of the wrong shape, with non-finite numbers or not of length 1."""


def normalised(vectors: NDArray[np.floating]) -> Vectors:
    """Rows scaled to length 1. Raises `BadVectors` for a row of zeros or with a non-finite number."""
    wide = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or (lengths == 0.0).any():
        raise BadVectors("a vector of zeros or with a non-finite number has no direction")
    unit: Vectors = (wide / lengths).astype(np.float32)
    return unit


def checked(vectors: NDArray[np.floating], rows: int, dimension: int) -> Vectors:
    """The same vectors as float32 [rows, dimension]. Raises `BadVectors` unless every row has length 1."""
    array = np.asarray(vectors, dtype=np.float32)
    if array.shape != (rows, dimension):
        raise BadVectors(f"expected vectors of shape {(rows, dimension)}, got {array.shape}")
    lengths = np.linalg.norm(array.astype(np.float64), axis=1)
    wrong = ~(np.abs(lengths - 1.0) <= TOLERANCE)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadVectors(f"vector {row} has length {lengths[row]:.4f} instead of 1: its embedder does not normalise")
    return array
