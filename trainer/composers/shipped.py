"""Reading and writing shipped composers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from agents.transformers_engine.backbone import Backbone
from trainer.config import ComposerConfig

FOLDER = Path(__file__).parent
PARTS = ("encoder", "compressor")

Weights = dict[str, dict[str, Tensor]]
"""As `Composer.weights()`: part, then parameter."""


def composer_key(backbone: Backbone, config: ComposerConfig) -> str:
    """What a composer must share with whoever goes on with it: the base, the prompts and the shape."""
    return f"{backbone.base_digest} {backbone.template_digest} {config.model_dump_json()}"


def shipped_composer(key: str, folder: Path = FOLDER) -> Weights | None:
    """φ for this key, or None when no file was made for it."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            if (file.metadata() or {}).get("key") == key:
                flat = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a file, not a dict
                return {part: _part(flat, f"{part}/") for part in PARTS}
    return None


def ship_composer(path: Path, key: str, weights: Weights) -> None:
    """Write one file."""
    flat = {f"{part}/{name}": value.contiguous() for part in PARTS for name, value in weights[part].items()}
    save_file(flat, path, metadata={"key": key})


def _part(flat: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in flat.items() if name.startswith(prefix)}
