"""Fixtures of the bank's tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bank.embedding.hashing import HashingEmbedder
from bank.index.memory import MemoryIndex
from bank.ledger.ledger import Ledger
from tests.postgres_server import PostgresServer, running_postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes empty databases of each kind that the ledger supports."""
    numbers = itertools.count()
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path / f'ledger{next(numbers)}.sqlite3'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.new_database


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    return new_url()


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
