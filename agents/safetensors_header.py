"""The header of a safetensors file: which tensors it holds, and that they fill it exactly. Nothing is executed, nothing copied.

Format: 8 bytes little-endian length N, N bytes of JSON {name: {dtype, shape, data_offsets}}, then the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
"""Bytes of one element."""
LENGTH_BYTES = 8
LONGEST = 100_000_000
"""Bytes of a header, as in the reference implementation."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where one tensor lies."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    """Offset in the file, bytes."""

    @property
    def count(self) -> int:
        """Elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """One file's tensors."""

    path: Path
    tensors: Mapping[str, Tensor]


def read_header(path: Path) -> Header:
    """The header of a whole file. Raises `ValueError` when it is truncated, has bytes beyond its tensors, or is something else."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        if length > min(LONGEST, size - LENGTH_BYTES):
            raise ValueError(f"{path.name} is no whole safetensors file")
        entries = json.loads(file.read(length))
    if not isinstance(entries, dict):
        raise ValueError(f"{path.name} has no safetensors header")  # noqa: TRY004 - what is wrong is the file
    entries.pop("__metadata__", None)
    begin = LENGTH_BYTES + length
    tensors = {str(name): _tensor(path, str(name), entry, begin) for name, entry in entries.items()}
    at = begin
    for tensor in sorted(tensors.values(), key=lambda tensor: tensor.start):
        if tensor.start != at:
            raise ValueError(f"{path.name}: tensors overlap or leave gaps")
        at += tensor.count * WIDTHS[tensor.dtype]
    if at != size:
        raise ValueError(f"{path.name} has {size} bytes, its header describes {at}")
    return Header(path, tensors)


def _tensor(path: Path, name: str, entry: Any, begin: int) -> Tensor:
    try:
        dtype, shape, (start, end) = str(entry["dtype"]), tuple(entry["shape"]), entry["data_offsets"]
        whole = all(type(number) is int and number >= 0 for number in (*shape, start, end))
        tensor = Tensor(dtype, shape, begin + start) if whole else None
    except (KeyError, TypeError, ValueError):
        tensor = None
    if tensor is None or dtype not in WIDTHS or end - start != tensor.count * WIDTHS[dtype]:
        raise ValueError(f"{path.name}: the header of {name[:100]!r} makes no sense")
    return tensor
