"""What only Qdrant does: durability, one owner, collections per embedder, and the server."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from bank.embedding.hashing import HashingEmbedder
from bank.index.qdrant import FILTERED, IndexUnusable, QdrantIndex, collection_name
from tests.bank.records import experience

SERVER = os.environ.get("RATCHET_TEST_QDRANT_URL")
OPEN = """
import sys
from pathlib import Path
from bank.embedding.hashing import HashingEmbedder
from bank.index.qdrant import IndexUnusable, QdrantIndex
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


@pytest.mark.server
@pytest.mark.skipif(not SERVER, reason="RATCHET_TEST_QDRANT_URL names no Qdrant server")
def test_a_server_keeps_the_same_promises_and_indexes_every_filtered_field():
    embedder = Named("test", uuid.uuid4().hex)
    index = QdrantIndex.open_server(str(SERVER), embedder, os.environ.get("RATCHET_TEST_QDRANT_API_KEY"))
    try:
        put(index, 1, 2)
        index.remove(["exp_1"])
        again = QdrantIndex.open_server(str(SERVER), embedder, os.environ.get("RATCHET_TEST_QDRANT_API_KEY"))
        assert again.ids() == {"exp_2"}
        schema = index._client.get_collection(collection_name(embedder)).payload_schema
        assert set(schema) == set(FILTERED)
        again.close()
    finally:
        index._client.delete_collection(collection_name(embedder))
        index.close()
