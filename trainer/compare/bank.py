"""The bank of a comparison: successes of the base's own rollouts on train tasks, made once for each suite."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from agents.environment import Environment
from agents.loop import Run
from agents.transformers_engine.backbone import load_backbone
from agents.transformers_engine.engine import TransformersEngine
from bank.checkpoint import BASE
from bank.embedding.embedder import Embedder
from bank.episode import Episode, Split
from bank.index.memory import MemoryIndex
from bank.ledger.ledger import Ledger
from bank.relay import rebuild
from bank.remember import remember
from bank.snapshot import Snapshot, freeze
from trainer.references import lived
from trainer.rollouts import play
from trainer.round_config import RoundConfig
from trainer.seeds import derive_seed

SUCCESS = 1.0
LEDGER = "ledger.sqlite3"


@dataclass(frozen=True, slots=True)
class Bank:
    """What every run of a suite starts from."""

    snapshot: Snapshot
    episodes: tuple[Episode, ...]
    """Those behind the experiences."""
    rollouts: int
    """What it cost."""


def fill(folder: Path, environment: Environment, model: Path, config: RoundConfig, rollouts: int) -> None:
    """Play the base on train tasks until `rollouts` are in the folder's ledger; goes on where it was stopped."""
    with _open(folder) as ledger:
        with ledger.read() as books:
            done = books.episodes.count()
        if done < rollouts:
            asyncio.run(_play(ledger, environment, model, config, range(done, rollouts)))


async def _play(ledger: Ledger, environment: Environment, model: Path, config: RoundConfig, which: range) -> None:
    backbone = load_backbone(model)
    engine = TransformersEngine(backbone, max_batch=config.parallel)
    tasks = environment.tasks(Split.TRAIN)

    def run(index: int) -> Run:
        sampling = replace(config.sampling, seed=derive_seed("bank", environment.name, index))
        task, name = tasks[index % len(tasks)], f"base-{index:06d}"
        return Run(name, task, BASE, backbone.base_digest, config.limits, sampling)

    for start in range(which.start, which.stop, config.parallel):
        runs = [run(index) for index in range(start, min(start + config.parallel, which.stop))]
        _store(ledger, await play(engine, environment, runs, config.parallel))
    await engine.close()


def opened(folder: Path, environment: Environment, embedder: Embedder) -> Bank:
    """The filled bank."""
    with _open(folder) as ledger:
        index = MemoryIndex(embedder.dimension)
        rebuild(ledger, index, embedder)
        snapshot = freeze(ledger, index)
        with ledger.read() as books:
            rollouts = books.episodes.count()
        return Bank(snapshot, tuple(lived(ledger, snapshot, environment.name)), rollouts)


def _store(ledger: Ledger, episodes: tuple[Episode, ...]) -> None:
    with ledger.write() as books:
        for episode in episodes:
            books.episodes.add(episode)
            if episode.reward is not None:
                remember(books, episode, episode.reward, SUCCESS, datetime.now(UTC))


@contextmanager
def _open(folder: Path) -> Iterator[Ledger]:
    folder.mkdir(parents=True, exist_ok=True)
    with closing(Ledger.open(f"sqlite:///{folder / LEDGER}")) as ledger:
        yield ledger
