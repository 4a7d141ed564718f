"""Adapter identity: the immutable folder that the trainer publishes and the engine loads.

A folder holds exactly `adapter_config.json`, `adapter_model.safetensors` and `manifest.json`.
Its name is `student-<round>-<first 12 of the manifest's sha256>` and is never reused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

MANIFEST = "manifest.json"
WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Modules that an adapter may change. lm_head and embeddings are not among them: vLLM leaves their LoRA out of its scores."""


class AdapterRefused(Exception):
    """The folder is not what its manifest says, or does not belong to this base."""


class Probe(BaseModel):
    """The trainer's own greedy answer to a fixed prompt, to be matched after every load."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_id: str
    """Train task whose opening is the prompt."""
    prompt_ids: tuple[int, ...]
    sampled_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    base_logprobs: tuple[float, ...]
    """The base model's log-probs of the same tokens: a loaded adapter must not reproduce these."""


class Manifest(BaseModel):
    """What the folder is and where it came from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1
    round_id: str
    parent: str
    base_digest: str
    """sha256 of the base model's weights."""
    template_digest: str
    """sha256 of tokenizer.json and chat template together."""
    rank: int
    alpha: float
    target_modules: tuple[str, ...]
    files: dict[str, str]
    """File name to sha256, every file but the manifest."""
    probe: Probe
    method: str
    seed: int


@dataclass(frozen=True, slots=True)
class AdapterRef:
    """A published version."""

    name: str
    digest: str
    """sha256 of manifest.json."""
    path: Path


def file_digest(path: Path) -> str:
    """sha256 of a file, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(ref: AdapterRef) -> Manifest:
    """The verified manifest of a published folder. Raises `AdapterRefused` when any byte differs."""
    names = sorted(entry.name for entry in ref.path.iterdir()) if ref.path.is_dir() else []
    if names != sorted((CONFIG, WEIGHTS, MANIFEST)):
        raise AdapterRefused(f"{ref.name}: expected exactly {CONFIG}, {WEIGHTS} and {MANIFEST}, found {names}")
    if file_digest(ref.path / MANIFEST) != ref.digest:
        raise AdapterRefused(f"{ref.name}: {MANIFEST} does not match the registered digest")
    manifest = Manifest.model_validate_json((ref.path / MANIFEST).read_bytes())
    for name, digest in manifest.files.items():
        if file_digest(ref.path / name) != digest:
            raise AdapterRefused(f"{ref.name}: {name} does not match its manifest")
    return manifest
