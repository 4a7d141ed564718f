"""self_test: whether this client and this server understand each other, found out by doing what the index does.

Versions that are too far apart fail in quiet ways: a removed method, or points that are accepted and never found. A comparison of
version numbers would refuse pairs that work and pass pairs that do not; so both are only named in the refusal.
"""

from __future__ import annotations

import uuid
from importlib.metadata import version

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from bank.index.unusable import IndexUnusable

PREFIX = "ratchet-self-test-"
POINT = str(uuid.UUID(int=1))
VECTOR = [0.5, -0.25]
"""Exact in every float format."""
FIELD = "experience_id"


def self_test(client: QdrantClient) -> None:
    """Write, find, list and delete a point in a collection of its own, which is dropped. Raises `IndexUnusable`."""
    try:
        server = client.info().version
    except ApiException as error:
        raise IndexUnusable(f"the Qdrant server does not answer: {error}") from error
    collection = PREFIX + uuid.uuid4().hex
    try:
        problem = _problem(client, collection)
    except ApiException as error:
        problem = str(error)
    finally:
        client.delete_collection(collection)
    if problem is not None:
        raise IndexUnusable(f"Qdrant server {server} and client {version('qdrant-client')} do not fit: {problem}")


def _problem(client: QdrantClient, collection: str) -> str | None:
    client.create_collection(collection, models.VectorParams(size=len(VECTOR), distance=models.Distance.DOT))
    point = models.PointStruct(id=POINT, vector=VECTOR, payload={FIELD: "self-test"})
    client.upsert(collection, [point], wait=True)
    found = client.retrieve(collection, [POINT], with_payload=True, with_vectors=True)
    if [(record.id, record.vector, record.payload) for record in found] != [(POINT, VECTOR, point.payload)]:
        return f"a stored point reads back as {found}"
    listed, _ = client.scroll(collection, limit=2, with_payload=[FIELD])
    if [record.id for record in listed] != [POINT] or client.count(collection, exact=True).count != 1:
        return f"a collection of one point lists {listed}"
    client.delete(collection, models.PointIdsList(points=[POINT]), wait=True)
    left = client.retrieve(collection, [POINT])
    return f"a deleted point is still there: {left}" if left else None
