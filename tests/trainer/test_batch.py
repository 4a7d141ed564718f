import pytest
import torch

from trainer.batch import batches_of, rows_of
from trainer.injection import InsertionPoints
from trainer.sample import length


def rows(tokenizer, every, centre=False):
    return rows_of(every, InsertionPoints(tokenizer), "token", centre=centre)


def test_supervised_positions_are_exactly_the_sampled_tokens(tokenizer, samples):
    every = samples(5)
    (batch,) = batches_of(rows(tokenizer, every), 10_000, 0, torch.device("cpu"))
    for row, index in enumerate(batch.trajectory_B.tolist()):
        mine = batch.row_S == row
        sampled = [token for turn in every[index].episode.turns for token in turn.sampled_ids]
        assert batch.action_S[mine].tolist() == sampled
        following = batch.ids_BT[row, batch.column_S[mine] + 1]
        assert following.tolist() == sampled


def test_shared_prefix_ends_before_the_insertion_point(tokenizer, samples):
    every = samples(5)
    (batch,) = batches_of(rows(tokenizer, every), 10_000, 0, torch.device("cpu"))
    prompt = every[0].episode.turns[0].prompt_ids
    shared = batch.prefix_1C.shape[1]
    assert batch.prefix_1C[0].tolist() == list(prompt[:shared])
    assert set(batch.points) == {0}


def test_micro_batches_keep_the_budget_and_every_row(tokenizer, samples):
    every = samples(9)
    longest = max(length(sample.episode) for sample in every)
    found = batches_of(rows(tokenizer, every), 2 * (longest + 7), 7, torch.device("cpu"))
    assert max(len(batch.ids_BT) for batch in found) >= 2
    assert all(batch.ids_BT.shape[0] <= 4 for batch in found)
    assert sorted(index for batch in found for index in batch.trajectory_B.tolist()) == list(range(9))
    assert sum(batch.weight_S.sum().item() for batch in found) == pytest.approx(1)


def test_a_row_beyond_the_budget_stands_alone(tokenizer, samples):
    found = batches_of(rows(tokenizer, samples(3)), 1, 0, torch.device("cpu"))
    assert [len(batch.ids_BT) for batch in found] == [1, 1, 1]


def test_advantages_are_centred_over_the_whole_step(tokenizer, samples):
    found = batches_of(rows(tokenizer, samples(6), centre=True), 1, 0, torch.device("cpu"))
    assert sum((batch.weight_S @ batch.advantage_S).item() for batch in found) == pytest.approx(0, abs=1e-6)
    plain = batches_of(rows(tokenizer, samples(6)), 1, 0, torch.device("cpu"))
    assert {value for batch in plain for value in batch.advantage_S.tolist()} == {1.0, -0.5}
