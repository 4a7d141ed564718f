"""What only Qdrant does: durability, one owner, collections per embedder, and the server."""

import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from qdrant_client import QdrantClient, models

from bank.embedding.hashing import HashingEmbedder
from bank.index.memory import MemoryIndex
from bank.index.qdrant import FILTERED, PAGE, QdrantIndex, collection_name
from bank.index.self_test import self_test
from bank.index.unusable import IndexUnusable
from bank.ledger.ledger import Ledger
from bank.relay import relay
from bank.snapshot import freeze
from tests.bank.records import experience, fill

SERVER = os.environ.get("RATCHET_TEST_QDRANT_URL")
OPEN = """
import sys
from pathlib import Path
from bank.embedding.hashing import HashingEmbedder
from bank.index.qdrant import QdrantIndex
from bank.index.unusable import IndexUnusable
try:
    QdrantIndex.open_local(Path(sys.argv[1]), HashingEmbedder(64)).close()
except IndexUnusable as error:
    print(error)
"""


class Named(HashingEmbedder):
    """A hashing embedder under another name."""

    def __init__(self, name: str, revision: str, dimension: int = 64) -> None:
        super().__init__(dimension)
        self.name = name
        self.revision = revision


def put(index: QdrantIndex, *numbers: int) -> None:
    stored = [experience(number) for number in numbers]
    index.upsert(stored, HashingEmbedder(64).embed_documents([one.document for one in stored]))


def test_what_was_stored_is_there_after_opening_again(tmp_path: Path):
    first = QdrantIndex.open_local(tmp_path, HashingEmbedder(64))
    put(first, 1, 2)
    first.close()
    second = QdrantIndex.open_local(tmp_path, HashingEmbedder(64))
    assert second.ids() == {"exp_1", "exp_2"}
    second.close()


