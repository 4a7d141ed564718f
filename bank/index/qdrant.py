"""QdrantIndex: the experience index on Qdrant, in a local folder or behind a URL.

The collection is named by the embedder's model and revision, so vectors of two models never meet: another embedder
begins an empty collection, which `bank.relay.rebuild` fills. Distance is the inner product, which leaves the stored
vectors as they are (cosine would rescale them); that they have length 1 is checked here.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models

from bank.embedding.embedder import Embedder, Vectors
from bank.embedding.unit import checked
from bank.experience import Experience

NAMESPACE = uuid.UUID("6b9f3a52-0c1e-5d0f-9b8e-6f2f3f0e7a11")
"""Qdrant takes numbers and UUIDs as ids: a point's is the UUID5 of the experience id under this namespace."""
PAGE = 128
SERVER_TIMEOUT_SECONDS = 30
EXPERIENCE_ID = "experience_id"
FILTERED = (EXPERIENCE_ID, "episode_id", "task_id", "suite")
"""Payload fields by which points are looked for or erased; each has an index where Qdrant can use one."""


class IndexUnusable(RuntimeError):
    """The index can't be opened: its folder is in use, or it holds vectors of another kind."""


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
    def open_server(cls, url: str, embedder: Embedder, api_key: str | None = None) -> QdrantIndex:
        """The index on a Qdrant server, for any number of processes. Raises `IndexUnusable`."""
        client = QdrantClient(url=url, api_key=api_key, timeout=SERVER_TIMEOUT_SECONDS)
        return cls._opened(client, embedder, payload_indexes=True)

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
        if points:
            with self._lock:
                self._client.upsert(self._collection, points, wait=True)

    def remove(self, ids: Sequence[str]) -> None:
        """Forget these points by explicit id."""
        for page in _pages(ids):
            selector = models.PointIdsList(points=[_point_id(one) for one in page])
            with self._lock:
                self._client.delete(self._collection, selector, wait=True)

    def fetch(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors by experience id."""
        found: dict[str, NDArray[np.float32]] = {}
        for page in _pages(ids):
            points = [_point_id(one) for one in page]
            with self._lock:
                records = self._client.retrieve(
                    self._collection, points, with_payload=[EXPERIENCE_ID], with_vectors=True
                )
            for record in records:
                found[_experience_id(record)] = np.asarray(record.vector, dtype=np.float32)
        return found

    def count(self) -> int:
        """Number of points, exactly."""
        with self._lock:
            return self._client.count(self._collection, exact=True).count

    def ids(self) -> frozenset[str]:
        """All experience ids."""
        return frozenset(_experience_id(record) for record in self._scroll())

    def close(self) -> None:
        """Release the folder or the connection."""
        self._client.close()

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
            self._client.create_collection(
                self._collection, models.VectorParams(size=self._dimension, distance=models.Distance.DOT)
            )
        stored = self._client.get_collection(self._collection).config.params.vectors
        if not isinstance(stored, models.VectorParams) or stored.size != self._dimension:
            raise IndexUnusable(f"collection {self._collection} does not hold vectors of dimension {self._dimension}")

    def _ensure_payload_indexes(self) -> None:
        for field in FILTERED:
            self._client.create_payload_index(self._collection, field, models.PayloadSchemaType.KEYWORD, wait=True)


def collection_name(embedder: Embedder) -> str:
    """`experiences-<model>-<revision>` in characters that every Qdrant takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", f"experiences-{embedder.name}-{embedder.revision}")


def _point_id(experience_id: str) -> str:
    return str(uuid.uuid5(NAMESPACE, experience_id))


def _experience_id(record: models.Record) -> str:
    return str((record.payload or {})[EXPERIENCE_ID])


def _payload(experience: Experience) -> dict[str, str]:
    return {
        EXPERIENCE_ID: experience.id,
        "episode_id": experience.episode_id,
        "task_id": experience.task_id,
        "suite": experience.suite,
    }


def _pages(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), PAGE):
        yield ids[start : start + PAGE]
