"""RoundConfig: what one round does. Frozen; defaults are those of the `tiny` world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from agents.engine import Sampling
from agents.limits import Limits
from agents.suites import open_suite
from trainer.config import ColdStartConfig, LopdConfig
from trainer.method_config import (
    METHODS,
    AnchoredOpsdConfig,
    AnyMethodConfig,
    GrpoConfig,
    MethodName,
    OpsdConfig,
    RejectionSftConfig,
    SdftConfig,
    SdpoConfig,
    SkillSdConfig,
    SrOpsdConfig,
    StudentMethodConfig,
    TextTeacherConfig,
    UsdConfig,
    VanillaConfig,
)
from trainer.presets import PAPER, TINY, TINY_COLD_START, tiny


class ConfigRefused(ValueError):
    """Overrides that name an unknown key or hold a value outside its range; the message says which."""


class GateConfig(BaseModel):
    """How candidate and incumbent are compared."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: int | None = Field(default=None, ge=1)
    """How many held-out tasks, in the suite's order; None takes all of them."""
    samples_per_task: int = Field(default=1, ge=1)
    confidence: float = Field(default=0.95, gt=0.5, lt=1.0)
    """Of the confidence sequence. A candidate that is not better is promoted with at most half of what is left to one."""
    guards: tuple[str, ...] = ()
    """Other suites, "<suite>" or "<suite>:<seed>", that must not regress."""
    guard_margin: float = Field(default=0.05, ge=0.0, le=1.0)
    """A guard regresses when its success falls by more than this, or provably at all."""
    longest_ratio: float = Field(default=5.0, gt=1.0)
    """A candidate that samples more than so many times the incumbent's tokens is not promoted by itself."""
    seed: int = 0
    """Of the tasks' common random numbers."""
    sampling: Sampling = Sampling(max_tokens=64)
    """How both policies answer; its seed is replaced by the common random numbers."""

    @field_validator("guards")
    @classmethod
    def _exist(cls, specs: tuple[str, ...]) -> tuple[str, ...]:
        for spec in specs:
            open_suite(spec)
        return specs


class ComputeConfig(BaseModel):
    """What a round computes with. Off the CPU it needs an engine that serves there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: str = "cpu"
    """As torch names it: cpu, cuda, cuda:1."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the frozen base and its activations; student and composer keep fp32 master weights."""


class TrajectoryConfig(BaseModel):
    """Where a round's trajectories come from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["suite", "logged", "mix"] = "suite"
    """suite: fresh rollouts of the present student on resettable tasks. logged: episodes that the incumbent served, as they
    were recorded; nothing is executed again. mix: both in every step."""
    logged_share: float = Field(default=0.5, gt=0, lt=1)
    """Of a mixed step's trajectories."""
    ratio_bound: float = Field(default=3.0, gt=1)
    """A logged trajectory is left out of a step once π_θ(τ)/π_incumbent(τ) is above this or below its inverse, and
    weighted with that ratio before (TRL masks sequences above 3)."""


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
    method: MethodName = "lopd"
    """Which way of learning; its settings are in the field of its name."""
    lopd: LopdConfig = TINY
    grpo: GrpoConfig = tiny(GrpoConfig)
    sdft: SdftConfig = tiny(SdftConfig)
    opsd: OpsdConfig = tiny(OpsdConfig)
    sdpo: SdpoConfig = tiny(SdpoConfig)
    skill_sd: SkillSdConfig = tiny(SkillSdConfig)
    sr_opsd: SrOpsdConfig = tiny(SrOpsdConfig)
    usd: UsdConfig = tiny(UsdConfig)
    anchored_opsd: AnchoredOpsdConfig = tiny(AnchoredOpsdConfig)
    vanilla: VanillaConfig = tiny(VanillaConfig)
    rejection_sft: RejectionSftConfig = tiny(RejectionSftConfig)
    trajectories: TrajectoryConfig = TrajectoryConfig()
    compute: ComputeConfig = ComputeConfig()
    cold_start: ColdStartConfig = TINY_COLD_START
    gate: GateConfig = GateConfig()

    @property
    def learning(self) -> AnyMethodConfig:
        """Settings of the chosen method."""
        chosen: AnyMethodConfig = getattr(self, self.method)
        return chosen

    @property
    def references(self) -> int:
        """Experiences of other tasks that the chosen method needs for each rollout."""
        learning = self.learning
        if isinstance(learning, LopdConfig):
            return learning.composer.references
        if isinstance(learning, SkillSdConfig):
            return learning.arms
        text = isinstance(learning, TextTeacherConfig) and learning.evidence in ("retrieved", "own_or_retrieved")
        return int(text)

    @property
    def replays(self) -> bool:
        """Whether every step also gets successes out of the bank."""
        return (
            self.lopd.replay if self.method == "lopd" else self.method == "rejection_sft" and self.rejection_sft.replay
        )


GROUPED: Mapping[str, Mapping[str, int]] = {
    name: {"tasks_per_step": 8, "rollouts_per_task": 4} for name in ("grpo", "sdpo", "skill_sd", "sr_opsd")
}
"""Methods that compare rollouts of one task: G = 4, the same 32 rollouts a step (LOPD app. B.1)."""

TINY_ROUND = RoundConfig()
"""The shipped model's round: a few minutes on two cores."""

CONFIGS: Mapping[str, type[StudentMethodConfig]] = {
    name: type(getattr(TINY_ROUND, name)) for name in METHODS if name != "lopd"
}
"""Settings class of each method beside LOPD."""

PAPER_ROUND = RoundConfig(
    steps=100,
    sampling=Sampling(max_tokens=2048),
    limits=Limits(steps=30, tokens=32_768, seconds=900.0),
    lopd=PAPER,
    **{name: kind() for name, kind in CONFIGS.items()},
    cold_start=ColdStartConfig(),
    gate=GateConfig(sampling=Sampling(max_tokens=2048)),
)
"""A real model's round (LOPD sec. 5.1); lengths are ours, the paper gives none."""


def defaults_for(model: str) -> RoundConfig:
    """What a round on this model does unless told otherwise."""
    return TINY_ROUND if model == "tiny" else PAPER_ROUND


def read_config(defaults: RoundConfig, *overrides: Mapping[str, Any]) -> RoundConfig:
    """`defaults` with nested overrides applied in order, above them what the method they choose asks for.

    Raises `ConfigRefused`.
    """
    merged = defaults.model_dump()
    chosen = [override["method"] for override in overrides if "method" in override]
    asked = GROUPED.get(chosen[-1], {}) if chosen and isinstance(chosen[-1], str) else {}
    for override in (asked, *overrides):
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
