"""GateReport: the statistics that decide whether a candidate may replace the incumbent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """What the paired comparison says."""

    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class GateReport:
    """Candidate against incumbent on the same held-out tasks."""

    verdict: Verdict
    tasks: int
    candidate_success: float
    incumbent_success: float
    candidate_reward: float
    incumbent_reward: float
    difference: float
    """Candidate minus incumbent success rate, paired by task."""
    low: float
    high: float
    """Bounds of the confidence interval of `difference` (paired bootstrap)."""
    confidence: float
    p_value: float
    """Exact two-sided sign test on the discordant pairs."""
    wins: int
    losses: int
    seed: int

    def to_wire(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "verdict": self.verdict.value}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> GateReport:
        """Inverse of `to_wire`."""
        return cls(**{**wire, "verdict": Verdict(wire["verdict"])})
