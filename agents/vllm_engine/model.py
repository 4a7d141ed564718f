"""ServedModel: the base that a server must be serving, as its folder on this disk says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from agents.admission import BaseIdentity, base_identity
from agents.chat_template import ChatTemplate


@dataclass(frozen=True, slots=True)
class ServedModel:
    """Everything a client needs to talk to it in tokens."""

    identity: BaseIdentity
    template: ChatTemplate
    ends: frozenset[int]
    """Tokens that end a reply."""
    max_rank: int
    """Largest LoRA rank that the server has room for."""


def read_model(folder: Path, max_rank: int) -> ServedModel:
    """The model in `folder`. Hashes its weights. Raises `FileNotFoundError`."""
    template = ChatTemplate(folder)
    return ServedModel(base_identity(folder), template, _ends(folder, template), max_rank)


def _ends(folder: Path, template: ChatTemplate) -> frozenset[int]:
    """The generation config's, and the tokenizer's."""
    path = folder / "generation_config.json"
    told = json.loads(path.read_bytes()).get("eos_token_id") if path.is_file() else None
    listed = [told] if isinstance(told, int) else list(told or ())
    return frozenset([*listed, *([] if template.end_id is None else [template.end_id])])
