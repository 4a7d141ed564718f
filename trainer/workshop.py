"""Workshop: what every round of this installation works with. Built once, by `trainer.worker` or a test."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from agents.environment import Environment
from bank.embedding.embedder import Embedder
from bank.index.index import ExperienceIndex
from bank.ledger.ledger import Ledger
from trainer.progress import Reporter
from trainer.settings import Settings


@dataclass(frozen=True)
class Workshop:
    """Shared parts, and where files go."""

    settings: Settings
    ledger: Ledger
    open_index: Callable[[], AbstractContextManager[ExperienceIndex]]
    """A local index has one user at a time: open it for as long as it is needed."""
    embedder: Embedder
    environment: Environment
    model: Path
    """Folder of the base model; loaded anew for every round, so that no adapter of one lives in the next."""
    reporter: Reporter
    stopping: Callable[[], bool]
    """Whether this process was asked to end."""

    @property
    def adapters(self) -> Path:
        """Published folders, immutable."""
        return self.settings.data / "adapters"

    @property
    def composer(self) -> Path:
        """φ of the latest completed round."""
        return self.settings.data / "composer" / "latest"

    def folder(self, round_id: str) -> Path:
        """Resume state, gate report and picture of one round."""
        return self.settings.data / "rounds" / round_id
