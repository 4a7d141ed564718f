"""Finding: what one check saw."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    """Works, but something a person should know."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the diagnosis."""

    check: str
    level: Level
    detail: str
    advice: str = ""
    """What to do; empty when there is nothing to do."""


def ok(check: str, detail: str) -> Finding:
    """Nothing to do."""
    return Finding(check, Level.OK, detail)


def warn(check: str, detail: str, advice: str) -> Finding:
    """Works, with a reservation."""
    return Finding(check, Level.WARN, detail, advice)


def fail(check: str, detail: str, advice: str) -> Finding:
    """Does not work."""
    return Finding(check, Level.FAIL, detail, advice)
