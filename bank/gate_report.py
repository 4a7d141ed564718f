"""GateReport: the statistics that decide whether a candidate may replace the incumbent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """What the paired comparison says."""

    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Candidate against incumbent on some of the tasks: one kind of task, or a guard suite."""

    name: str
    tasks: int
    candidate_success: float
    incumbent_success: float
    difference: float
    low: float
    high: float
    """Bounds of the confidence sequence; all comparisons of one list hold together at the report's confidence."""
    regressed: bool
    """It must not be promoted for this."""


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
    """Bounds of the confidence sequence of `difference`: they hold at every look together (`bank.sequential`)."""
    confidence: float
    p_value: float
    """Two-sided and anytime-valid: stopping when it is small does not make it wrong."""
    wins: int
    losses: int
    seed: int
    segments: tuple[Comparison, ...] = ()
    """The same tasks by kind."""
    guards: tuple[Comparison, ...] = ()
    """Other suites, which must not regress."""
    behaviour: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """What they did beside being right or wrong, incumbent and candidate: steps, calls and sampled tokens an episode,
    share of episodes that ended by a limit."""
    blocked: tuple[str, ...] = ()
    """Why it is not promoted by itself whatever the verdict; empty is free."""

    @property
    def passed(self) -> bool:
        """Better, and nothing against it."""
        return self.verdict is Verdict.BETTER and not self.blocked

    def to_wire(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "verdict": self.verdict.value}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> GateReport:
        """Inverse of `to_wire`."""
        parts = {name: tuple(Comparison(**part) for part in wire.get(name, ())) for name in ("segments", "guards")}
        behaviour = {name: (old, new) for name, (old, new) in wire.get("behaviour", {}).items()}
        other = {"verdict": Verdict(wire["verdict"]), "behaviour": behaviour, "blocked": tuple(wire.get("blocked", ()))}
        return cls(**{**wire, **parts, **other})
