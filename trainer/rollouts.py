"""On-policy rollouts: which train tasks a step draws, and the episodes the student makes of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.engine import Engine
from agents.environment import Environment, Task
from agents.loop import Run, run_episode
from bank.episode import Episode, Split, StopReason
from trainer.round_config import RoundConfig
from trainer.seeds import derive_seed


class RolloutsFailed(RuntimeError):
    """Every rollout of a step ended in a fault: the boundary is down, not the student wrong."""


@dataclass(frozen=True, slots=True)
class Version:
    """The name and digest under which the engine serves the student of one step."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step rolled out."""

    episodes: tuple[Episode, ...]
    """Verified episodes, in the order of the tasks."""
    faults: int
    """Episodes dropped because a boundary failed or nothing verified them."""


def draw_tasks(environment: Environment, config: RoundConfig, step: int) -> tuple[Task, ...]:
    """The train tasks of a step: consecutive slices of seeded shuffles, so no task repeats within a pass."""
    tasks = environment.tasks(Split.TRAIN)
    if not tasks:
        raise ValueError(f"suite {environment.name} has no train tasks")
    first = step * config.tasks_per_step
    places = [divmod(position, len(tasks)) for position in range(first, first + config.tasks_per_step)]
    orders = {lap: _shuffled(tasks, config.seed, lap) for lap in {lap for lap, _ in places}}
    return tuple(orders[lap][offset] for lap, offset in places)


def _shuffled(tasks: Sequence[Task], seed: int, lap: int) -> list[Task]:
    rng = random.Random(derive_seed(seed, "tasks", lap))
    return rng.sample(tasks, len(tasks))


async def roll_out(
    engine: Engine, environment: Environment, version: Version, config: RoundConfig, *, round_id: str, step: int
) -> Batch:
    """Every rollout of a step, at once. Raises `RolloutsFailed` when none of them ended without a fault."""
    tasks = [task for task in draw_tasks(environment, config, step) for _ in range(config.rollouts_per_task)]
    runs = [_run(task, version, config, (round_id, step, index)) for index, task in enumerate(tasks)]
    episodes = await play(engine, environment, runs, config.parallel)
    usable = tuple(episode for episode in episodes if _usable(episode))
    if not usable:
        raise RolloutsFailed(f"all {len(episodes)} rollouts of step {step} failed: {episodes[0].fault}")
    return Batch(usable, len(episodes) - len(usable))


async def play(engine: Engine, environment: Environment, runs: Sequence[Run], parallel: int) -> tuple[Episode, ...]:
    """Every run to its end, `parallel` at a time; a run's clock starts when its turn comes."""
    gate = asyncio.Semaphore(parallel)

    async def one(run: Run) -> Episode:
        async with gate:
            return await run_episode(engine, environment.reset(run.task), run)

    return tuple(await asyncio.gather(*map(one, runs)))


def _run(task: Task, version: Version, config: RoundConfig, place: tuple[str, int, int]) -> Run:
    round_id, step, index = place
    return Run(
        episode_id=f"{round_id}-{step:04d}-{index:04d}",
        task=task,
        version=version.name,
        digest=version.digest,
        limits=config.limits,
        sampling=replace(config.sampling, seed=derive_seed(config.seed, "rollout", step, index)),
    )


def _usable(episode: Episode) -> bool:
    return episode.stop_reason is not StopReason.FAULT and episode.reward is not None and bool(episode.turns)
