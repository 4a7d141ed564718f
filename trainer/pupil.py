"""Pupil: one backbone, the engine that rolls it out and the objective that trains it, for one round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from agents.adapter import AdapterRef
from agents.transformers_engine.backbone import Backbone, load_backbone
from agents.transformers_engine.engine import TransformersEngine
from bank.checkpoint import BASE
from bank.episode import Episode, Split
from trainer.lopd import Lopd
from trainer.references import Library
from trainer.roles import STUDENT
from trainer.rollouts import Batch, Version, roll_out
from trainer.round_config import RoundConfig
from trainer.sample import Sample
from trainer.seeds import derive_seed
from trainer.student import student_digest
from trainer.workshop import Workshop

T = TypeVar("T")


class Pupil:
    """A context manager; inside it the student can be rolled out and trained in turn."""

    def __init__(self, shop: Workshop, config: RoundConfig, library: Library) -> None:
        self.config = config
        self.backbone: Backbone = load_backbone(shop.model)
        self.lopd = Lopd(self.backbone, config.lopd, derive_seed(config.seed, "weights"))
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
            self.lopd.load_student(incumbent.path)

    def cold_start(self, examples: Sequence[Episode], on_step: Callable[[int, float], None]) -> bool:
        """Train the composer on lived successes (eq. 14); False when none of them has J references."""
        samples = self._samples(examples)
        if samples:
            self.lopd.cold_start(samples, self.config.cold_start, on_step)
        return bool(samples)

    def step(self, round_id: str, step: int, replayed: Sequence[Episode]) -> tuple[Batch, dict[str, float]]:
        """Roll the student out, then one joint update on what it did. Raises `trainer.errors.LearningError`."""
        version = Version(f"{round_id}-step-{step:04d}", student_digest(self.backbone.model))
        self.adopt(version)
        batch = self.wait(
            roll_out(self.engine, self._shop.environment, version, self.config, round_id=round_id, step=step)
        )
        self.engine.retire(version.name)
        return batch, self.lopd.step(self._samples(batch.episodes), self._samples(replayed))

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
        wanted = self.config.lopd.composer.references
        samples = [self._sample(episode) for episode in episodes]
        return [sample for sample in samples if len(sample.references) == wanted]

    def _sample(self, episode: Episode) -> Sample:
        environment = self._shop.environment
        live = episode.split is Split.LIVE
        session = environment.live(episode.task) if live else environment.reset(environment.task(episode.task_id))
        references = self.library.references(episode.task_id, episode.task)
        return Sample(episode, references, tuple(session.tools))
