"""Embedders without a model, and what all of them promise."""

import json
import subprocess
import sys

import httpx
import numpy as np
import pytest
from tenacity import wait_none

from bank.embedding.choose import open_embedder
from bank.embedding.hashing import HashingEmbedder
from bank.embedding.openai import ATTEMPTS, BATCH, INSTRUCTION, EmbeddingFault, OpenAiEmbedder
from bank.embedding.unit import BadVectors, normalised

TEXTS = ["please refund order 17", "", "!?", "où est ma commande", "a " * 500]


def test_hashed_vectors_have_length_one_whatever_the_text():
    vectors = HashingEmbedder(32).embed_documents(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), 32), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    assert HashingEmbedder(32).embed_documents([]).shape == (0, 32)


def test_hashed_vectors_are_the_same_in_every_process():
    source = (
        "from bank.embedding.hashing import HashingEmbedder\n"
        "print(HashingEmbedder().embed_documents(['please refund order 17'])[0].tolist())"
    )
    elsewhere = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(elsewhere.stdout) == HashingEmbedder().embed_documents(["please refund order 17"])[0].tolist()


def test_shared_words_bring_texts_together():
    query = HashingEmbedder().embed_queries(["Refund order 17, please"])
    scores = query @ HashingEmbedder().embed_documents(["please refund order 18", "where is my parcel"]).T
    assert scores[0, 0] > 0.4 > scores[0, 1]


@pytest.mark.parametrize("row", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_a_vector_without_direction_is_refused(row):
    with pytest.raises(BadVectors, match="no direction"):
        normalised(np.array([[1.0, 0.0], row]))


@pytest.mark.parametrize("spec", ["", "mini", "openai", "openai:", "openai:model", "openai:@http://x", "hashing:1"])
def test_an_unknown_embedder_is_refused_with_the_choices(spec: str):
    with pytest.raises(ValueError, match="use minilm, hashing or openai"):
        open_embedder(spec)


def test_choosing_a_light_embedder_imports_no_torch():
    source = (
        "import sys\n"
        "from bank.embedding.choose import open_embedder\n"
        "open_embedder('hashing'); open_embedder('openai:m@http://localhost/v1')\n"
        "import bank.index.choose, bank.snapshot, bank.relay, bank.remember, bank.ledger.ledger\n"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"


class Server:
    """An `/embeddings` route in this process: fails as often as it is told, answers backwards, scales by seven."""

    def __init__(self, failures: int = 0, status: int = 503) -> None:
        self.failures = failures
        self.status = status
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if len(self.requests) <= self.failures:
            return httpx.Response(self.status, text="busy")
        texts = json.loads(request.content)["input"]
        items = [{"index": i, "embedding": [7.0 * len(text), 7.0]} for i, text in enumerate(texts)]
        return httpx.Response(200, json={"data": items[::-1], "model": "m"})

    @property
    def inputs(self) -> list[list[str]]:
        return [json.loads(request.content)["input"] for request in self.requests]


def against(server, key: str | None = None) -> OpenAiEmbedder:
    return OpenAiEmbedder("m", "http://localhost/v1/", key, httpx.MockTransport(server), wait_none())


def test_a_served_model_gets_the_key_and_its_vectors_are_put_in_order_and_normalised():
    server = Server()
    vectors = against(server, "secret").embed_documents(["a", "bbb"])
    np.testing.assert_allclose(vectors, [[0.5**0.5, 0.5**0.5], [0.9**0.5, 0.1**0.5]], atol=1e-6)
    assert vectors.dtype == np.float32
    assert str(server.requests[0].url) == "http://localhost/v1/embeddings"
    assert server.requests[0].headers["authorization"] == "Bearer secret"
    assert json.loads(server.requests[0].content)["model"] == "m"


def test_queries_carry_the_instruction_and_documents_do_not():
    server = Server()
    embedder = against(server)
    embedder.embed_documents(["a"])
    embedder.embed_queries(["a"])
    assert server.inputs == [["a"], [INSTRUCTION + "a"]]
    assert "authorization" not in server.requests[0].headers


def test_many_texts_go_in_batches_and_the_dimension_is_asked_once():
    server = Server()
    embedder = against(server)
    assert (embedder.dimension, embedder.dimension) == (2, 2)
    assert embedder.embed_documents(["a"] * (BATCH + 1)).shape == (BATCH + 1, 2)
    assert embedder.embed_documents([]).shape == (0, 2)
    assert [len(batch) for batch in server.inputs] == [1, BATCH, 1]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(status: int):
    server = Server(failures=ATTEMPTS - 1, status=status)
    assert against(server).embed_documents(["a"]).shape == (1, 2)


@pytest.mark.parametrize(("status", "asked"), [(503, ATTEMPTS), (401, 1), (404, 1)])
def test_a_refusal_is_reported_with_its_status(status: int, asked: int):
    server = Server(failures=100, status=status)
    with pytest.raises(EmbeddingFault, match=str(status)):
        against(server).embed_documents(["a"])
    assert len(server.requests) == asked


def test_a_server_that_is_not_there_is_reported():
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    with pytest.raises(EmbeddingFault, match="connection refused"):
        against(refuse).embed_documents(["a"])


@pytest.mark.parametrize(
    "body",
    [
        "<html>",
        '{"data": []}',
        '{"data": [{"index": 1, "embedding": [1.0]}]}',
        '{"data": [{"index": 0, "embedding": [0.0, 0.0]}]}',
        '{"data": [{"index": 0, "embedding": ["x"]}]}',
        '{"error": "no"}',
    ],
)
def test_an_answer_that_is_no_vector_per_text_is_reported(body: str):
    with pytest.raises(EmbeddingFault):
        against(lambda _: httpx.Response(200, text=body)).embed_documents(["a"])
