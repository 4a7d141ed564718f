"""One process of `test_team`: leaves its gradients of one step in a file."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from tests.trainer.conftest import SMALL, TINY, random_backbone, solved_samples
from trainer.lesson import Lesson
from trainer.methods.lopd import Lopd
from trainer.methods.registry import open_method
from trainer.round_config import CONFIGS
from trainer.team import Team, assembled


def steps(team: Team) -> dict[str, Any]:
    """One step of each method."""
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    samples = [
        replace(sample, episode=replace(sample.episode, task_id=f"t{index // 2}"))
        for index, sample in enumerate(solved_samples(tokenizer, 6, 2))
    ]
    found: dict[str, Any] = {}
    lopd = Lopd(random_backbone(tokenizer), SMALL.model_copy(update={"micro_tokens": 200}), 3, team)
    lopd.freeze()
    with lopd.equipment.roles.apart():
        figures = lopd._gradients(samples, student=True, composer=True)
        parts = len(team.share(Lesson.of(lopd.equipment, samples, attached=True).batches))
    weights = [*lopd._student.parameters, *lopd._composer.parameters]
    found["lopd"] = {"figures": figures, "gradients": [w.grad.clone() for w in weights], "parts": parts}
    for name in ("sdpo", "grpo"):
        settings = {"micro_tokens": 150, "student": {"rank": 4, "alpha": 8.0}}
        if name == "sdpo":
            settings |= {"evidence": "retrieved", "wording": "framing"}
        method: Any = open_method(name, random_backbone(tokenizer), CONFIGS[name].model_validate(settings), 3, team)
        with method.roles.apart():
            with torch.no_grad():
                plan = method.plan(samples)
            figures = method.gradient(plan)
        weights = method.roles.parameters("student").values()
        parts = len(team.share(plan.parts))
        found[name] = {"figures": figures, "gradients": [w.grad.clone() for w in weights], "parts": parts}
    return found


if __name__ == "__main__":
    with assembled() as team:
        torch.save(steps(team), Path(sys.argv[1]))
