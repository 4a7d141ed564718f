"""Admission: what an adapter folder must be before any engine is asked to load it. Torch-free, reads no weight into a model.

safetensors only, exactly the known file names, hashes as the manifest says, plain LoRA on the allowed projections of this very
base, tokenizer and template included, of a rank and size that the engines have room for, every number finite.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from agents.adapter import (
    CONFIG,
    MANIFEST,
    PROJECTIONS,
    WEIGHTS,
    AdapterRef,
    AdapterRefused,
    Manifest,
    file_digest,
    read_manifest,
)
from agents.model_folder import template_digest_of, weights_digest
from agents.safetensors_header import Header, Tensor, read_header

NAME = re.compile(r"student-[A-Za-z0-9_.-]{1,80}-[0-9a-f]{12}")
LARGEST_BYTES = 2 * 2**30
LONGEST_TEXT = 1024 * 1024
"""Bytes of the manifest and of the configuration."""

_TOLD = {"r", "lora_alpha", "target_modules", "peft_type", "bias"}
_FREE = {
    "base_model_name_or_path", "inference_mode", "peft_version", "revision", "task_type",
    "megatron_core", "qalora_group_size", "init_lora_weights",
}  # fmt: skip
"""Fields of adapter_config.json that change nothing in what is computed from finished weights."""
_PREFIX, _A, _B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
BF16_EXPONENT = 0x7F80
"""All ones in infinities and NaNs."""
_FLOATS = {"F32": np.float32, "F16": np.float16}


@dataclass(frozen=True, slots=True)
class BaseIdentity:
    """The base model that adapters must have been made for."""

    base_digest: str
    template_digest: str
    shapes: Mapping[str, tuple[int, ...]]
    """Of its weights, by name."""


def base_identity(folder: Path) -> BaseIdentity:
    """Of the model in `folder`. Raises `FileNotFoundError`."""
    return BaseIdentity(weights_digest(folder), template_digest_of(folder), base_shapes(folder))


def base_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shape of every weight of a base model, from the headers of its files."""
    headers = [read_header(file) for file in sorted(folder.glob("*.safetensors"))]
    return {name: tensor.shape for header in headers for name, tensor in header.tensors.items()}


def claim(folder: Path) -> AdapterRef:
    """What the folder says it is: its name, and the hash of its manifest. Raises `AdapterRefused`."""
    if not NAME.fullmatch(folder.name):
        raise AdapterRefused(f"{folder.name[:120]!r} is no name of an adapter: student-<round>-<12 hex digits>")
    if not folder.is_dir():
        raise AdapterRefused(f"{folder.name}: there is no such folder")
    _require_files(folder)
    digest = file_digest(folder / MANIFEST)
    if not folder.name.endswith(digest[:12]):
        raise AdapterRefused(f"{folder.name}: the name is not that of a manifest with hash {digest[:12]}")
    return AdapterRef(folder.name, digest, folder)


