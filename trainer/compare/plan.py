"""What a comparison runs: sizes, arms and ablations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer.method_config import METHODS, RECONSTRUCTIONS, MethodName
from trainer.round_config import RoundConfig, read_config

UNHURRIED = 1e6
"""Seconds that an episode may take: none may end because the machine is busy, or figures would depend on that."""
TUNING_SEED = 1000
"""Suite seed of the learning-rate trials; no final run uses it."""
ALL = "all"


@dataclass(frozen=True, slots=True)
class Size:
    """How much a comparison does."""

    steps: int
    evaluate_every: int
    """Steps between two looks at the held-out tasks."""
    held_out: int
    bank_rollouts: int
    """Rollouts of the base that fill the bank."""
    factors: tuple[float, ...]
    """Learning rates tried for each method, as multiples of its default."""
    tuning_steps: int
    cold_start: int


SIZES: Mapping[str, Size] = {
    "smoke": Size(2, 1, 4, 64, (1.0,), 1, 2),
    "small": Size(8, 2, 64, 800, (0.5, 1.0), 8, 80),
    "full": Size(48, 8, 208, 1600, (0.25, 0.5, 1.0, 2.0), 24, 320),
}
"""smoke: seconds. small: under an hour on two cores with all methods and few seeds. full: the table of the README."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One curve of the comparison: a method, or a variant of one."""

    label: str
    method: MethodName
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Of the method's settings."""
    self_retrieval: bool = False
    """Let a task read its own trajectories: for the ablation only, a round can't."""
    fresh: bool = False
    """Let the cold start begin with random weights, as published, where a composer ships with the base."""

    @property
    def note(self) -> str:
        """What has to be said wherever the arm is shown."""
        return "reconstruction from an abstract" if self.method in RECONSTRUCTIONS else ""


@dataclass(frozen=True, slots=True)
class Run:
    """One training run of one arm."""

    arm: Arm
    suite: str
    seed: int
    config: RoundConfig
    size: Size
    phase: str
    """"tune" or "final"."""
    rate: float

    @property
    def key(self) -> str:
        """File name: changes with everything that the result depends on."""
        size = [self.size.evaluate_every, self.size.held_out, self.size.bank_rollouts]
        said = [self.suite, size, self.arm.self_retrieval, self.arm.fresh, self.config.model_dump(mode="json")]
        digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]
        return f"{self.phase}-{self.arm.label}-seed{self.seed}-{digest}"


def _lopd(label: str, *, self_retrieval: bool = False, fresh: bool = False, **settings: Any) -> Arm:
    return Arm(f"lopd {label}", "lopd", settings, self_retrieval, fresh)


ABLATIONS: tuple[Arm, ...] = (
    _lopd("fresh composer", fresh=True),
    _lopd("frozen composer", train_composer=False),
    _lopd("no margin", constrained=False),
    *(_lopd(f"m={m:g}", threshold=m) for m in (0.0, 0.01, 0.02, 0.05, 0.10)),
    # a composer ships for one J and K only
    *(_lopd(f"J={j}", fresh=True, composer={"references": j}) for j in (1, 3, 5, 10)),
    *(_lopd(f"K={k}", fresh=True, composer={"queries": k}) for k in (8, 16, 32, 64)),
    _lopd("self-retrieval", self_retrieval=True),
    _lopd("anchor sum", anchor_reduction="sum"),
    _lopd("sequential", update="sequential"),
    _lopd("centred", advantage="centred"),
)


def arms_of(methods: str, ablations: str) -> list[Arm]:
    """Arms from comma-separated names, "all" or "" for none. Raises ValueError that lists what exists."""
    named = [Arm(name, name) for name in _chosen(methods, METHODS)]
    by_label = {arm.label.removeprefix("lopd "): arm for arm in ABLATIONS}
    return [*named, *(by_label[label] for label in _chosen(ablations, tuple(by_label)))]


def _chosen(text: str, known: Sequence[Any]) -> list[Any]:
    if text == ALL:
        return list(known)
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown: {', '.join(unknown)}; there are: {', '.join(known)}")
    return names


def suite_of(suite: str, seed: int) -> str:
    """A suite named without a seed gets the run's own, so that seeds also vary the world; one named with a seed keeps it."""
    return suite if ":" in suite else f"{suite}:{seed}"


def run_of(arm: Arm, suite: str, seed: int, size: Size, phase: str, defaults: RoundConfig, factor: float) -> Run:
    """The run of an arm at a multiple of its default learning rate."""
    base = getattr(defaults, arm.method).student.learning_rate
    overrides = {
        "method": arm.method,
        "seed": seed,
        "steps": size.tuning_steps if phase == "tune" else size.steps,
        "cold_start": {"steps": size.cold_start},
        "gate": {"tasks": size.held_out},
        "limits": {"seconds": UNHURRIED},
    }
    learning: dict[str, Any] = {arm.method: {**arm.overrides, "student": {"learning_rate": base * factor}}}
    config = read_config(defaults, overrides, learning)
    return Run(arm, suite_of(suite, seed), seed, config, size, phase, base * factor)
