"""Training: cold start or resumed state, then the steps of one round, each one durable before the next begins."""

from __future__ import annotations

import random

from bank.episode import Episode
from bank.round import RoundStep
from trainer.composers.shipped import composer_key, shipped_composer
from trainer.conclude import incumbent_of
from trainer.lease import Lease, utc_now
from trainer.logged import draw
from trainer.methods.lopd import Lopd
from trainer.progress import Pace, rollout_metrics
from trainer.pupil import Pupil
from trainer.resume import Progress, load_composer, load_progress, save_composer, save_progress
from trainer.rollouts import draw_tasks
from trainer.seeds import derive_seed
from trainer.workshop import Workshop

CHECK_EVERY = 10
"""Cold-start steps between two looks at the lease."""


class NothingLived(Exception):
    """No success in the bank can be composed: there is nothing to start the composer from."""


class Training:
    """The learning part of a claimed round."""

    def __init__(
        self, shop: Workshop, lease: Lease, pupil: Pupil, examples: list[Episode], logged: list[Episode]
    ) -> None:
        self._logged = logged
        self._shop = shop
        self._lease = lease
        self._pupil = pupil
        self._examples = examples
        self._folder = shop.folder(lease.round.id)
        self._config = pupil.config
        self._config_text = pupil.config.model_dump_json()

    def run(self) -> None:
        """Every step that is still to be made. Raises `trainer.errors.NonFinite`, `NothingLived`."""
        progress = load_progress(self._folder, self._config_text) or self._begin()
        self._pupil.method.restore(progress.method)
        self._enter("training", self._config.steps)
        drawn = [draw_tasks(self._shop.environment, self._config, step) for step in range(self._config.steps)]
        self._pupil.library.prepare(task for tasks in drawn[progress.step :] for task in tasks)
        pace = Pace(self._config.steps)
        while progress.step < self._config.steps:
            self._lease.check()
            progress = self._step(progress, pace)
        self._lease.check()

    def back_to_finite(self) -> bool:
        """Return the student to its last completed step; False when it has not made one."""
        progress = load_progress(self._folder, self._config_text)
        if progress is None or progress.step == 0:
            return False
        self._pupil.method.restore(progress.method)
        return True

    def keep_composer(self) -> None:
        """Leave φ to the next round."""
        lopd = self._pupil.composing
        if lopd is not None:
            save_composer(self._shop.composer, self._composer_key(), lopd.composer_state())

    def _begin(self) -> Progress:
        self._pupil.start_from(incumbent_of(self._shop, self._lease.round.parent))
        lopd = self._pupil.composing
        if lopd is not None:
            self._begin_composer(lopd)
        return self._save(step=0, rollouts=0)

    def _begin_composer(self, lopd: Lopd) -> None:
        carried = load_composer(self._shop.composer, self._composer_key())
        if carried is not None:
            lopd.load_composer(carried)
            return
        shipped = shipped_composer(self._composer_key())
        if shipped is not None:
            lopd.equipment.composer.load(shipped)
        self._cold_start(lopd)

    def _cold_start(self, lopd: Lopd) -> None:
        self._enter("cold_start", self._config.cold_start.steps)
        if not self._pupil.cold_start(lopd, self._examples, self._on_cold_step):
            raise NothingLived("no experience has recorded tokens and J references of other tasks")

    def _on_cold_step(self, step: int, loss: float) -> None:
        self._shop.reporter.advance(step + 1, {"nll": loss})
        if (step + 1) % CHECK_EVERY == 0:
            self._lease.check()
            self._lease.record(phase=f"cold_start {step + 1}/{self._config.cold_start.steps}")

    def _step(self, progress: Progress, pace: Pace) -> Progress:
        step = progress.step
        taken = self._pupil.step((self._lease.round.id, step), self._drawn(step), self._replayed(step))
        batch = taken.fresh
        metrics = rollout_metrics(taken.used, batch.faults, self._shop.settings.success_threshold) | taken.figures
        done = step + 1
        rollouts = progress.rollouts + len(batch.episodes) + batch.faults
        metrics |= pace.tick(done, metrics["sampled_tokens"])
        self._lease.add_step(RoundStep(self._lease.round.id, done, rollouts, metrics, utc_now()))
        self._shop.reporter.advance(done, metrics)
        return self._save(step=done, rollouts=rollouts)

    def _drawn(self, step: int) -> list[Episode]:
        """The logged trajectories of a step."""
        config = self._config
        share = {"suite": 0.0, "logged": 1.0, "mix": config.trajectories.logged_share}[config.trajectories.source]
        count = round(share * config.tasks_per_step * config.rollouts_per_task)
        return draw(self._logged, count, step, config.seed) if count else []

    def _replayed(self, step: int) -> list[Episode]:
        """The bank's successes that this step also learns from (`LopdConfig.replay`)."""
        if not self._config.replays:
            return []
        rng = random.Random(derive_seed(self._config.seed, "replay", step))
        return rng.sample(self._examples, min(len(self._examples), self._config.cold_start.batch))

    def _save(self, step: int, rollouts: int) -> Progress:
        progress = Progress(step, rollouts, self._config_text, self._pupil.method.state())
        save_progress(self._folder, progress)
        return progress

    def _enter(self, phase: str, total: int) -> None:
        self._lease.record(phase=phase)
        self._shop.reporter.phase(self._lease.round.id, phase, total)

    def _composer_key(self) -> str:
        return composer_key(self._pupil.backbone, self._config.lopd.composer)
