"""One process of `test_team`: leaves its gradients of one step in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from transformers import AutoTokenizer

from agents.transformers_engine.backbone import Backbone
from tests.trainer.conftest import SMALL, TINY, random_backbone, solved_samples
from trainer.lesson import Lesson
from trainer.methods.lopd import Lopd
from trainer.methods.registry import open_method
from trainer.round_config import CONFIGS
from trainer.sharding import sharded
from trainer.team import Team, assembled


def steps(team: Team, prepare: Callable[[Backbone], Team] | None = None) -> dict[str, Any]:
    """One step of each method."""

    def ready() -> tuple[Backbone, Team]:
        backbone = random_backbone(tokenizer)
        return backbone, prepare(backbone) if prepare else team

    tokenizer = AutoTokenizer.from_pretrained(TINY)
    samples = [
        replace(sample, episode=replace(sample.episode, task_id=f"t{index // 2}"))
        for index, sample in enumerate(solved_samples(tokenizer, 6, 2))
    ]
    found: dict[str, Any] = {}
    base, mates = ready()
    lopd = Lopd(base, SMALL.model_copy(update={"micro_tokens": 200, "checkpointing": prepare is not None}), 3, mates)
    lopd.freeze()
    with lopd.equipment.roles.apart():
        figures = lopd._gradients(samples, student=True, composer=True)
        parts = len(team.share(Lesson.of(lopd.equipment, samples, attached=True).batches))
    weights = [*lopd._student.parameters, *lopd._composer.parameters]
    found["lopd"] = {"figures": figures, "gradients": [w.grad.clone() for w in weights], "parts": parts}
    for name in ("sdpo", "grpo"):
        settings = {"micro_tokens": 150, "checkpointing": prepare is not None, "student": {"rank": 4, "alpha": 8.0}}
        if name == "sdpo":
            settings |= {"evidence": "retrieved", "wording": "framing"}
        base, mates = ready()
        method: Any = open_method(name, base, CONFIGS[name].model_validate(settings), 3, mates)
        with method.roles.apart():
            with torch.no_grad():
                plan = method.plan(samples)
            figures = method.gradient(plan)
        weights = method.roles.parameters("student").values()
        parts = len(team.share(plan.parts))
        found[name] = {"figures": figures, "gradients": [w.grad.clone() for w in weights], "parts": parts}
    return found


def sharded_steps(team: Team) -> dict[str, Any]:
    """One step of each over a base that is spread over the team."""
    mesh = init_device_mesh("cpu", (team.size,))

    def spread(backbone: Backbone) -> Team:
        return sharded(backbone.model, team, mesh)

    return steps(team, spread)


if __name__ == "__main__":
    with assembled() as assembled_team:
        run = sharded_steps if sys.argv[2:] else steps
        torch.save(run(assembled_team), Path(sys.argv[1]))
