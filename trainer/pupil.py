"""Pupil: one backbone, the engine that rolls it out and the objective that trains it, for one round."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import torch

from agents.adapter import AdapterRef
from agents.environment import Environment
from agents.transformers_engine.backbone import Backbone, load_backbone
from agents.transformers_engine.engine import TransformersEngine
from bank.checkpoint import BASE
from bank.episode import Episode, Split
from trainer.methods.lopd import Lopd
from trainer.methods.method import Method
from trainer.methods.registry import open_method
from trainer.references import Library
from trainer.roles import STUDENT
from trainer.rollouts import Batch, Version, roll_out
from trainer.round_config import RoundConfig
from trainer.sample import Sample
from trainer.seeds import derive_seed
from trainer.student import student_digest

T = TypeVar("T")


Place = tuple[str, int]
"""Round id and step."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One step."""

    fresh: Batch
    """What was rolled out for it."""
    used: tuple[Episode, ...]
    """What it learned from."""
    figures: dict[str, float]


class Ground(Protocol):
    """Where a pupil lives; a `trainer.workshop.Workshop` is one."""

    @property
    def model(self) -> Path:
        """Folder of the base model."""
        ...

    @property
    def environment(self) -> Environment:
        """The tasks."""
        ...


class Pupil:
    """A context manager; inside it the student can be rolled out and trained in turn."""

    def __init__(self, shop: Ground, config: RoundConfig, library: Library) -> None:
        self.config = config
        self.backbone: Backbone = load_backbone(
            shop.model, device=config.compute.device, dtype=getattr(torch, config.compute.dtype)
        )
        seed = derive_seed(config.seed, "weights")
        self.method: Method = open_method(config.method, self.backbone, config.learning, seed)
        self.engine = TransformersEngine(self.backbone, max_batch=config.parallel)
        self._shop = shop
        self.library = library
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._loop = self._stack.enter_context(asyncio.Runner())
        self._stack.callback(lambda: self.wait(self.engine.close()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run asynchronous work of the engine to its end."""
        return self._loop.run(work)

    def start_from(self, incumbent: AdapterRef | None) -> None:
        """Begin with the incumbent's weights; None is the base."""
        if incumbent is not None:
            self.method.load_student(incumbent.path)

    @property
    def composing(self) -> Lopd | None:
        """The method, if it has a composer to start and to keep."""
        return self.method if isinstance(self.method, Lopd) else None

    def cold_start(self, lopd: Lopd, examples: Sequence[Episode], on_step: Callable[[int, float], None]) -> bool:
        """Train the composer on lived successes (eq. 14); False when none of them has J references."""
        samples = self._samples(examples)
        if samples:
            lopd.cold_start(samples, self.config.cold_start, on_step)
        return bool(samples)

    def step(self, place: Place, logged: Sequence[Episode], replayed: Sequence[Episode]) -> Taken:
        """One update on fresh rollouts, on logged trajectories, or on both. Raises `trainer.errors.LearningError`."""
        fresh = Batch((), 0) if self.config.trajectories.source == "logged" else self._roll_out(*place)
        near, figures = self._near(self._samples(logged)) if logged else ([], {})
        found = self.method.step([*self._samples(fresh.episodes), *near], self._samples(replayed))
        return Taken(fresh, (*fresh.episodes, *(sample.episode for sample in near)), figures | found)

    def _near(self, logged: list[Sample]) -> tuple[list[Sample], dict[str, float]]:
        """Logged trajectories that the student could still have made itself, weighted by how likely it would have."""
        bound = math.log(self.config.trajectories.ratio_bound)
        moved = self.method.log_ratios(logged).tolist() if logged else []
        pairs = zip(logged, moved, strict=True)
        near = [replace(sample, importance=math.exp(one)) for sample, one in pairs if abs(one) <= bound]
        figures = {"logged": float(len(near)), "logged_dropped": float(len(logged) - len(near))}
        if moved:
            figures["logged_log_ratio"] = sum(map(abs, moved)) / len(moved)
        return near, figures

    def _roll_out(self, round_id: str, step: int) -> Batch:
        version = Version(f"{round_id}-step-{step:04d}", student_digest(self.backbone.model))
        self.adopt(version)
        batch = self.wait(
            roll_out(self.engine, self._shop.environment, version, self.config, round_id=round_id, step=step)
        )
        self.engine.retire(version.name)
        return batch

    def adopt(self, version: Version) -> None:
        """Serve the student's present weights under a name."""
        self.engine.adopt(version.name, STUDENT, version.digest)

    def load(self, incumbent: AdapterRef | None) -> Version:
        """Make the incumbent resident; returns how the engine names it."""
        if incumbent is None:
            return Version(BASE, self.backbone.base_digest)
        self.wait(self.engine.load(incumbent))
        return Version(incumbent.name, incumbent.digest)

    def _samples(self, episodes: Sequence[Episode]) -> list[Sample]:
        wanted = self.method.references
        samples = [self._sample(episode) for episode in episodes]
        return [sample for sample in samples if len(sample.references) == wanted]

    def _sample(self, episode: Episode) -> Sample:
        environment = self._shop.environment
        live = episode.split is Split.LIVE
        session = environment.live(episode.task) if live else environment.reset(environment.task(episode.task_id))
        references = self.library.references(episode.task_id, episode.task)
        own, canonical = self.library.own(episode.task_id, episode.id)
        return Sample(episode, references, tuple(session.tools), own, canonical)
