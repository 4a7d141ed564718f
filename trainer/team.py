"""Team: the processes that share one step. Each computes its micro-batches, then gradients are added up.

Weights of tokens are those of the whole step in every process, so adding is all there is to do: no process divides by
counts of its own. Started by torchrun (`RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`); alone, nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Team:
    """This process's place among those that train together."""

    rank: int = 0
    size: int = 1
    sharded: bool = False
    """Whether the backbone's weights are spread over the team: every pass is then everybody's."""

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """This process's items: every `size`-th, so that lengths, which are sorted, spread evenly."""
        return items[self.rank :: self.size]

    def turns(self, items: Sequence[T]) -> list[tuple[T, float]]:
        """This process's items, each with weight 1; over a sharded backbone followed by others' with weight 0.

        Those only keep it in step with processes that have one item more.
        """
        mine = [(item, 1.0) for item in self.share(items)]
        missing = -(-len(items) // self.size) - len(mine) if self.sharded else 0
        return [*mine, *((item, 0.0) for item in items[:missing])]

    def add_up(self, parameters: Sequence[Tensor]) -> None:
        """Sum gradients over the team, in place; a process without a micro-batch adds zero."""
        if self.size == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad)

    def add_up_figures(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Sum figures over the team."""
        found: dict[str, float] = {}
        for each in self.gather(dict(figures)):
            found = {name: found.get(name, 0.0) + each.get(name, 0.0) for name in [*found, *each]}
        return found

    def gather(self, item: T) -> list[T]:
        """Everybody's item, by rank."""
        if self.size == 1:
            return [item]
        items: list[Any] = [None] * self.size
        distributed.all_gather_object(items, item)
        return items


ALONE = Team()


@contextmanager
def assembled(backend: str = "gloo") -> Iterator[Team]:
    """The team that torchrun started, "gloo" on CPUs and "nccl" on GPUs, for as long as the context lasts."""
    distributed.init_process_group(backend)
    try:
        yield Team(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()
