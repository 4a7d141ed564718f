"""Where a base model lies on disk."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parent / "models"


def model_folder(name: str) -> Path:
    """The folder of a shipped model ("tiny") or of a path. Raises `FileNotFoundError` naming what exists."""
    for folder in (SHIPPED / name, Path(name).expanduser()):
        if (folder / "config.json").is_file() or (folder / "tokenizer.json").is_file():
            return folder.resolve()
    shipped = ", ".join(sorted(folder.name for folder in SHIPPED.iterdir() if folder.is_dir()))
    raise FileNotFoundError(
        f"no model {name!r}: give a folder with config.json, or one of the shipped models: {shipped}"
    )
