"""Packing: every distinct token of a pass once, without padding; only attention sees rows.

Tokens that several rows begin with (a system prompt, a task) are one token each here.
Shape suffixes: N packed tokens, B rows, T query columns, L key columns, M head rows of all tokens, C cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.fused import Blocks


@dataclass(frozen=True, slots=True)
class Index:
    """Rows to take, and for the gradient the places where each row went."""

    take: Tensor
    cells: Tensor
    offsets: Tensor

    @classmethod
    def of(cls, take_C: Tensor, real_C: Tensor, rows: int) -> Index:
        """`real` is false on cells that nobody reads: their gradient is dropped."""
        target_C = torch.where(real_C, take_C, rows)
        order = target_C.argsort(stable=True)[: int(real_C.sum())]
        counts = torch.bincount(target_C, minlength=rows + 1)[:rows]
        return cls(take_C, order, counts.cumsum(0) - counts)


@dataclass(frozen=True, slots=True)
class Heads:
    """Head counts of one attention layer."""

    query: int
    key: int

    @property
    def all(self) -> int:
        """Query, key and value heads."""
        return self.query + 2 * self.key

    @property
    def group(self) -> int:
        """Query heads of one key head."""
        return self.query // self.key


@dataclass(frozen=True, slots=True)
class Grid:
    """Attention of B rows: T queries, L keys."""

    token_BT: Tensor
    """Packed token of each query; -1 is padding. A token may stand in several rows when those have computed the same."""
    token_BL: Tensor
    """Packed token of each key; the queries are the last T columns."""


@dataclass(frozen=True, slots=True)
class Packing:
    """How packed tokens attend to one another."""

    position_N: Tensor
    gather: Index
    """[M] head rows to the cells of all grids, each with queries, keys, values."""
    blocks: Blocks
    """B x key heads, group x T, L of each grid."""
    masks: tuple[Tensor, ...]
    """Added to the scores, [group x T, L]."""
    back_NH: Tensor
    """Attention's output cell of each token and query head."""
    outputs: int
    """Output cells of all grids."""

    def back(self, kept_S: Tensor | None) -> Index:
        """Output cells to the head rows of the kept tokens."""
        take = (self.back_NH if kept_S is None else self.back_NH[kept_S]).flatten()
        return Index.of(take, torch.ones_like(take, dtype=torch.bool), self.outputs)


def pack(grids: Sequence[Grid], position_N: Tensor, heads: Heads) -> Packing:
    """Packing of the tokens at these positions."""
    takes, reals = zip(*(_cells(grid, heads) for grid in grids), strict=True)
    back_NH = torch.zeros(len(position_N), heads.query, dtype=torch.long, device=position_N.device)
    outputs = 0
    for grid in grids:
        outputs += _note_back(back_NH, grid.token_BT, heads, outputs)
    return Packing(
        position_N=position_N,
        gather=Index.of(torch.cat(takes), torch.cat(reals), len(position_N) * heads.all),
        blocks=tuple(_block(grid, heads) for grid in grids),
        masks=tuple(_mask(grid, heads) for grid in grids),
        back_NH=back_NH,
        outputs=outputs,
    )


def _block(grid: Grid, heads: Heads) -> tuple[int, int, int]:
    rows, columns = grid.token_BT.shape
    return rows * heads.key, columns * heads.group, grid.token_BL.shape[1]


def _cells(grid: Grid, heads: Heads) -> tuple[Tensor, Tensor]:
    """Head rows of queries [B, key heads, group x T], then keys and values [B, key heads, L]; which of them are real."""
    head_K = torch.arange(heads.key, device=grid.token_BT.device)
    member_G = torch.arange(heads.group, device=grid.token_BT.device)
    query_KG1 = (head_K[:, None] * heads.group + member_G)[..., None]
    query = (grid.token_BT.clamp(min=0)[:, None, None] * heads.all + query_KG1).flatten(2)
    key = grid.token_BL.clamp(min=0)[:, None] * heads.all + (heads.query + head_K)[:, None]
    real_query = (grid.token_BT >= 0)[:, None].repeat(1, heads.key, heads.group)
    real_key = (grid.token_BL >= 0)[:, None].expand(-1, heads.key, -1)
    take = torch.cat([query.flatten(), key.flatten(), (key + heads.key).flatten()])
    return take, torch.cat([real_query.flatten(), real_key.flatten(), real_key.flatten()])


def _note_back(back_NH: Tensor, token_BT: Tensor, heads: Heads, start: int) -> int:
    """Write down where the outputs of this grid's tokens will be; returns the number of output cells."""
    rows, columns = token_BT.shape
    cell = torch.arange(rows * heads.query * columns, device=token_BT.device).view(rows, heads.query, columns)
    real_BT = token_BT >= 0
    back_NH[token_BT[real_BT]] = cell.transpose(1, 2)[real_BT] + start
    return cell.numel()


def _mask(grid: Grid, heads: Heads) -> Tensor:
    columns, keys = grid.token_BT.shape[1], grid.token_BL.shape[1]
    blocked = torch.full((columns, keys), -torch.inf, device=grid.token_BT.device).triu(keys - columns + 1)
    return blocked.repeat(heads.group, 1)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one pass."""

    ids_N: Tensor
    position_N: Tensor
    grids: tuple[Grid, ...]


def after_prefix(prefix: Sequence[int], rows: Sequence[Sequence[int]], device: torch.device) -> Tokens:
    """Rows that all follow the same prefix: its tokens come first, then those of each row."""
    start, ids = len(prefix), [*prefix, *(token for row in rows for token in row)]
    length_B = torch.tensor([len(row) for row in rows])
    first_B = start + length_B.cumsum(0) - length_B
    column_T = torch.arange(int(length_B.max()))
    real_BT = column_T < length_B[:, None]
    token_BT = torch.where(real_BT, first_B[:, None] + column_T, -1)
    prefix_BC = torch.arange(start).expand(len(rows), -1)
    grid = Grid(token_BT.to(device), torch.cat([prefix_BC, token_BT], dim=1).to(device))
    whole = Grid(prefix_BC[:1].to(device), prefix_BC[:1].to(device))
    position = torch.cat([torch.arange(start), (start + column_T).expand(len(rows), -1)[real_BT]])
    return Tokens(torch.tensor(ids, device=device), position.to(device), (whole, grid) if start else (grid,))


def merged(rows: Sequence[Sequence[int]], device: torch.device) -> Tokens:
    """Rows as they are; what several of them begin with is there once, and queries for it in one row only."""
    keys: list[list[int]] = [[] for _ in rows]
    ids: list[int] = []
    position: list[int] = []
    known: list[int] = []
    before: Sequence[int] = ()
    shared = [0] * len(rows)
    # next to each other in this order stand the rows with the longest common beginnings
    for index in sorted(range(len(rows)), key=lambda number: list(rows[number])):
        row = rows[index]
        same = _common(before, row)
        known = [*known[:same], *range(len(ids), len(ids) + len(row) - same)]
        ids += row[same:]
        position += range(same, len(row))
        keys[index], shared[index], before = known, same, row
    token_BL = _padded(keys)
    own_BT = torch.arange(token_BL.shape[1]) >= torch.tensor(shared)[:, None]
    grid = Grid(torch.where(own_BT, token_BL, -1).to(device), token_BL.to(device))
    return Tokens(torch.tensor(ids, device=device), torch.tensor(position, device=device), (grid,))


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in same)


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    tensors = [torch.tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=-1)
