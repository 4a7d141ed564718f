"""Limits: what bounds one run of the agent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one run; reaching one is a stop, not an error."""

    steps: int = 12
    """Model calls."""
    tokens: int = 4096
    """Sampled tokens in the whole run."""
    seconds: float = 120.0
    result_characters: int = 4000
    """Longest tool result that enters the context; the rest is cut on a character boundary and marked."""
    repeats: int = 3
    """Identical (tool, arguments, result) rounds, or repetitions of a short cycle, before the run stops."""
