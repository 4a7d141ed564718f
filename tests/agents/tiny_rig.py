"""A random-weight base in a folder, students on it, and published adapters of them."""

import shutil
from pathlib import Path

import torch
from peft import LoraConfig
from safetensors.torch import save_file
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from agents.adapter import CONFIG, MANIFEST, PROJECTIONS, WEIGHTS, AdapterRef, Manifest, Probe, file_digest
from agents.model_folder import SHIPPED
from agents.transformers_engine.backbone import Backbone

RANK = 4


def write_base(folder: Path, seed: int = 0, **config: object) -> Path:
    """A two-layer Qwen3 with the shipped tokenizer; weights wide enough that greedy replies differ."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(SHIPPED / "tiny" / name, folder / name)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    shape = {
        "vocab_size": len(tokenizer),
        "hidden_size": 48,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "initializer_range": 0.15,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
    }
    torch.manual_seed(seed)
    Qwen3ForCausalLM(Qwen3Config(**{**shape, **config})).save_pretrained(folder)
    return folder


def add_student(backbone: Backbone, name: str, seed: int, rank: int = RANK) -> None:
    """An adapter with random weights, B included."""
    backbone.model.add_adapter(name, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=list(PROJECTIONS)))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, weight in backbone.model.named_parameters():
            if f".{name}." in key:
                weight.normal_(std=0.3, generator=generator)


def publish(backbone: Backbone, folder: Path, seed: int, **changes: object) -> AdapterRef:
    """A published folder with random weights; `changes` are made to the manifest."""
    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for key, weight in backbone.model.state_dict().items():
        if ".placeholder." in key:
            size = [RANK if length == 1 else length for length in weight.shape]
            tensors[key.replace(".placeholder.", ".")] = torch.empty(size).normal_(std=0.3, generator=generator)
    save_file(tensors, folder / WEIGHTS)
    LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=list(PROJECTIONS), inference_mode=True).save_pretrained(
        folder
    )
    return seal(backbone, folder, **changes)


def seal(backbone: Backbone, folder: Path, **changes: object) -> AdapterRef:
    """Write the manifest over whatever the folder holds."""
    fields = {
        "round_id": "rd_0",
        "parent": "base",
        "base_digest": backbone.base_digest,
        "template_digest": backbone.template_digest,
        "rank": RANK,
        "alpha": 2.0 * RANK,
        "target_modules": PROJECTIONS,
        "files": {name: file_digest(folder / name) for name in (CONFIG, WEIGHTS)},
        "probe": Probe(task_id="", prompt_ids=(), sampled_ids=(), logprobs=(), base_logprobs=()),
        "method": "test",
        "seed": 0,
    }
    manifest = Manifest(**{**fields, **changes})
    (folder / MANIFEST).write_text(manifest.model_dump_json())
    return AdapterRef(folder.name, file_digest(folder / MANIFEST), folder)
