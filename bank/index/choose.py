"""open_index: from a place in the settings to an index."""

from __future__ import annotations

from pathlib import Path

from bank.embedding.embedder import Embedder
from bank.index.index import ExperienceIndex
from bank.index.qdrant import TIMEOUT_SECONDS, QdrantIndex


def open_index(
    where: str | Path, api_key: str | None, embedder: Embedder, timeout: int = TIMEOUT_SECONDS
) -> ExperienceIndex:
    """The index at `where`: a server for an http(s) URL (which takes key and timeout in seconds), a local folder otherwise.

    Raises `bank.index.unusable.IndexUnusable`.
    """
    if isinstance(where, str) and where.startswith(("http://", "https://")):
        return QdrantIndex.open_server(where, embedder, api_key, timeout)
    return QdrantIndex.open_local(Path(where), embedder)