def admit(ref: AdapterRef, base: BaseIdentity, max_rank: int) -> Manifest:
    """The manifest of a folder that may be loaded. Raises `AdapterRefused` with the reason."""
    try:
        _require_files(ref.path)
        manifest = read_manifest(ref)
        told = json.loads((ref.path / CONFIG).read_bytes())
        header = read_header(ref.path / WEIGHTS)
        reasons = _reasons(manifest, told, header, base, max_rank)
        reason = next(reasons, None) or _not_finite(header)
    except AdapterRefused:
        raise
    except ValidationError as error:
        raise AdapterRefused(f"{ref.name}: {MANIFEST} can't be read: {error.errors()[0]['msg']}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise AdapterRefused(f"{ref.name}: the folder can't be read: {error}") from error
    if reason:
        raise AdapterRefused(f"{ref.name}: {reason}")
    return manifest


def _require_files(folder: Path) -> None:
    """Known names only, plain files, of bearable size; before anything is read."""
    found = {entry.name: entry for entry in folder.iterdir()} if folder.is_dir() else {}
    if found.keys() != {CONFIG, WEIGHTS, MANIFEST}:
        raise AdapterRefused(
            f"{folder.name}: expected exactly {CONFIG}, {WEIGHTS} and {MANIFEST}, found {sorted(found)[:8]}"
        )
    for name, entry in found.items():
        limit = LARGEST_BYTES if name == WEIGHTS else LONGEST_TEXT
        if entry.is_symlink() or not entry.is_file() or entry.stat().st_size > limit:
            raise AdapterRefused(f"{folder.name}: {name} is no plain file of at most {limit} bytes")


def _reasons(manifest: Manifest, told: Any, header: Header, base: BaseIdentity, max_rank: int) -> Iterator[str]:
    if set(manifest.files) != {CONFIG, WEIGHTS}:
        yield f"{MANIFEST} must give the hashes of {CONFIG} and {WEIGHTS}, nothing else"
    if manifest.base_digest != base.base_digest:
        yield f"made for base {manifest.base_digest[:12]}, this is {base.base_digest[:12]}"
    if manifest.template_digest != base.template_digest:
        yield f"made for another tokenizer and template ({manifest.template_digest[:12]})"
    foreign = sorted(set(manifest.target_modules) - set(PROJECTIONS))
    if foreign or not manifest.target_modules:
        yield f"target modules {foreign or 'none'} are not among {', '.join(PROJECTIONS)}"
    if not 1 <= manifest.rank <= max_rank:
        yield f"rank {manifest.rank} is not in 1..{max_rank}"
    yield from _unlike(told, manifest)
    yield from _misfits(header, manifest, base)


def _unlike(told: Any, manifest: Manifest) -> Iterator[str]:
    """Configuration that is not plain LoRA, or other than the manifest's: DoRA, rsLoRA, modules_to_save, patterns, bias."""
    if not isinstance(told, dict) or not isinstance(told.get("target_modules"), list):
        yield f"{CONFIG} is no LoRA configuration"
        return
    wanted = {"r": manifest.rank, "lora_alpha": manifest.alpha, "peft_type": "LORA"}
    wrong = [key for key, value in wanted.items() if told.get(key) != value]
    wrong += [] if sorted(map(str, told["target_modules"])) == sorted(manifest.target_modules) else ["target_modules"]
    wrong += [] if told.get("bias", "none") == "none" else ["bias"]
    wrong += [key for key in told.keys() - _TOLD - _FREE if told[key]]
    if told.get("init_lora_weights") not in (True, False, None, "gaussian"):
        wrong.append("init_lora_weights")
    if wrong:
        yield f"{CONFIG} says otherwise than the manifest or than plain LoRA: {', '.join(sorted(wrong))}"


def _misfits(header: Header, manifest: Manifest, base: BaseIdentity) -> Iterator[str]:
    """Exactly the pairs A, B of every target module of the base, in the base's shapes."""
    wanted: dict[str, tuple[int, ...]] = {}
    for name, shape in base.shapes.items():
        module = name.removesuffix(".weight")
        if module.rpartition(".")[2] in manifest.target_modules:
            wanted[f"{_PREFIX}{module}{_A}"] = (manifest.rank, shape[1])
            wanted[f"{_PREFIX}{module}{_B}"] = (shape[0], manifest.rank)
    missing, unexpected = sorted(wanted.keys() - header.tensors), sorted(header.tensors.keys() - wanted)
    if missing or unexpected:
        yield f"missing weights {missing[:3]}, unexpected weights {unexpected[:3]}"
    misfits = [name for name, shape in wanted.items() if name in header.tensors and header.tensors[name].shape != shape]
    if misfits:
        yield f"weights do not fit this base: {misfits[:3]}"
    unread = sorted({tensor.dtype for tensor in header.tensors.values()} - {*_FLOATS, "BF16"})
    if unread:
        yield f"weights are {', '.join(unread)}, not F32, F16 or BF16"


def _not_finite(header: Header) -> str | None:
    bad = next((name for name, tensor in header.tensors.items() if not _finite(header.path, tensor)), None)
    return None if bad is None else f"weights are not finite: {bad}"


def _finite(path: Path, tensor: Tensor) -> bool:
    if tensor.dtype == "BF16":
        bits = np.memmap(path, np.uint16, "r", tensor.start, (tensor.count,))
        return bool(((bits & BF16_EXPONENT) != BF16_EXPONENT).all())
    return bool(np.isfinite(np.memmap(path, _FLOATS[tensor.dtype], "r", tensor.start, (tensor.count,))).all())
