"""From a published adapter folder back into the student."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file

from agents.adapter import WEIGHTS
from trainer.roles import STUDENT, Roles


def load_student(roles: Roles, folder: Path) -> None:
    """Overwrite the student. Raises KeyError or ValueError when the folder's shape isn't the configured student's."""
    weights = load_file(folder / WEIGHTS)
    names = roles.parameters(STUDENT)
    roles.load(STUDENT, {name: weights[name.replace(f".{STUDENT}.", ".")] for name in names})
