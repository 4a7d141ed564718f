"""The student's adapter as bytes: what is published, and what identifies the version of a step."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import save

from trainer.roles import STUDENT


def student_weights(model: PeftModel) -> bytes:
    """The student's LoRA weights in safetensors format; equal weights give equal bytes."""
    tensors = get_peft_model_state_dict(model, adapter_name=STUDENT, save_embedding_layers=False)
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(plain, metadata={"format": "pt"})


def student_config(model: PeftModel) -> dict[str, Any]:
    """PEFT's adapter_config.json, without anything that names this machine."""
    config = {**model.peft_config[STUDENT].to_dict(), "base_model_name_or_path": None, "inference_mode": True}
    plain: dict[str, Any] = json.loads(json.dumps(config, default=sorted))
    return plain


def student_digest(model: PeftModel) -> str:
    """sha256 of the weights, hex."""
    return hashlib.sha256(student_weights(model)).hexdigest()
