"""One-line charts."""

from __future__ import annotations

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 40, low: float | None = None, high: float | None = None) -> str:
    """The last `width` values as bars between `low` and `high` (by default the values' own range)."""
    shown = list(values)[-width:]
    if not shown:
        return ""
    bottom = min(shown) if low is None else low
    span = (max(shown) if high is None else high) - bottom
    return "".join(_bar((value - bottom) / span if span > 0 else 0.0) for value in shown)


def _bar(share: float) -> str:
    top = len(BARS) - 1
    return BARS[min(top, max(0, round(share * top)))]
