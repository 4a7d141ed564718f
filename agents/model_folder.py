"""Where a base model lies on disk, and which one it is."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agents.adapter import file_digest

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


def weights_digest(path: Path) -> str:
    """sha256 of the safetensors files of a base model folder. Raises `FileNotFoundError` when there are none."""
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{path.name}: no safetensors weights")
    if len(files) == 1:
        return file_digest(files[0])
    return hashlib.sha256("".join(f"{file.name} {file_digest(file)}\n" for file in files).encode()).hexdigest()


def template_digest_of(path: Path) -> str:
    """sha256 over the bytes of tokenizer.json and chat_template.jinja. Raises `FileNotFoundError` when one is missing."""
    parts = [(path / name).read_bytes() for name in ("tokenizer.json", "chat_template.jinja")]
    return hashlib.sha256(b"".join(parts)).hexdigest()
