"""OpenAiEmbedder: any server with the OpenAI `/embeddings` route; Qwen3-Embedding on vLLM in production."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import httpx
import numpy as np
from pydantic import BaseModel
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from tenacity.wait import wait_base

from bank.embedding.embedder import Vectors
from bank.embedding.unit import normalised

INSTRUCTION = "Instruct: Given a task, retrieve solved tasks that need the same procedure\nQuery: "
"""Form of the Qwen3-Embedding model card; documents carry none."""
BATCH = 64
TIMEOUT_SECONDS = 60.0
ATTEMPTS = 5
TOO_MANY_REQUESTS = 429
BACKOFF = wait_random_exponential(multiplier=0.5, max=20.0)


class EmbeddingFault(Exception):
    """The embedding server could not answer, or answered something else; nothing was embedded."""


class _Item(BaseModel):
    index: int
    embedding: list[float]


class _Answer(BaseModel):
    data: list[_Item]


class OpenAiEmbedder:
    """A model behind a URL (`bank.embedding.embedder.Embedder`). Its vectors are normalised here.

    `base_url` is the part before `/embeddings`, usually ending in `/v1`. Errors of the network, 429 and 5xx are tried
    again; after that, and for every other refusal, `EmbeddingFault`.
    """

    revision = "served"
    reads_trace = True

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key: str | None = None,
        transport: httpx.BaseTransport | None = None,
        backoff: wait_base = BACKOFF,
    ) -> None:
        self.name = model
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._client = httpx.Client(
            base_url=base_url.rstrip("/"), headers=headers, timeout=TIMEOUT_SECONDS, transport=transport
        )
        self._retrying = Retrying(
            retry=retry_if_exception(_passing), stop=stop_after_attempt(ATTEMPTS), wait=backoff, reraise=True
        )

    @cached_property
    def dimension(self) -> int:
        """Length of every vector; asks the server once."""
        return int(self._batch(["dimension"]).shape[1])

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of documents."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        return np.concatenate([self._batch(batch) for batch in batches])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of queries."""
        return self.embed_documents([INSTRUCTION + text for text in texts])

    def close(self) -> None:
        """Release the connections."""
        self._client.close()

    def _batch(self, texts: Sequence[str]) -> Vectors:
        try:
            response = self._retrying(self._post, texts)
            answer = _Answer.model_validate_json(response.content)
            items = sorted(answer.data, key=lambda item: item.index)
            if [item.index for item in items] != list(range(len(texts))):
                raise EmbeddingFault(f"{self.name}: {len(texts)} texts were sent, {len(items)} vectors came back")
            return normalised(np.array([item.embedding for item in items]))
        except (httpx.HTTPError, ValueError) as error:
            raise EmbeddingFault(f"{self.name} at {self._client.base_url}: {error}") from error

    def _post(self, texts: Sequence[str]) -> httpx.Response:
        response = self._client.post("/embeddings", json={"model": self.name, "input": list(texts)})
        response.raise_for_status()
        return response


def _passing(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code == TOO_MANY_REQUESTS or error.response.is_server_error
    return isinstance(error, httpx.TransportError)
