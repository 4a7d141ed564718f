"""The parts of decoding: attention, sampling, prefixes."""

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from agents.engine import Sampling
from agents.transformers_engine.attention import grouped_attention
from agents.transformers_engine.prefixes import Prefix, PrefixStore
from agents.transformers_engine.sampling import draw, generator_of, logprobs_of, nucleus


class Heads(torch.nn.Module):
    num_key_value_groups = 3
    is_causal = True


@pytest.mark.parametrize(("length", "masked"), [(1, True), (5, True), (5, False)])
def test_grouped_attention_is_sdpa_in_value_and_gradient(length, masked):
    query = torch.randn(2, 6, length, 8, requires_grad=True)
    key, value = (torch.randn(2, 2, 5, 8, requires_grad=True) for _ in range(2))
    mask = torch.zeros(2, 1, length, 5)
    mask[0, :, :, :2] = torch.finfo(torch.float32).min
    results = []
    for attention in (grouped_attention, sdpa_attention_forward):
        output, _ = attention(Heads(), query, key, value, mask if masked else None, scaling=0.3, dropout=0.0)
        results.append([output, *torch.autograd.grad(output.square().sum(), [query, key, value])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_greedy_takes_the_best_and_needs_no_generator():
    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    samplings = [Sampling(temperature=0), Sampling(temperature=0, top_p=0.1)]
    assert draw(logits, samplings, [generator_of(item) for item in samplings]).tolist() == [1, 0]


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (1.0, 0.7)])
def test_draws_follow_the_distribution(temperature, top_p):
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    sampling, count = Sampling(temperature=temperature, top_p=top_p), 8000
    generators = [torch.Generator().manual_seed(seed) for seed in range(count)]
    ids = draw(logits.expand(count, -1), [sampling] * count, generators)
    shares = torch.bincount(ids, minlength=4) / count
    weights = torch.tensor([0.5, 0.3, 0.15, 0.05]).pow(1 / temperature)
    if top_p < 1:
        weights[2:] = 0
    torch.testing.assert_close(shares, weights / weights.sum(), atol=0.02, rtol=0)


def test_a_row_s_draws_depend_on_its_seed_only():
    logits, sampling = torch.randn(3, 50), Sampling(seed=9)
    alone = draw(logits[1:2], [sampling], [generator_of(sampling)])
    others = [Sampling(seed=1), sampling, Sampling(temperature=0)]
    together = draw(logits, others, [generator_of(item) for item in others])
    assert together[1] == alone[0]


def test_without_a_seed_rows_differ():
    logits, samplings = torch.zeros(8, 1000), [Sampling()] * 8
    assert len(set(draw(logits, samplings, [generator_of(item) for item in samplings]).tolist())) > 1


@pytest.mark.parametrize(("top_p", "kept"), [(0.0, 1), (0.5, 1), (0.51, 2), (0.8, 2), (0.9, 3), (1.0, 4)])
def test_the_nucleus_is_the_smallest_set_with_the_mass(top_p, kept):
    scores = torch.tensor([0.125, 0.5, 0.0625, 0.3125]).log()
    inside = torch.isfinite(nucleus(scores, top_p))
    assert inside.sum() == kept
    assert inside[1]


def test_logprobs_are_at_temperature_one():
    assert logprobs_of(torch.tensor([[0.25, 0.75]]).log(), torch.tensor([1])).exp().item() == pytest.approx(0.75)


def prefix(owner, tokens, size=1):
    return Prefix(owner, tuple(tokens), torch.arange(len(tokens) * size).view(1, 1, size, len(tokens), 1).float())


def test_the_longest_common_beginning_is_found_but_never_the_whole_prompt():
    store = PrefixStore(10**6)
    store.add(prefix("v", range(40)))
    store.add(prefix("v", [*range(20), 99, *range(50)]))
    assert store.find("v", [*range(37), 5, 5]).shape[-2] == 37
    assert store.find("v", [*range(20), 99, 0, 1, 7, 7]).shape[-2] == 23
    assert store.find("v", list(range(40))).shape[-2] == 39
    assert store.find("v", list(range(10))) is None
    assert store.find("v", [7, *range(40)]) is None


def test_one_version_never_gets_another_s_states():
    store = PrefixStore(10**6)
    store.add(prefix("v", range(40)))
    assert store.find("w", list(range(40))) is None


def test_the_store_keeps_its_size_and_drops_the_least_recently_used():
    one = prefix(1, range(32))
    store = PrefixStore(2 * one.states.nbytes)
    store.add(one)
    store.add(prefix(2, range(32)))
    assert store.find(1, list(range(33))) is not None
    store.add(prefix(3, range(32)))
    assert store.find(2, list(range(33))) is None
    assert store.find(1, list(range(33))) is not None
    store.keep_only({3})
    assert store.find(1, list(range(33))) is None
    assert store.find(3, list(range(33))) is not None
