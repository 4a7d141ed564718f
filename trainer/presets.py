"""Settings that were tried, by model size."""

from __future__ import annotations

from typing import TypeVar

from trainer.config import ColdStartConfig, ComposerConfig, LopdConfig, StudentConfig
from trainer.method_config import StudentMethodConfig, TextTeacherConfig

C = TypeVar("C", bound=StudentMethodConfig)

PAPER = LopdConfig()
"""Qwen3-4B on EnvScaler (§4.1), with a LoRA student."""

TINY = LopdConfig(
    composer=ComposerConfig(references=3, queries=8, reads="states+embeddings", encoder_tokens=4096),
    student=StudentConfig(rank=16, alpha=32.0, learning_rate=2e-3),
    composer_learning_rate=1e-5,
    beta=1.0,
    micro_tokens=4096,
)
"""The shipped 0.9M-weight model. lr_φ far below the student's: a tenth of it let the teacher drift in the pilots."""

TINY_COLD_START = ColdStartConfig(steps=120, batch=16, learning_rate=1e-3)
"""From the shipped composer, about 45 seconds of one core: README, experiment log."""


def tiny(kind: type[C]) -> C:
    """A method's settings for the shipped model: LOPD's student, and a teacher that reads what the base was pre-trained on.

    The bank holds a success of few tasks only, so a teacher falls back on the best match of another task.
    """
    passes = {"student": TINY.student, "micro_tokens": TINY.micro_tokens}
    if issubclass(kind, TextTeacherConfig):
        fallback = {"own": "own_or_retrieved"}
        evidence = kind().evidence
        return kind.model_validate({**passes, "wording": "framing", "evidence": fallback.get(evidence, evidence)})
    return kind.model_validate(passes)
