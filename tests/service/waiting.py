"""Waiting for other processes."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 90.0


def until(look: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """The first true answer."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return seen
