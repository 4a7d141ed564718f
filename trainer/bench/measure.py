"""Time, memory and the spread of ratios."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PROCESS = Path("/proc/self")


def seconds(work: Callable[[], object]) -> float:
    """Of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turns(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of every work, taken in turns so that a slow minute of the machine meets all of them; one call before is not counted."""
    for work in works.values():
        work()
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            found[name].append(seconds(work))
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """min, median and max."""
    return {"min": float(np.min(values)), "median": float(np.median(values)), "max": float(np.max(values))}


def ratios(numerator: Sequence[float], denominator: Sequence[float]) -> dict[str, float]:
    """Spread of the ratios of what was measured in the same turn."""
    return spread([one / other for one, other in zip(numerator, denominator, strict=True)])


def peak_of(work: Callable[[], object]) -> int:
    """Bytes by which this process's resident memory rose at its highest while working. Linux only."""
    (PROCESS / "clear_refs").write_text("5")
    before = _status("VmRSS")
    work()
    return _status("VmHWM") - before


def apart(module: str, *arguments: str) -> dict[str, Any]:
    """Run a measurement in a process of its own; it prints one line of JSON."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own modules
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _status(name: str) -> int:
    line = next(line for line in (PROCESS / "status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
