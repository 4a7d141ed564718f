"""Keys and values of prompts seen before: a turn's prompt starts with everything that came before it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass

import torch

BLOCK = 16
"""Tokens between two points where a prefix can be found."""


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """Cached tokens of one version."""

    owner: Hashable
    """Version identity; keys and values of one adapter are wrong for every other."""
    tokens: tuple[int, ...]
    states: torch.Tensor
    """[layers, 2, heads, tokens, width]."""


class PrefixStore:
    """Least-recently-used prefixes, found by the longest common beginning."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[Prefix, tuple[Hashable, ...]] = OrderedDict()
        self._by_chain: dict[Hashable, Prefix] = {}

    def find(self, owner: Hashable, tokens: Sequence[int]) -> torch.Tensor | None:
        """States of the longest known proper beginning of `tokens`, or None."""
        found = None
        for chain in _chains(owner, tokens):
            if chain not in self._by_chain:
                break
            found = self._by_chain[chain]
        length = 0 if found is None or found.owner != owner else agreement(found.tokens, tokens[:-1])
        if found is None or length == 0:
            return None
        self._kept.move_to_end(found)
        return found.states[..., :length, :]

    def add(self, prefix: Prefix) -> None:
        """Remember; the oldest go when the store is over its size."""
        chains = tuple(_chains(prefix.owner, prefix.tokens))
        self._kept[prefix] = chains
        self._by_chain.update(dict.fromkeys(chains, prefix))
        self._bytes += prefix.states.nbytes
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def keep_only(self, owners: Collection[Hashable]) -> None:
        """Forget the prefixes of versions that are gone."""
        for prefix in [prefix for prefix in self._kept if prefix.owner not in owners]:
            self._drop(prefix)

    def _drop(self, prefix: Prefix) -> None:
        self._bytes -= prefix.states.nbytes
        for chain in self._kept.pop(prefix):
            if self._by_chain.get(chain) is prefix:
                del self._by_chain[chain]


def _chains(owner: Hashable, tokens: Sequence[int]) -> Iterator[Hashable]:
    chain = hash(owner)
    for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
        chain = hash((chain, *tokens[start : start + BLOCK]))
        yield chain


def agreement(left: Sequence[int], right: Sequence[int]) -> int:
    """Tokens that two sequences have in common at the beginning."""
    length = min(len(left), len(right))
    return next((index for index in range(length) if left[index] != right[index]), length)