def test_a_second_process_is_told_to_use_a_server(tmp_path: Path):
    owner = QdrantIndex.open_local(tmp_path, HashingEmbedder(64))
    second = subprocess.run(
        [sys.executable, "-c", OPEN, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    owner.close()
    assert "is in use: Qdrant's local mode serves one process" in second.stdout
    assert "RATCHET_QDRANT_URL" in second.stdout


def test_vectors_of_two_models_or_revisions_never_meet(tmp_path: Path):
    first = QdrantIndex.open_local(tmp_path, Named("Qwen/Qwen3-Embedding 0.6B", "1"))
    put(first, 1)
    first.close()
    for name, revision in (("Qwen/Qwen3-Embedding 0.6B", "2"), ("other", "1")):
        other = QdrantIndex.open_local(tmp_path, Named(name, revision))
        assert other.count() == 0
        other.close()


def test_collection_names_hold_only_characters_that_qdrant_takes():
    assert collection_name(Named("Qwen/Qwen3 Embedding:0.6B", "v1")) == "experiences-Qwen_Qwen3_Embedding_0.6B-v1"


def test_a_collection_of_another_dimension_is_refused(tmp_path: Path):
    QdrantIndex.open_local(tmp_path, Named("m", "1", 64)).close()
    with pytest.raises(IndexUnusable, match="dimension 32"):
        QdrantIndex.open_local(tmp_path, Named("m", "1", 32))
    QdrantIndex.open_local(tmp_path, Named("m", "1", 64)).close()


def test_points_that_lost_their_payload_count_as_absent_and_are_dropped(tmp_path: Path):
    index = QdrantIndex.open_local(tmp_path, HashingEmbedder(64))
    put(index, 1, 2)
    point = str(uuid.uuid5(uuid.NAMESPACE_URL, "half a write"))
    index._client.upsert(index._collection, [models.PointStruct(id=point, vector=[1.0] + [0.0] * 63, payload={})])
    assert index.count() == 3
    assert index.ids() == {"exp_1", "exp_2"}
    assert index.count() == 2
    index.close()


class Forgetful(QdrantClient):
    """Says yes and stores nothing, as across versions that are too far apart."""

    def upsert(self, *_arguments, **_options):
        return models.UpdateResult(status=models.UpdateStatus.COMPLETED)


class Clinging(QdrantClient):
    """Says yes and deletes nothing."""

    def delete(self, *_arguments, **_options):
        return models.UpdateResult(status=models.UpdateStatus.COMPLETED)


def test_the_self_test_passes_on_an_index_that_works_and_leaves_nothing():
    client = QdrantClient(":memory:")
    self_test(client)
    assert client.get_collections().collections == []


@pytest.mark.parametrize(
    ("kind", "complaint"), [(Forgetful, "a stored point reads back as"), (Clinging, "a deleted point is still there")]
)
def test_the_self_test_refuses_a_server_that_only_says_yes(kind: type[QdrantClient], complaint: str):
    client = kind(":memory:")
    with pytest.raises(IndexUnusable, match=complaint):
        self_test(client)
    assert client.get_collections().collections == []


def test_a_server_that_is_not_there_is_a_refusal():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(IndexUnusable, match="does not answer"):
        QdrantIndex.open_server(f"http://127.0.0.1:{port}", HashingEmbedder(64), "a key", timeout=1)


class NoQdrant(BaseHTTPRequestHandler):
    """Some other server at that address."""

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


def test_another_kind_of_server_is_a_refusal():
    with HTTPServer(("127.0.0.1", 0), NoQdrant) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(IndexUnusable, match="404"):
            QdrantIndex.open_server(f"http://127.0.0.1:{server.server_port}", HashingEmbedder(64), timeout=5)
        server.shutdown()


on_a_server = pytest.mark.skipif(not SERVER, reason="RATCHET_TEST_QDRANT_URL names no Qdrant server")


@pytest.fixture
def strict() -> Iterator[QdrantIndex]:
    """On the server, in a collection of its own, with every request that strict mode can forbid forbidden."""
    embedder = Named("test", uuid.uuid4().hex)
    index = QdrantIndex.open_server(str(SERVER), embedder, os.environ.get("RATCHET_TEST_QDRANT_API_KEY"))
    limits = models.StrictModeConfig(
        enabled=True,
        unindexed_filtering_retrieve=False,
        unindexed_filtering_update=False,
        max_query_limit=PAGE,
        upsert_max_batchsize=PAGE,
        search_allow_exact=False,
    )
    index._client.update_collection(index._collection, strict_mode_config=limits)
    yield index
    index._client.delete_collection(index._collection)
    index.close()


@pytest.mark.server
@on_a_server
def test_a_server_in_strict_mode_takes_every_request_and_indexes_every_filtered_field(strict: QdrantIndex):
    put(strict, *range(PAGE + 2))
    strict.remove([f"exp_{number}" for number in range(1, PAGE + 2)])
    assert (strict.ids(), strict.count()) == ({"exp_0"}, 1)
    assert set(strict._client.get_collection(strict._collection).payload_schema) == set(FILTERED)


@pytest.mark.server
@on_a_server
def test_a_server_retrieves_what_the_local_index_and_memory_retrieve(strict: QdrantIndex, tmp_path: Path):
    """Each index is filled from a ledger of its own, since a ledger's marks are about one index."""
    embedder = HashingEmbedder(64)
    local = QdrantIndex.open_local(tmp_path / "index", embedder)
    answers = []
    for number, index in enumerate((strict, local, MemoryIndex(64))):
        ledger = Ledger.open(f"sqlite:///{tmp_path / f'parity{number}.sqlite3'}")
        fill(ledger, 40)
        relay(ledger, index, embedder)
        query = embedder.embed_queries(["please refund order 17"])[0]
        answers.append(freeze(ledger, index).retrieve(query, 10, exclude_task="desk/train/0003"))
        ledger.close()
    local.close()
    assert [[one.experience.id for one in found] for found in answers[1:]] == [
        [o.experience.id for o in answers[0]]
    ] * 2
    assert [[one.score for one in found] for found in answers[1:]] == [[o.score for o in answers[0]]] * 2
