"""QdrantIndex: the experience index on Qdrant, in a local folder or behind a URL.

The collection is named by the embedder's model and revision, so vectors of two models never meet: another embedder
begins an empty collection, which `bank.relay.rebuild` fills. Distance is the inner product, which leaves the stored
vectors as they are (cosine would rescale them); that they have length 1 is checked here.
"""

from __future__ import annotations

import re
import uuid
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from bank.embedding.embedder import Embedder, Vectors
from bank.embedding.unit import checked
from bank.experience import Experience
from bank.index.self_test import self_test
from bank.index.unusable import IndexUnusable

T = TypeVar("T")

NAMESPACE = uuid.UUID("6b9f3a52-0c1e-5d0f-9b8e-6f2f3f0e7a11")
"""Qdrant takes numbers and UUIDs as ids: a point's is the UUID5 of the experience id under this namespace."""
PAGE = 128
"""Points in one request: below the limits of servers in strict mode."""
TIMEOUT_SECONDS = 30
EXPERIENCE_ID = "experience_id"
FILTERED = (EXPERIENCE_ID, "episode_id", "task_id", "suite")
"""Payload fields by which points are looked for or erased; each has an index where Qdrant can use one."""


class QdrantIndex:
    """`bank.index.index.ExperienceIndex` on a Qdrant client that it owns."""

    def __init__(self, client: QdrantClient, collection: str, dimension: int) -> None:
        self._client = client
        self._collection = collection
        self._dimension = dimension
        self._lock = Lock()  # local mode is not thread-safe

    @classmethod
    def open_local(cls, path: Path, embedder: Embedder) -> QdrantIndex:
        """The index in a folder of this machine, for one process at a time. Raises `IndexUnusable`."""
        try:
            client = QdrantClient(path=str(path), force_disable_check_same_thread=True)
        except RuntimeError as error:
            raise IndexUnusable(
                f"the experience index in {path} is in use: Qdrant's local mode serves one process. Stop the other "
                "worker, or run a Qdrant server and set RATCHET_QDRANT_URL."
            ) from error
        return cls._opened(client, embedder, payload_indexes=False)

    @classmethod
    def open_server(
        cls, url: str, embedder: Embedder, api_key: str | None = None, timeout: int = TIMEOUT_SECONDS
    ) -> QdrantIndex:
        """The index on a Qdrant server, for any number of processes; `timeout` in seconds of every request.

        Raises `IndexUnusable`, also for a server of another version that does not pass the self-test.
        """
        with warnings.catch_warnings():
            # a key over plain http is the usual case inside a private network
            warnings.filterwarnings("ignore", "Api key is used with an insecure connection", UserWarning)
            # the client's own check warns from a thread, after the start; the self-test refuses, before it
            client = QdrantClient(url=url, api_key=api_key, timeout=timeout, check_compatibility=False)
        try:
            self_test(client)
            return cls._opened(client, embedder, payload_indexes=True)
        except ApiException as error:
            client.close()
            raise IndexUnusable(f"the Qdrant server at {url} can't hold the index: {error}") from error
        except IndexUnusable:
            client.close()
            raise

    @classmethod
    def _opened(cls, client: QdrantClient, embedder: Embedder, *, payload_indexes: bool) -> QdrantIndex:
        index = cls(client, collection_name(embedder), embedder.dimension)
        try:
            index._ensure_collection()
            if payload_indexes:  # local mode scans: it has none and warns about every one
                index._ensure_payload_indexes()
        except BaseException:
            client.close()
            raise
        return index

    def upsert(self, experiences: Sequence[Experience], vectors: Vectors) -> None:
        """Store or replace; Qdrant answers when it is durable."""
        rows = checked(vectors, len(experiences), self._dimension)
        points = [
            models.PointStruct(id=_point_id(experience.id), vector=row.tolist(), payload=_payload(experience))
            for experience, row in zip(experiences, rows, strict=True)
        ]
        for page in _pages(points):
            with self._lock:
                self._client.upsert(self._collection, page, wait=True)

    def remove(self, ids: Sequence[str]) -> None:
        """Forget these points by explicit id."""
        self._drop([_point_id(one) for one in ids])

    def fetch(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors by experience id."""
        found: dict[str, NDArray[np.float32]] = {}
        for page in _pages(ids):
            names = {_point_id(one): one for one in page}
            with self._lock:
                records = self._client.retrieve(self._collection, list(names), with_payload=False, with_vectors=True)
            for record in records:
                found[names[str(record.id)]] = np.asarray(record.vector, dtype=np.float32)
        return found

    def count(self) -> int:
        """Number of points, exactly."""
        with self._lock:
            return self._client.count(self._collection, exact=True).count

    def ids(self) -> frozenset[str]:
        """All experience ids.

        Points without a payload, which a server that was killed may leave behind, are dropped: nobody can say what they
        are, and what the ledger then misses is indexed again.
        """
        names = {str(record.id): (record.payload or {}).get(EXPERIENCE_ID) for record in self._scroll()}
        self._drop([point for point, name in names.items() if name is None])
        return frozenset(str(name) for name in names.values() if name is not None)

    def close(self) -> None:
        """Release the folder or the connection."""
        self._client.close()

    def _drop(self, points: Sequence[str]) -> None:
        for page in _pages(points):
            with self._lock:
                self._client.delete(self._collection, models.PointIdsList(points=list(page)), wait=True)

    def _scroll(self) -> Iterator[models.Record]:
        offset: models.ExtendedPointId | None = None
        while True:
            with self._lock:
                records, offset = self._client.scroll(
                    self._collection, limit=PAGE, offset=offset, with_payload=[EXPERIENCE_ID]
                )
            yield from records
            if offset is None:
                return

    def _ensure_collection(self) -> None:
        if not self._client.collection_exists(self._collection):
            self._create_collection()
        stored = self._client.get_collection(self._collection).config.params.vectors
        if not isinstance(stored, models.VectorParams) or stored.size != self._dimension:
            raise IndexUnusable(f"collection {self._collection} does not hold vectors of dimension {self._dimension}")

    def _create_collection(self) -> None:
        vectors = models.VectorParams(size=self._dimension, distance=models.Distance.DOT)
        try:
            self._client.create_collection(self._collection, vectors)
        except UnexpectedResponse:
            if not self._client.collection_exists(self._collection):  # another worker was not the reason
                raise

    def _ensure_payload_indexes(self) -> None:
        for field in FILTERED:
            self._client.create_payload_index(self._collection, field, models.PayloadSchemaType.KEYWORD, wait=True)


def collection_name(embedder: Embedder) -> str:
    """`experiences-<model>-<revision>` in characters that every Qdrant takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", f"experiences-{embedder.name}-{embedder.revision}")


def _point_id(experience_id: str) -> str:
    return str(uuid.uuid5(NAMESPACE, experience_id))


def _payload(experience: Experience) -> dict[str, str]:
    return {
        EXPERIENCE_ID: experience.id,
        "episode_id": experience.episode_id,
        "task_id": experience.task_id,
        "suite": experience.suite,
    }


def _pages(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), PAGE):
        yield items[start : start + PAGE]
