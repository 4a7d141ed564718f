"""From the outbox into the index, killable anywhere."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bank.embedding.hashing import HashingEmbedder
from bank.index.memory import MemoryIndex
from bank.index.qdrant import QdrantIndex
from bank.ledger.ledger import Ledger
from bank.relay import rebuild, relay
from tests.bank.records import episode, experience, fill, later

DIES = """
import os, signal, sys
from pathlib import Path
from bank.embedding.hashing import HashingEmbedder
from bank.index.qdrant import QdrantIndex
from bank.ledger.ledger import Ledger
from bank.relay import relay

class Dying(QdrantIndex):
    pass

def then_die(self, *arguments):
    getattr(QdrantIndex, sys.argv[3])(self, *arguments)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(Dying, sys.argv[3], then_die)
embedder = HashingEmbedder(64)
relay(Ledger.open(sys.argv[1]), Dying.open_local(Path(sys.argv[2]), embedder), embedder)
"""


def state(ledger: Ledger) -> tuple[int, int, int]:
    """Pending, indexed, withdrawn but not removed."""
    with ledger.read() as books:
        return (
            len(books.experiences.pending(100)),
            books.experiences.indexed_count(),
            len(books.experiences.withdrawn_unapplied(100)),
        )


def die_after(step: str, url: str, folder: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", DIES, url, str(folder), step], timeout=60, check=False)
    assert killed.returncode == -9


def test_new_experiences_are_indexed_and_marked_oldest_first(
    ledger: Ledger, index: MemoryIndex, embedder: HashingEmbedder
):
    stored = fill(ledger, 5)
    assert relay(ledger, index, embedder, limit=3) == 3
    assert index.ids() == {"exp_1", "exp_2", "exp_3"}
    assert relay(ledger, index, embedder, limit=3) == 2
    assert relay(ledger, index, embedder, limit=3) == 0
    assert state(ledger) == (0, 5, 0)
    expected = embedder.embed_documents([stored[4].document])[0]
    np.testing.assert_array_equal(index.fetch(["exp_5"])["exp_5"], expected)


class TaskReader(HashingEmbedder):
    reads_trace = False


def test_an_embedder_that_compares_tasks_gets_no_trace(ledger: Ledger, index: MemoryIndex):
    stored = fill(ledger, 1)
    relay(ledger, index, TaskReader(64))
    expected = TaskReader(64).embed_documents([stored[0].task])[0]
    np.testing.assert_array_equal(index.fetch(["exp_1"])["exp_1"], expected)


def test_withdrawn_experiences_leave_the_index(ledger: Ledger, index: MemoryIndex, embedder: HashingEmbedder):
    fill(ledger, 3)
    relay(ledger, index, embedder)
    with ledger.write() as books:
        books.experiences.withdraw("ep_2", later(1))
    assert relay(ledger, index, embedder) == 1
    assert index.ids() == {"exp_1", "exp_3"}
    assert state(ledger) == (0, 2, 0)


class WithdrawnMeanwhile(HashingEmbedder):
    """Somebody takes the success back while it is being embedded."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(64)
        self._ledger = ledger

    def embed_documents(self, texts):
        with self._ledger.write() as books:
            books.experiences.withdraw("ep_1", later(1))
        return super().embed_documents(texts)


def test_one_that_is_withdrawn_while_it_is_embedded_does_not_stay(ledger: Ledger, index: MemoryIndex):
    fill(ledger, 2)
    relay(ledger, index, WithdrawnMeanwhile(ledger))
    assert index.ids() == {"exp_2"}
    assert state(ledger) == (0, 1, 0)


def test_killed_between_upsert_and_mark_it_repeats_without_doubling(ledger: Ledger, url: str, tmp_path: Path):
    fill(ledger, 3)
    die_after("upsert", url, tmp_path / "index")
    assert state(ledger) == (3, 0, 0)
    embedder = HashingEmbedder(64)
    index = QdrantIndex.open_local(tmp_path / "index", embedder)
    assert index.count() == 3
    assert relay(ledger, index, embedder) == 3
    assert (index.count(), state(ledger)) == (3, (0, 3, 0))
    index.close()


def test_killed_between_removal_and_mark_it_repeats(ledger: Ledger, url: str, tmp_path: Path):
    fill(ledger, 2)
    with ledger.write() as books:
        books.experiences.withdraw("ep_1", later(1))
    die_after("remove", url, tmp_path / "index")
    assert state(ledger) == (0, 1, 1)
    embedder = HashingEmbedder(64)
    index = QdrantIndex.open_local(tmp_path / "index", embedder)
    assert relay(ledger, index, embedder) == 1
    assert (index.ids(), state(ledger)) == ({"exp_2"}, (0, 1, 0))
    index.close()


class Unreachable(MemoryIndex):
    """The index does not answer."""

    def upsert(self, experiences, vectors):
        raise ConnectionError(f"{len(experiences)} experiences, {len(vectors)} vectors")


def test_nothing_is_marked_when_the_index_does_not_answer(ledger: Ledger, embedder: HashingEmbedder):
    fill(ledger, 2)
    with pytest.raises(ConnectionError):
        relay(ledger, Unreachable(embedder.dimension), embedder)
    assert state(ledger) == (2, 0, 0)


def test_a_lost_index_is_rebuilt_from_the_ledger(ledger: Ledger, index: MemoryIndex, embedder: HashingEmbedder):
    fill(ledger, 4)
    relay(ledger, index, embedder)
    with ledger.write() as books:
        books.experiences.withdraw("ep_4", later(1))
    relay(ledger, index, embedder)
    fresh = MemoryIndex(embedder.dimension)
    assert rebuild(ledger, fresh, embedder) == 3
    assert fresh.ids() == index.ids() == {"exp_1", "exp_2", "exp_3"}
    assert rebuild(ledger, fresh, embedder) == 0


def test_what_the_ledger_does_not_know_leaves_the_index(ledger: Ledger, index: MemoryIndex, embedder: HashingEmbedder):
    fill(ledger, 2)
    index.upsert([experience(9)], embedder.embed_documents(["left over from a restored backup"]))
    with ledger.write() as books:
        books.episodes.add(episode(3))
        books.experiences.add(experience(3))
        books.experiences.withdraw("ep_3", later(1))
    rebuild(ledger, index, embedder)
    assert index.ids() == {"exp_1", "exp_2"}
    assert state(ledger) == (0, 2, 0)


def test_a_point_that_came_back_after_its_removal_is_removed_again(
    ledger: Ledger, index: MemoryIndex, embedder: HashingEmbedder
):
    fill(ledger, 2)
    with ledger.write() as books:
        books.experiences.withdraw("ep_1", later(1))
    relay(ledger, index, embedder)
    index.upsert([experience(1)], embedder.embed_documents(["replayed by a server that was killed"]))
    assert rebuild(ledger, index, embedder) == 1
    assert index.ids() == {"exp_2"}


def test_everything_can_be_embedded_anew(ledger: Ledger, index: MemoryIndex, embedder: HashingEmbedder):
    stored = fill(ledger, 3)
    relay(ledger, index, embedder)
    index.upsert(stored[:1], np.eye(64, dtype=np.float32)[:1])
    assert rebuild(ledger, index, embedder) == 0
    assert rebuild(ledger, index, embedder, everything=True) == 3
    expected = embedder.embed_documents([stored[0].document])[0]
    np.testing.assert_array_equal(index.fetch(["exp_1"])["exp_1"], expected)
