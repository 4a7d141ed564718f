"""One policy over held-out tasks, with random numbers that every policy of the comparison shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agents.engine import Engine
from agents.environment import Environment, Task
from agents.limits import Limits
from agents.loop import Run
from agents.suites import open_suite
from bank.episode import Episode, Split, StopReason
from bank.gate_report import Comparison, GateReport
from trainer.gate.behaviour import behaviour
from trainer.gate.statistics import Score, compare, compare_parts
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
    config = bench.config
    contest = await _contest(bench, candidate, incumbent)
    report = compare(*contest.scores, confidence=config.confidence, seed=config.seed)
    segments = compare_parts(contest.by_kind(), config.confidence)
    benches = {spec: replace(bench, environment=open_suite(spec)) for spec in config.guards}
    guards = {spec: (await _contest(guard, candidate, incumbent)).scores for spec, guard in benches.items()}
    guarded = compare_parts(guards, config.confidence, margin=config.guard_margin)
    shift = {name: (old, contest.ours[name]) for name, old in contest.theirs.items()}
    blocked = (*_regressions(segments, guarded), *_outgrown(shift["tokens"], config.longest_ratio))
    return replace(report, segments=segments, guards=guarded, behaviour=shift, blocked=blocked)


@dataclass(frozen=True, slots=True)
class _Contest:
    """Both policies on one suite; the same index is the same task."""

    candidate: Score
    incumbent: Score
    kinds: tuple[str, ...]
    ours: Mapping[str, float]
    theirs: Mapping[str, float]

    @property
    def scores(self) -> tuple[Score, Score]:
        return self.candidate, self.incumbent

    def by_kind(self) -> dict[str, tuple[Score, Score]]:
        """The tasks of each kind."""
        kinds = np.array(self.kinds)
        return {
            kind: (self.candidate.of(kinds == kind), self.incumbent.of(kinds == kind)) for kind in sorted(set(kinds))
        }


async def _contest(bench: Bench, candidate: Version, incumbent: Version) -> _Contest:
    """A fault fails the candidate's sample, and drops the task when it is the incumbent's."""
    ours, theirs = await evaluate(bench, candidate), await evaluate(bench, incumbent)
    kept = ~np.isnan(theirs.rewards).any(axis=1)
    if not kept.any():
        raise GateFailed(f"the incumbent could not be judged on any held-out task of {bench.environment.name}")
    return _Contest(
        candidate=_score(np.nan_to_num(ours.rewards[kept], nan=0.0), bench.threshold),
        incumbent=_score(theirs.rewards[kept], bench.threshold),
        kinds=tuple(kind_of(bench.tasks[int(index)]) for index in np.flatnonzero(kept)),
        ours=behaviour(ours.episodes),
        theirs=behaviour(theirs.episodes),
    )


def kind_of(task: Task) -> str:
    """What sort of task it is, as its suite names it."""
    return str(task.payload.get("kind") or task.payload.get("family") or task.suite)


def _regressions(segments: Sequence[Comparison], guards: Sequence[Comparison]) -> list[str]:
    parts = [("segment", part) for part in segments] + [("guard", part) for part in guards]
    return [f"{sort} {part.name} regressed by {-part.difference:.3f}" for sort, part in parts if part.regressed]


def _outgrown(tokens: tuple[float, float], longest: float) -> list[str]:
    incumbent, candidate = tokens
    if candidate <= longest * max(incumbent, 1.0):
        return []
    return [f"it samples {candidate:.0f} tokens an episode, the incumbent {incumbent:.0f}"]


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
