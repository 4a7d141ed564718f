"""Resume files: the state of a round after its last completed step, replaced atomically.

One file per round, and one for the composer that the next round continues with. Both are local and
our own; they are still read with `weights_only`, so a planted file can't run code.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trainer.durable import replace_file

FORMAT = 2
STATE = "state.pt"


@dataclass(frozen=True, slots=True)
class Progress:
    """A round after `step` completed steps."""

    step: int
    rollouts: int
    """Rollouts used so far."""
    config: str
    """The round's configuration as JSON: a state is never continued under another one."""
    method: dict[str, Any]
    """`Method.state()`."""


class ResumeRefused(RuntimeError):
    """The file belongs to another format or configuration."""


def save_progress(folder: Path, progress: Progress) -> None:
    """Replace the round's state; a kill at any point leaves the old one or the new one."""
    state = {"format": FORMAT, "step": progress.step, "rollouts": progress.rollouts, "config": progress.config}
    replace_file(folder / STATE, lambda path: torch.save({**state, "method": progress.method}, path))


def load_progress(folder: Path, config: str) -> Progress | None:
    """The last completed step, or None before the first. Raises `ResumeRefused`."""
    path = folder / STATE
    if not path.exists():
        return None
    state = torch.load(path, weights_only=True)
    if state["format"] != FORMAT or state["config"] != config:
        raise ResumeRefused(f"{path} was written with another format or configuration")
    return Progress(state["step"], state["rollouts"], state["config"], state["method"])


def save_composer(path: Path, key: str, composer: dict[str, Any]) -> None:
    """Keep φ for the next round; `key` says what that round must share with this one."""
    state = {"format": FORMAT, "key": key, "composer": composer}
    replace_file(path, lambda temporary: torch.save(state, temporary))


def load_composer(path: Path, key: str) -> dict[str, Any] | None:
    """φ of the previous round, or None when there is none under this key."""
    if not path.exists():
        return None
    state = torch.load(path, weights_only=True)
    if state["format"] != FORMAT or state["key"] != key:
        return None
    composer: dict[str, Any] = state["composer"]
    return composer


def forget_progress(folder: Path) -> None:
    """Free the disk once the round is over."""
    (folder / STATE).unlink(missing_ok=True)
