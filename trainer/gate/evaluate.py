"""One policy over held-out tasks, with random numbers that every policy of the comparison shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agents.engine import Engine
from agents.environment import Environment, Task
from agents.limits import Limits
from agents.loop import Run
from bank.episode import Episode, Split, StopReason
from bank.gate_report import GateReport
from trainer.gate.statistics import Score, compare
from trainer.rollouts import Version, play
from trainer.round_config import GateConfig
from trainer.seeds import derive_seed

Matrix = NDArray[np.float64]


class GateFailed(RuntimeError):
    """No held-out task was judged for both policies."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where policies are judged."""

    engine: Engine
    environment: Environment
    config: GateConfig
    limits: Limits
    threshold: float
    """Reward from which an episode counts as a success."""
    parallel: int
    """Episodes in flight."""

    @property
    def tasks(self) -> Sequence[Task]:
        """The held-out tasks of the comparison."""
        return self.environment.tasks(Split.HELD_OUT)[: self.config.tasks]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Rewards of one policy, [tasks, samples]; NaN where a boundary failed."""

    rewards: Matrix
    episodes: tuple[Episode, ...]


async def evaluate(bench: Bench, version: Version) -> Outcomes:
    """Every sample of every task."""
    samples = bench.config.samples_per_task
    runs = [_run(bench, version, task, sample) for task in bench.tasks for sample in range(samples)]
    episodes = await play(bench.engine, bench.environment, runs, bench.parallel)
    rewards = np.array([_reward(episode) for episode in episodes], dtype=np.float64)
    return Outcomes(rewards.reshape(-1, samples), episodes)


async def judge(bench: Bench, candidate: Version, incumbent: Version) -> GateReport:
    """The report on two resident versions. Raises `GateFailed` without a single usable pair."""
    ours = await evaluate(bench, candidate)
    theirs = await evaluate(bench, incumbent)
    first, second = _scores(ours.rewards, theirs.rewards, bench.threshold)
    config = bench.config
    return compare(first, second, confidence=config.confidence, resamples=config.resamples, seed=config.seed)


def _scores(candidate: Matrix, incumbent: Matrix, threshold: float) -> tuple[Score, Score]:
    """A fault fails the candidate's sample, and drops the task when it is the incumbent's."""
    kept = ~np.isnan(incumbent).any(axis=1)
    if not kept.any():
        raise GateFailed("the incumbent could not be judged on any held-out task")
    return _score(np.nan_to_num(candidate[kept], nan=0.0), threshold), _score(incumbent[kept], threshold)


def _score(rewards: Matrix, threshold: float) -> Score:
    return Score((rewards >= threshold).mean(axis=1), rewards.mean(axis=1))


def _reward(episode: Episode) -> float:
    fault = episode.stop_reason is StopReason.FAULT or episode.reward is None
    return float("nan") if fault or episode.reward is None else episode.reward


def _run(bench: Bench, version: Version, task: Task, sample: int) -> Run:
    return Run(
        episode_id=f"gate-{version.name}-{task.id}-{sample}",
        task=task,
        version=version.name,
        digest=version.digest,
        limits=bench.limits,
        sampling=replace(bench.config.sampling, seed=derive_seed(bench.config.seed, "gate", task.id, sample)),
    )
