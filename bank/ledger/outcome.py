"""Outcome: how one piece of work inside a shared transaction ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value or an error."""

    value: Any = None
    error: Exception | None = None
    """Set when the work raised; nothing that it wrote was kept."""

    def result(self) -> Any:
        """The value, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.value
