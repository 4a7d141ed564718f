"""One run of a comparison: cold start where the method has one, steps, looks at the held-out tasks; resumed where it stopped."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agents.engine import Engine
from agents.environment import Environment
from agents.suites import open_suite
from bank.embedding.embedder import Embedder
from trainer.compare.bank import Bank, fill, opened
from trainer.compare.behaviour import behaviour
from trainer.compare.plan import Run
from trainer.compare.teacher import DIGEST, TEACHER, Teacher
from trainer.composers.shipped import composer_key, shipped_composer
from trainer.durable import replace_file
from trainer.errors import LearningError
from trainer.gate.evaluate import Bench, evaluate
from trainer.methods.lopd import Lopd
from trainer.progress import rollout_metrics
from trainer.pupil import Pupil
from trainer.references import Library
from trainer.resume import load_composer, save_composer
from trainer.rollouts import Version, draw_tasks
from trainer.round_config import RoundConfig
from trainer.student import student_digest

SUCCESS = 1.0
Told = Callable[[str], None]
"""Receives one line about what is going on."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a comparison works."""

    folder: Path
    model: Path
    embedder: Embedder

    def bank(self, run: Run) -> Bank:
        """The bank of the run's suite, filled first if need be."""
        folder = self.folder / "banks" / f"{run.suite.replace(':', '-')}-{run.size.bank_rollouts}"
        environment = open_suite(run.suite)
        fill(folder, environment, self.model, run.config, run.size.bank_rollouts)
        return opened(folder, environment, self.embedder)


@dataclass(slots=True)
class Track:
    """How far a run is."""

    step: int = 0
    rollouts: int = 0
    seconds: float = 0.0
    curve: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, float]] = field(default_factory=list)
    error: str | None = None


@dataclass(frozen=True)
class Shop:
    """The part of a workshop that a pupil needs."""

    model: Path
    environment: Environment


def result_of(place: Place, run: Run, told: Told) -> dict[str, Any]:
    """The finished run as plain JSON values; made now unless its file is there."""
    path = place.folder / "runs" / f"{run.key}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    bank = place.bank(run)
    track = _Walk(place, run, bank, told).to_end()
    found = {
        "label": run.arm.label,
        "method": run.arm.method,
        "note": run.arm.note,
        "phase": run.phase,
        "suite": run.suite,
        "seed": run.seed,
        "learning_rate": run.rate,
        "bank": {"rollouts": bank.rollouts, "experiences": len(bank.snapshot)},
        "seconds": track.seconds,
        "error": track.error,
        "curve": track.curve,
        "steps": track.steps,
    }
    replace_file(path, lambda temporary: temporary.write_text(json.dumps(found)))
    _state_path(place, run).unlink(missing_ok=True)
    return found


