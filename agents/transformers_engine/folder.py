"""Reading a published adapter folder: everything is verified before a byte reaches the model."""

from __future__ import annotations

import json
from typing import Any

import torch
from peft import LoraConfig
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file

from agents.adapter import CONFIG, WEIGHTS, AdapterRef, AdapterRefused, Manifest, read_manifest
from agents.engine import LoadRefused
from agents.transformers_engine.backbone import PROJECTIONS, Backbone

MAX_RANK = 256
"""Largest LoRA rank served."""

_FREE = {"base_model_name_or_path", "inference_mode", "peft_version", "revision", "task_type"}
"""Fields of adapter_config.json that change nothing in what is computed."""
_TOLD = {"r", "lora_alpha", "target_modules", "peft_type"}


def read_adapter(ref: AdapterRef, backbone: Backbone) -> tuple[LoraConfig, dict[str, torch.Tensor]]:
    """Configuration and weights of a folder made for this base. Raises `LoadRefused` with the reason."""
    try:
        manifest = read_manifest(ref)
        told = json.loads((ref.path / CONFIG).read_bytes())
        tensors = load_file(ref.path / WEIGHTS)
    except (AdapterRefused, ValidationError, OSError, ValueError, SafetensorError) as error:
        raise LoadRefused(f"{ref.name}: {error}") from error
    fault = _foreign(manifest, backbone) or _outside(manifest) or _unlike(told, manifest) or _not_finite(tensors)
    if fault:
        raise LoadRefused(f"{ref.name}: {fault}")
    return lora_config(manifest), tensors


def lora_config(manifest: Manifest) -> LoraConfig:
    """Plain LoRA as the manifest says."""
    return LoraConfig(
        r=manifest.rank,
        lora_alpha=manifest.alpha,
        target_modules=sorted(manifest.target_modules),
        inference_mode=True,
    )


def _foreign(manifest: Manifest, backbone: Backbone) -> str | None:
    if manifest.base_digest != backbone.base_digest:
        return f"made for base {manifest.base_digest[:12]}, this is {backbone.base_digest[:12]}"
    if manifest.template_digest != backbone.template_digest:
        return f"made for tokenizer and template {manifest.template_digest[:12]}, not {backbone.template_digest[:12]}"
    return None


def _outside(manifest: Manifest) -> str | None:
    foreign = sorted(set(manifest.target_modules) - set(PROJECTIONS))
    if foreign or not manifest.target_modules:
        return f"target modules {foreign or 'none'} are not among {', '.join(PROJECTIONS)}"
    if not 1 <= manifest.rank <= MAX_RANK:
        return f"rank {manifest.rank} is not in 1..{MAX_RANK}"
    return None


def _unlike(told: dict[str, Any], manifest: Manifest) -> str | None:
    plain = json.loads(json.dumps(lora_config(manifest).to_dict(), default=sorted))
    if not isinstance(told, dict) or not isinstance(told.get("target_modules"), list):
        return f"{CONFIG} is no LoRA configuration"
    same = {key: told.get(key) == plain[key] for key in _TOLD - {"target_modules"}}
    same["target_modules"] = sorted(told["target_modules"]) == sorted(plain["target_modules"])
    for key in told.keys() - _FREE - _TOLD:
        same[key] = told[key] == plain.get(key) or not told[key]
    wrong = sorted(key for key, agrees in same.items() if not agrees)
    return f"{CONFIG} says otherwise than the manifest or than plain LoRA: {', '.join(wrong)}" if wrong else None


def _not_finite(tensors: dict[str, torch.Tensor]) -> str | None:
    bad = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    return f"weights are not finite: {bad[0]}" if bad else None
