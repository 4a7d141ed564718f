"""The command that makes the index anew, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bank.embedding.hashing import HashingEmbedder
from bank.index.qdrant import QdrantIndex
from bank.ledger.ledger import Ledger
from tests.bank.records import fill


@pytest.fixture
def data(tmp_path: Path) -> Path:
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    fill(ledger, 3)
    ledger.close()
    return tmp_path


def rebuilt(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service.cli", "bank", "rebuild", "--data", str(data), *options]
    environment = {**os.environ, "RATCHET_EMBEDDER": "hashing"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_lost_index_is_made_anew_from_the_ledger_alone(data: Path) -> None:
    assert rebuilt(data).stdout == "3 experiences in the index, 3 written or removed\n"
    index = QdrantIndex.open_local(data / "index", HashingEmbedder())
    assert index.ids() == {"exp_1", "exp_2", "exp_3"}
    index.close()
    assert rebuilt(data).stdout == "3 experiences in the index, 0 written or removed\n"
    assert rebuilt(data, "--all").stdout == "3 experiences in the index, 3 written or removed\n"


def test_an_index_that_a_worker_uses_is_left_alone(data: Path) -> None:
    worker = QdrantIndex.open_local(data / "index", HashingEmbedder())
    refused = rebuilt(data)
    worker.close()
    assert refused.returncode == 1
    assert "Stop the other worker" in refused.stderr
    assert "Traceback" not in refused.stderr
