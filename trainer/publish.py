"""Publishing: candidate weights become an immutable folder that is either whole or not there.

Written to a temporary folder beside the final one, every file and folder flushed, then renamed. The
name contains the manifest's hash, so publishing the same candidate again finds the folder it would
have made. Torch-free: weights arrive as bytes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.adapter import CONFIG, MANIFEST, WEIGHTS, AdapterRef, Manifest, Probe, read_manifest
from trainer.durable import flush

DIGEST_CHARACTERS = 12
READ_ONLY_FILE = 0o444
READ_ONLY_FOLDER = 0o555
WRITABLE_FOLDER = 0o755


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a candidate came from."""

    round_id: str
    parent: str
    base_digest: str
    template_digest: str
    method: str
    seed: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is to be published."""

    lineage: Lineage
    weights: bytes
    """The adapter in safetensors format."""
    adapter_config: Mapping[str, Any]
    """PEFT's LoraConfig as plain JSON values."""
    probe: Probe

    @property
    def files(self) -> dict[str, bytes]:
        """File name to content, every file but the manifest."""
        config = json.dumps(self.adapter_config, indent=1, sort_keys=True)
        return {CONFIG: f"{config}\n".encode(), WEIGHTS: self.weights}

    @property
    def manifest(self) -> bytes:
        """manifest.json: equal candidates give equal bytes."""
        manifest = Manifest(
            round_id=self.lineage.round_id,
            parent=self.lineage.parent,
            base_digest=self.lineage.base_digest,
            template_digest=self.lineage.template_digest,
            rank=self.adapter_config["r"],
            alpha=self.adapter_config["lora_alpha"],
            target_modules=tuple(sorted(self.adapter_config["target_modules"])),
            files={name: hashlib.sha256(content).hexdigest() for name, content in self.files.items()},
            probe=self.probe,
            method=self.lineage.method,
            seed=self.lineage.seed,
        )
        return f"{manifest.model_dump_json(indent=1)}\n".encode()


def publish(root: Path, candidate: Candidate, permit: Callable[[], None] = lambda: None) -> AdapterRef:
    """The published folder under `root`. Idempotent; may be killed anywhere and called again.

    `permit` is asked when all is written, right before the folder becomes visible: what it raises leaves nothing behind
    that anybody sees. Raises `agents.adapter.AdapterRefused` when a folder of that name exists and is not this candidate.
    """
    root.mkdir(parents=True, exist_ok=True)
    sweep(root, candidate.lineage.round_id)
    digest = hashlib.sha256(candidate.manifest).hexdigest()
    name = f"student-{candidate.lineage.round_id}-{digest[:DIGEST_CHARACTERS]}"
    ref = AdapterRef(name, digest, root / name)
    if not ref.path.exists():
        _write(
            root / f"{_temporary(candidate.lineage.round_id)}{digest[:DIGEST_CHARACTERS]}", ref.path, candidate, permit
        )
    read_manifest(ref)
    ref.path.chmod(READ_ONLY_FOLDER)
    return ref


def sweep(root: Path, round_id: str) -> None:
    """Remove what killed attempts of this round left half-written; other rounds may be at work."""
    for leftover in root.glob(f"{_temporary(round_id)}*"):
        shutil.rmtree(leftover)


def _temporary(round_id: str) -> str:
    return f".{round_id}-unfinished-"


def _write(temporary: Path, final: Path, candidate: Candidate, permit: Callable[[], None]) -> None:
    temporary.mkdir(mode=WRITABLE_FOLDER)
    for name, content in {**candidate.files, MANIFEST: candidate.manifest}.items():
        _write_file(temporary / name, content)
    flush(temporary)
    permit()
    temporary.rename(final)
    flush(final.parent)


def _write_file(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    flush(path)
    path.chmod(READ_ONLY_FILE)