class _Walk:
    """A run in progress."""

    def __init__(self, place: Place, run: Run, bank: Bank, told: Told) -> None:
        self._place, self._run, self._bank, self._told = place, run, bank, told
        self._environment = open_suite(run.suite)
        self._library = Library(
            bank.snapshot,
            place.embedder,
            run.config.references,
            bank.episodes,
            self_retrieval=run.arm.self_retrieval,
        )

    def to_end(self) -> Track:
        """Every step that is left; a learning error ends the run and stays on its record."""
        config = self._run.config
        shop = Shop(self._place.model, self._environment)
        with Pupil(shop, config, self._library) as pupil:
            track = self._load(pupil) or Track()
            try:
                self._begin(pupil, track)
                self._library.prepare(t for s in range(config.steps) for t in draw_tasks(self._environment, config, s))
                while track.step < config.steps:
                    self._step(pupil, track)
            except LearningError as error:
                track.error = f"{type(error).__name__}: {error}"
                self._told(f"{self._run.key}: stopped, {track.error}")
        return track

    def _begin(self, pupil: Pupil, track: Track) -> None:
        if track.curve:
            return
        if pupil.composing is not None:
            self._start_composer(pupil, pupil.composing)
        self._look(pupil, track)
        self._save(pupil, track)

    def _start_composer(self, pupil: Pupil, lopd: Lopd) -> None:
        """φ0 depends on the bank and on the composer's settings only: arms of one shape share it."""
        key = self._composer_key(pupil.config)
        path = self._place.folder / "composers" / hashlib.sha256(key.encode()).hexdigest()[:16]
        known = load_composer(path, key)
        if known is not None:
            lopd.load_composer(known)
            return
        shipped = shipped_composer(composer_key(pupil.backbone, pupil.config.lopd.composer))
        if shipped is not None and not self._run.arm.fresh:
            lopd.equipment.composer.load(shipped)
        self._told(f"{self._run.key}: cold start, {pupil.config.cold_start.steps} steps")
        if not pupil.cold_start(lopd, self._bank.episodes, lambda *_: None):
            raise LearningError(f"a bank of {len(self._bank.snapshot)} is too small for {lopd.references} references")
        save_composer(path, key, lopd.composer_state())

    def _composer_key(self, config: RoundConfig) -> str:
        said = [
            self._bank.snapshot.digest,
            self._run.seed,
            self._run.arm.self_retrieval,
            self._run.arm.fresh,
            config.cold_start.model_dump(),
        ]
        return json.dumps([*said, config.lopd.composer.model_dump(), config.lopd.normalisation])

    def _step(self, pupil: Pupil, track: Track) -> None:
        began = time.monotonic()
        taken = pupil.step((self._run.key, track.step), (), self._bank.episodes if pupil.config.replays else ())
        found = rollout_metrics(taken.used, taken.fresh.faults, SUCCESS) | taken.figures
        track.step += 1
        track.rollouts += len(taken.fresh.episodes) + taken.fresh.faults
        track.steps.append({"rollouts": track.rollouts, **found})
        track.seconds += time.monotonic() - began
        if track.step % self._run.size.evaluate_every == 0 or track.step == pupil.config.steps:
            self._look(pupil, track)
        self._save(pupil, track)

    def _look(self, pupil: Pupil, track: Track) -> None:
        config = pupil.config
        version = Version(f"{self._run.key}-look", student_digest(pupil.backbone.model))
        pupil.adopt(version)
        point = {"rollouts": track.rollouts, **self._seen(pupil, pupil.engine, version)}
        pupil.engine.retire(version.name)
        if pupil.composing is not None:
            point |= self._teacher(pupil, pupil.composing)
        track.curve.append(point)
        self._told(
            f"{self._run.key}: {track.step}/{config.steps} steps, {track.rollouts} rollouts, "
            f"held-out reward {point['reward']:.3f}, success {point['success']:.3f}"
        )

    def _teacher(self, pupil: Pupil, lopd: Lopd) -> dict[str, float]:
        """Held-out figures of the base with the latents of now."""
        engine = Teacher(pupil.backbone, lopd, self._library)
        found = self._seen(pupil, engine, Version(TEACHER, DIGEST))
        self._told(
            f"{self._run.key}: teacher with latents, reward {found['reward']:.3f}, success {found['success']:.3f}"
        )
        return {f"teacher_{name}": found[name] for name in ("reward", "success")}

    def _seen(self, pupil: Pupil, engine: Engine, version: Version) -> dict[str, float]:
        """Held-out figures of one policy."""
        config = pupil.config
        bench = Bench(engine, self._environment, config.gate, config.limits, SUCCESS, config.parallel)
        seen = pupil.wait(evaluate(bench, version))
        rewards = np.nan_to_num(seen.rewards)
        figures = {"reward": float(rewards.mean()), "success": float((rewards >= SUCCESS).mean())}
        return figures | behaviour(seen.episodes)

    def _save(self, pupil: Pupil, track: Track) -> None:
        state = {
            "track": {name: getattr(track, name) for name in Track.__slots__},
            "method": pupil.method.state(),
        }
        replace_file(_state_path(self._place, self._run), lambda path: torch.save(state, path))

    def _load(self, pupil: Pupil) -> Track | None:
        path = _state_path(self._place, self._run)
        if not path.exists():
            return None
        state = torch.load(path, weights_only=True)
        pupil.method.restore(state["method"])
        return Track(**state["track"])


def _state_path(place: Place, run: Run) -> Path:
    return place.folder / "states" / f"{run.key}.pt"
