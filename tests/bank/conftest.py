"""Fixtures of the bank's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bank.embedding.hashing import HashingEmbedder
from bank.index.memory import MemoryIndex
from bank.ledger.ledger import Ledger


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.sqlite3'}"


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    opened = Ledger.open(url)
    yield opened
    opened.close()


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder(dimension=64)


@pytest.fixture
def index(embedder: HashingEmbedder) -> MemoryIndex:
    return MemoryIndex(embedder.dimension)
