"""RoundConfig: what one round does. Frozen; defaults are those of the `tiny` world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.engine import Sampling
from agents.limits import Limits
from trainer.config import ColdStartConfig, LopdConfig
from trainer.presets import PAPER, TINY, TINY_COLD_START


class ConfigRefused(ValueError):
    """Overrides that name an unknown key or hold a value outside its range; the message says which."""


class GateConfig(BaseModel):
    """How candidate and incumbent are compared."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: int | None = Field(default=None, ge=1)
    """How many held-out tasks, in the suite's order; None takes all of them."""
    samples_per_task: int = Field(default=1, ge=1)
    confidence: float = Field(default=0.95, gt=0.5, lt=1.0)
    """Of the interval; the sign test must be below one minus it."""
    resamples: int = Field(default=10_000, ge=100)
    """Draws of the paired bootstrap."""
    seed: int = 0
    """Of the tasks' common random numbers and of the bootstrap."""
    sampling: Sampling = Sampling(max_tokens=64)
    """How both policies answer; its seed is replaced by the common random numbers."""


class RoundConfig(BaseModel):
    """One round."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(default=24, ge=0)
    """Joint updates (LOPD sec. 5.1 has 100)."""
    tasks_per_step: int = Field(default=32, ge=1)
    """Distinct train tasks per update while the suite has that many (LOPD sec. 5.1)."""
    rollouts_per_task: int = Field(default=1, ge=1)
    """Rollouts of each drawn task (LOPD sec. 5.1)."""
    seed: int = 0
    """Of the task order, the rollouts and the trainer's weights."""
    parallel: int = Field(default=64, ge=1)
    """Episodes in flight, in rollouts and in the gate."""
    min_experiences: int = Field(default=8, ge=1)
    """A smaller snapshot ends the round as EMPTY."""
    sampling: Sampling = Sampling(max_tokens=64)
    """How the student rolls out; temperature 1 untruncated is what the distillation loss assumes."""
    limits: Limits = Limits(steps=8, tokens=256, seconds=60.0)
    lopd: LopdConfig = TINY
    cold_start: ColdStartConfig = TINY_COLD_START
    gate: GateConfig = GateConfig()


TINY_ROUND = RoundConfig()
"""The shipped model's round: a few minutes on two cores."""

PAPER_ROUND = RoundConfig(
    steps=100,
    sampling=Sampling(max_tokens=2048),
    limits=Limits(steps=30, tokens=32_768, seconds=900.0),
    lopd=PAPER,
    cold_start=ColdStartConfig(),
    gate=GateConfig(sampling=Sampling(max_tokens=2048)),
)
"""A real model's round (LOPD sec. 5.1); lengths are ours, the paper gives none."""


def defaults_for(model: str) -> RoundConfig:
    """What a round on this model does unless told otherwise."""
    return TINY_ROUND if model == "tiny" else PAPER_ROUND


def read_config(defaults: RoundConfig, *overrides: Mapping[str, Any]) -> RoundConfig:
    """`defaults` with nested overrides applied in order. Raises `ConfigRefused`."""
    merged = defaults.model_dump()
    for override in overrides:
        merged = _merge(merged, override)
    try:
        return RoundConfig.model_validate(merged)
    except ValidationError as error:
        raise ConfigRefused(_explain(error)) from error


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        nested = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(old, value) if nested else value  # type: ignore[arg-type]
    return merged


def _explain(error: ValidationError) -> str:
    lines = [f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()]
    return "round configuration: " + "; ".join(lines)
