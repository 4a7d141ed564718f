"""Backbone: the frozen base model that students, encoder and teacher share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from agents.adapter import PROJECTIONS
from agents.model_folder import template_digest_of, weights_digest
from agents.transformers_engine.attention import GROUPED, register_grouped

PLACEHOLDER = "placeholder"
"""PEFT can't wrap a model without an adapter: this one is rank 1, zero, frozen and never served."""


@dataclass(frozen=True, slots=True)
class Backbone:
    """One base model in memory, with its identity."""

    model: PeftModel
    """In evaluation mode; base weights don't require gradients. Trainers add their adapters here."""
    tokenizer: PreTrainedTokenizerBase
    base_digest: str
    """sha256 over the weight files (names and contents, in name order)."""
    template_digest: str
    """sha256 over tokenizer.json followed by the chat template."""
    path: Path


def load_backbone(
    path: Path, threads: int | None = None, *, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> Backbone:
    """The base in `path`, from safetensors on this disk only. Adapters that are added to it are fp32 whatever its own dtype.

    `threads` bounds torch's threads of the whole process; None leaves them. Raises `FileNotFoundError` when weights, tokenizer
    or chat template are missing.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    base_digest, template_digest = weights_digest(path), template_digest_of(path)
    register_grouped()
    disable_progress_bar()
    base = AutoModelForCausalLM.from_pretrained(
        path, local_files_only=True, use_safetensors=True, dtype=dtype, attn_implementation=GROUPED
    ).to(device)
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    return Backbone(wrap(base), tokenizer, base_digest, template_digest, path)


def wrap(base: torch.nn.Module) -> PeftModel:
    """`base` frozen behind PEFT; the result computes exactly what `base` did until an adapter is added and set."""
    config = LoraConfig(r=1, lora_alpha=1, target_modules=list(PROJECTIONS), inference_mode=True)
    model = get_peft_model(base, config, adapter_name=PLACEHOLDER)
    return model.requires_grad_(requires_grad=False).eval()
