"""open_index: from a place in the settings to an index."""

from __future__ import annotations

from pathlib import Path

from bank.embedding.embedder import Embedder
from bank.index.index import ExperienceIndex
from bank.index.qdrant import QdrantIndex


def open_index(where: str | Path, api_key: str | None, embedder: Embedder) -> ExperienceIndex:
    """The index at `where`: a server for an http(s) URL (which takes the key), a local folder otherwise.

    Raises `bank.index.qdrant.IndexUnusable`.
    """
    if isinstance(where, str) and where.startswith(("http://", "https://")):
        return QdrantIndex.open_server(where, embedder, api_key)
    return QdrantIndex.open_local(Path(where), embedder)
