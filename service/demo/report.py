"""DemoReport: what a demo measured, and the file it goes to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "demo.json"


@dataclass(frozen=True, slots=True)
class DemoReport:
    """One demo; success rates are shares in [0, 1] of the held-out tasks."""

    seed: int
    before: float
    after: float
    interval: tuple[float, float]
    """95 % interval of `after - before`, paired bootstrap over tasks."""
    rollouts: int
    """Training rollouts of the round."""
    seconds: float
    """Wall clock, from starting the service to the last measurement."""
    verdict: str
    """The gate's."""
    checkpoint: str
    """The version that answered the second measurement."""
    digest: str
    traffic: int
    """Runs played before the round; they fill the bank and train nothing directly."""
    experiences: int
    """Verified successes in the bank when the round began."""
    held_out_tasks: int


def write_reports(folder: Path, reports: Sequence[DemoReport], many: bool) -> Path:
    """Write demo.json: the one report, or a list of them under `runs`."""
    rows = [asdict(report) for report in reports]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.write_text(json.dumps({"runs": rows} if many else rows[0], indent=2) + "\n", encoding="utf-8")
    return path
