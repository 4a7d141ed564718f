"""memory: a bound on what a round's process may take, and how the end of it is recognised."""

from __future__ import annotations

import resource

CPU_ALLOCATOR = "can't allocate memory"
"""What torch's CPU allocator says, in a plain RuntimeError."""
CUDA_ERROR = "OutOfMemoryError"
"""Class name of torch's error on accelerators; this file does not import torch."""


def limit_memory(limit_bytes: int | None) -> None:
    """Bound this process's writable memory; None leaves it alone. A further allocation fails instead of being killed."""
    if limit_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


def out_of_memory(error: BaseException) -> bool:
    """Whether this is the end of some memory: Python's, torch's on the CPU or on an accelerator."""
    return isinstance(error, MemoryError) or type(error).__name__ == CUDA_ERROR or CPU_ALLOCATOR in str(error)
