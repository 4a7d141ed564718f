"""Reading a published adapter folder: everything is verified before a byte reaches the model."""

from __future__ import annotations

import torch
from peft import LoraConfig
from safetensors import SafetensorError
from safetensors.torch import load_file

from agents.adapter import WEIGHTS, AdapterRef, AdapterRefused, Manifest
from agents.admission import BaseIdentity, admit, base_shapes
from agents.engine import LoadRefused
from agents.transformers_engine.backbone import Backbone

MAX_RANK = 256
"""Largest LoRA rank served."""


def read_adapter(ref: AdapterRef, backbone: Backbone) -> tuple[LoraConfig, dict[str, torch.Tensor]]:
    """Configuration and weights of a folder made for this base. Raises `LoadRefused` with the reason."""
    identity = BaseIdentity(backbone.base_digest, backbone.template_digest, base_shapes(backbone.path))
    try:
        manifest = admit(ref, identity, MAX_RANK)
        tensors = load_file(ref.path / WEIGHTS)
    except (AdapterRefused, OSError, SafetensorError) as error:
        raise LoadRefused(str(error)) from error
    return lora_config(manifest), tensors


def lora_config(manifest: Manifest) -> LoraConfig:
    """Plain LoRA as the manifest says."""
    return LoraConfig(
        r=manifest.rank,
        lora_alpha=manifest.alpha,
        target_modules=sorted(manifest.target_modules),
        inference_mode=True,
    )
