"""Both indexes keep the same promises."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bank.embedding.hashing import HashingEmbedder
from bank.embedding.unit import BadVectors
from bank.index.choose import open_index
from bank.index.index import ExperienceIndex
from bank.index.memory import MemoryIndex
from bank.index.qdrant import PAGE
from tests.bank.records import experience

SIZE = 64


@pytest.fixture(params=["memory", "qdrant"])
def held(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ExperienceIndex]:
    embedder = HashingEmbedder(SIZE)
    opened = MemoryIndex(SIZE) if request.param == "memory" else open_index(tmp_path / "index", None, embedder)
    yield opened
    opened.close()


def put(index: ExperienceIndex, *numbers: int) -> np.ndarray:
    stored = [experience(number, task=f"please refund order {number}") for number in numbers]
    vectors = HashingEmbedder(SIZE).embed_documents([one.document for one in stored])
    index.upsert(stored, vectors)
    return vectors


def test_vectors_come_back_exactly_and_unknown_ids_are_absent(held: ExperienceIndex):
    vectors = put(held, 1, 2, 3)
    found = held.fetch(["exp_3", "exp_9", "exp_1"])
    assert found.keys() == {"exp_3", "exp_1"}
    assert found["exp_3"].dtype == np.float32
    np.testing.assert_array_equal(found["exp_3"], vectors[2])
    np.testing.assert_array_equal(found["exp_1"], vectors[0])


def test_putting_the_same_experience_again_replaces_it(held: ExperienceIndex):
    put(held, 1, 2)
    other = np.eye(SIZE, dtype=np.float32)[:1]
    held.upsert([experience(1)], other)
    assert held.count() == 2
    np.testing.assert_array_equal(held.fetch(["exp_1"])["exp_1"], other[0])


def test_removing_is_by_id_and_ignores_what_is_not_there(held: ExperienceIndex):
    put(held, 1, 2, 3)
    held.remove(["exp_2", "exp_9"])
    held.remove([])
    assert held.ids() == {"exp_1", "exp_3"}
    assert held.count() == 2


def test_more_experiences_than_one_page(held: ExperienceIndex):
    numbers = range(PAGE + 3)
    put(held, *numbers)
    ids = [f"exp_{number}" for number in numbers]
    assert held.ids() == set(ids)
    assert len(held.fetch(ids)) == PAGE + 3
    held.remove(ids[1:])
    assert held.ids() == {"exp_0"}


@pytest.mark.parametrize(
    ("vectors", "complaint"),
    [
        (np.full((1, SIZE), 1.0), "length 8.0000 instead of 1"),
        (np.zeros((1, SIZE)), "length 0.0000"),
        (np.full((1, SIZE), np.nan), "length nan"),
        (np.eye(SIZE + 1)[:1], "shape"),
        (np.eye(SIZE)[:2], "shape"),
    ],
)
def test_vectors_that_are_not_unit_vectors_of_the_right_shape_are_refused(held: ExperienceIndex, vectors, complaint):
    with pytest.raises(BadVectors, match=complaint):
        held.upsert([experience(1)], vectors)
    assert held.count() == 0


def test_nothing_to_store_is_fine(held: ExperienceIndex):
    held.upsert([], np.zeros((0, SIZE), dtype=np.float32))
    assert held.fetch([]) == {}
    assert held.ids() == frozenset()


def test_no_warning_is_raised_on_the_way(tmp_path: Path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        opened = open_index(tmp_path / "index", None, HashingEmbedder(SIZE))
        put(opened, 1)
        opened.close()
    assert [str(one.message) for one in caught] == []
